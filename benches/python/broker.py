"""The broker that is measured on, and its topics."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurement import WARM, values
from scenarios import HEARTBEAT_MS
from tests.brokers.brokers import Cluster, listens
from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenarios import Protocol

KAFKA = "4.4.0"
USER, PASSWORD = "alice", "alice-secret"
FIRST_PORT = 31000
# As `kafka-server-start.sh` has it.
HEAP = "1g"
JVM = (f"-Xms{HEAP}", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
CHUNK = 10_000


class Broker:
    """A running broker.

    Attributes:
        bootstrap: host:port of the plaintext listener, for what is not measured.
        pid: Its process.
        protocol: What is measured, where a scenario does not say otherwise.
        ca: The file of the authority that its listeners with TLS are to be trusted by; empty if it has none.
    """

    def __init__(self, addresses: dict[str, str], pid: int, protocol: Protocol = "PLAINTEXT", ca: str = "") -> None:
        from confluent_kafka.admin import AdminClient

        self.bootstrap, self.pid = addresses["PLAINTEXT"], pid
        self.protocol, self.ca, self._addresses = protocol, ca, addresses
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def address(self, protocol: Protocol) -> str:
        """host:port of the listener with this protocol."""
        return self._addresses[protocol]

    def create(self, topic: str, partitions: int) -> str:
        from confluent_kafka.admin import NewTopic

        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
        return topic

    def commit_beginnings(self, group: str, topic: str, partitions: int) -> None:
        """Commit the first offset of each partition for a group that has no members yet."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        end = time.monotonic() + 60
        try:
            while True:
                try:
                    beginnings = [TopicPartition(topic, p, 0) for p in range(partitions)]
                    committed = consumer.commit(offsets=beginnings, asynchronous=False)
                    if failed := [p.error for p in committed if p.error]:
                        raise KafkaException(failed[0])
                    break
                except KafkaException:  # the first group of a broker waits for the topic of offsets
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.2)
        finally:
            consumer.close()

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(60)

    def use_cores(self, cores: tuple[int, ...]) -> None:
        """Let all its threads, and those to come, run on these cores only; none given: on all."""
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores or range(os.cpu_count() or 1))

    def fill(self, topic: str, partitions: int, size: int, records: int, codec: str, batch: int) -> None:
        """Write a topic for consumers, as a steady producer that is not ours leaves it: keys of 8 digits, each
        partition in one go."""
        from confluent_kafka import Producer

        self.create(topic, partitions)
        some = values(size, max(1, min(CHUNK, (32 << 20) // size)))
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 50,
                "batch.size": batch,
                "batch.num.messages": 1_000_000,
                "compression.type": codec,
                "message.max.bytes": 2_000_000,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 512 << 10,
            }
        )
        failed = list[Any]()

        def delivered(error: Any, _: Any) -> None:
            if error:
                failed.append(error)

        with tqdm(total=records, desc=f"fill {topic}", unit="rec", mininterval=0.5, leave=False) as progress:
            for begin in range(0, records, len(some)):
                numbers = range(begin, min(records, begin + len(some)))
                messages = [
                    {"value": some[i - begin], "key": b"%08d" % i, "partition": i * partitions // records}
                    for i in numbers
                ]
                while len(producer) > 500_000 or len(producer) * size > 256 << 20:
                    producer.poll(0.05)
                producer.produce_batch(topic, messages, on_delivery=delivered)
                failed += [m["_error"] for m in messages if "_error" in m]
                producer.poll(0)
                progress.update(len(numbers))
        if producer.flush(60) or failed:
            raise SystemExit(f"could not fill {topic}: {failed[:1] or 'no time left'}")


def warm(bootstrap: str, topic: str, partitions: int, records: int = WARM) -> None:
    """Write records to each partition of a new topic, so that no client waits for its leader and files.

    A broker first writes to the index of a partition at the record after the first 4 KiB, which can take it 5 ms.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(records):
        for partition in range(partitions):
            producer.produce(topic, bytes(5_000), partition=partition)
        if producer.flush(60):
            raise SystemExit(f"{topic} does not take records")


@contextlib.contextmanager
def real_broker(*, tls: bool = False) -> Iterator[Broker]:
    """Kafka with its defaults, but that it frees deleted topics' space at once, and lets a group begin at once.

    To groups of the consumer protocol it says the heartbeat that classic members have in the bench of rebalances, and
    assigns as soon as a member comes or goes, where it would let a second pass after the last time.
    """
    port = next(p for p in range(FIRST_PORT, 32000, 100) if not any(listens(p + i) for i in range(100)))
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as folder:
        quick = {
            "log.segment.delete.delay.ms": "100",
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.assignment.interval.ms": "0",
            "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
            "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        }
        security = {"tls": True, "sasl": "scram"} if tls else {}
        cluster = Cluster.start(folder, version=KAFKA, port=port, config=quick, heap=HEAP, jvm=JVM, **security)
        try:
            [process] = [p for p in cluster.st["processes"].values() if p]
            at = cluster.st["bootstrap"]
            if tls:
                yield Broker(at, process["pid"], "SSL", str(cluster.st["tls"]["ca"]))
            else:
                yield Broker(at, process["pid"])
        finally:
            cluster.stop(grace=2.0)


@contextlib.contextmanager
def embedded_broker() -> Iterator[Broker]:
    """Our own, in memory, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "ottla", "broker", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 20
        while not listens(port):
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit(f"the embedded broker did not start: {_errors(process)}")
            time.sleep(0.05)
        yield Broker({"PLAINTEXT": f"127.0.0.1:{port}"}, process.pid)
    finally:
        process.terminate()
        process.wait(20)


def _errors(process: subprocess.Popen[bytes]) -> str:
    if process.stderr and select.select([process.stderr], [], [], 1)[0]:
        return os.read(process.stderr.fileno(), 4000).decode()
    return "it says nothing"
