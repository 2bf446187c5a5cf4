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

from measurement import TRANSACTION, WARM, topic_names
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
MOST_CREATED = 5_000
"""Partitions that one request creates. A controller rejects a request that takes it 10,000 records or more."""
JVM = (f"-Xms{HEAP}", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")


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
        self.create_all([topic], partitions)
        return topic

    def create_all(self, topics: list[str], partitions: int) -> None:
        """Create topics, each with so many partitions, and wait until the broker leads all of them."""
        from confluent_kafka.admin import NewTopic

        each = max(1, MOST_CREATED // partitions)
        for begin in range(0, len(topics), each):
            new = [NewTopic(topic, partitions, 1) for topic in topics[begin : begin + each]]
            for created in self._admin.create_topics(new, operation_timeout=120, request_timeout=120).values():
                created.result(150)
        end = time.monotonic() + 150
        while not self._leads(topics, partitions):
            if time.monotonic() > end:
                raise SystemExit(f"the broker does not lead {topics[0]} and the topics with it")
            time.sleep(0.2)

    def _leads(self, topics: list[str], partitions: int) -> bool:
        known = self._admin.list_topics(timeout=60).topics
        return all(
            name in known
            and len(known[name].partitions) == partitions
            and all(p.leader >= 0 for p in known[name].partitions.values())
            for name in topics
        )

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

    def delete_all(self, topics: list[str]) -> None:
        """Delete topics by one request."""
        for deleted in self._admin.delete_topics(topics, operation_timeout=120, request_timeout=120).values():
            deleted.result(150)

    def use_cores(self, cores: tuple[int, ...]) -> None:
        """Let all its threads, and those to come, run on these cores only; none given: on all."""
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores or range(os.cpu_count() or 1))

    def fill(
        self,
        topic: str,
        partitions: int,
        some: list[bytes],
        records: int,
        codec: str,
        batch: int,
        topics: int = 1,
    ) -> None:
        """Write the values again and again to a topic for consumers, or to several, as a steady producer that is not
        ours leaves it: keys of 8 digits, each partition in one go."""
        from confluent_kafka import Producer

        names = topic_names(topic, topics)
        self.create_all(names, partitions)
        size = len(some[0])
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
                shares: dict[tuple[str, int], list[dict[str, Any]]] = {}
                for i in numbers:
                    number, partition = divmod(i * len(names) * partitions // records, partitions)
                    message = {"value": some[i - begin], "key": b"%08d" % i}
                    shares.setdefault((names[number], partition), []).append(message)
                while len(producer) > 500_000 or len(producer) * size > 256 << 20:
                    producer.poll(0.05)
                # confluent-kafka 2.16 ignores the partition of a message, and lets the key choose.
                for (name, partition), messages in shares.items():
                    producer.produce_batch(name, messages, partition=partition, on_delivery=delivered)
                    failed += [m["_error"] for m in messages if "_error" in m]
                producer.poll(0)
                progress.update(len(numbers))
        if producer.flush(120) or failed:
            raise SystemExit(f"could not fill {topic}: {failed[:1] or 'no time left'}")

    def fill_by_transactions(self, topic: str, partitions: int, some: list[bytes], records: int, aborted: int) -> None:
        """Write a topic by transactions of 1,000 records, whose keys choose the partitions, until as many as asked for
        are committed. One of `aborted` transactions is aborted."""
        from confluent_kafka import Producer

        self.create(topic, partitions)
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": topic, "linger.ms": 50})
        producer.init_transactions(60)
        messages = [{"value": some[i], "key": b"%08d" % i} for i in range(TRANSACTION)]
        committed = number = 0
        while committed < records:
            number += 1
            producer.begin_transaction()
            producer.produce_batch(topic, messages)
            if number % aborted:
                producer.commit_transaction(60)
                committed += TRANSACTION
            else:
                producer.flush(60)  # an abort drops what is not sent yet
                producer.abort_transaction(60)


def warm(bootstrap: str, topic: str, partitions: int, records: int = WARM, topics: int = 1) -> None:
    """Write records to each partition of a new topic, or of several, so that no client waits for its leader and files.

    A broker first writes to the index of a partition at the record after the first 4 KiB, which can take it 5 ms.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(records):
        for name in topic_names(topic, topics):
            for partition in range(partitions):
                producer.produce(name, bytes(5_000), partition=partition)
        if producer.flush(60):
            raise SystemExit(f"{topic} does not take records")


@contextlib.contextmanager
def real_broker(protocol: Protocol = "PLAINTEXT", *, tls: bool = False) -> Iterator[Broker]:
    """Kafka, measured by this protocol; with `tls` it also has listeners for TLS. It has its defaults, except that it
    frees the space of deleted topics at once, and does not delay a group's first rebalance.

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
                yield Broker(at, process["pid"], protocol, str(cluster.st["tls"]["ca"]))
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
