"""Producers and transactions of ours on three nodes of real Kafka that are hurt all the time, for minutes.

    python -m tests.integration.fault_runs                           # all of it: about ten minutes
    python -m tests.integration.fault_runs produce --fault paused    # one part
    python -m tests.integration.fault_runs transform --version 2.8.2

`produce`: three producers send records, and what they were told is held against what another client reads (R1 to R7).
`transform`: workers read a topic and write another one by `ottla.transform`; some stop in the middle and go on when they are replaced
(R11 to R13).
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tqdm import tqdm

import ottla
from ottla import errors
from tests.integration.conftest import kafka_for_a_while
from tests.integration.controls import Controls
from tests.integration.peers.confluent import Confluent
from tests.integration.peers.java import Java
from tests.integration.stamps import read_stamp, stamp
from tests.pace import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Self

    from tests.brokers.brokers import Cluster
    from tests.integration.messages import Message

NODES, PARTITIONS, PRODUCERS, WORKERS = 3, 6, 3, 3
RELEASES = ["4.4.0", "3.9.1", "2.8.2"]
# Bytes of a batch: few, so that what piles up in a fault goes over all connections that a producer may have to a broker.
BATCH = 16_000
# Seconds until a broker that says nothing counts as gone.
SESSION = 3
# Records that one producer sends in a second, so that a run meets many faults.
PACE = 3_000
DEADLINE = 120.0
# Seconds of `delivery.timeout.ms`, and how much later a fate may be told on a machine that is busy.
DELIVERY, MARGIN = 60.0, 15.0
GROUP = "workers"

# --- what happens to the cluster


def killed(cluster: Cluster, node: int, stop: threading.Event) -> None:
    """SIGKILL, and back."""
    cluster.kill(f"node{node}")
    stop.wait(SESSION)
    cluster.restart(node)
    stop.wait(2)


def paused(cluster: Cluster, node: int, stop: threading.Event) -> None:
    """SIGSTOP for longer than its session: it comes back without knowing that others lead now."""
    cluster.kill(f"node{node}", signal.SIGSTOP)
    stop.wait(SESSION + 2)
    cluster.kill(f"node{node}", signal.SIGCONT)
    stop.wait(4)


def rolled(cluster: Cluster, node: int, stop: threading.Event) -> None:
    """Stopped in order, and started."""
    cluster.restart(node, grace=15)
    stop.wait(2)


def cut(cluster: Cluster, node: int, stop: threading.Event) -> None:
    """Every connection to the node dies after 0.5 to 1.5 s, or later on a machine on which a request takes longer."""
    stop.wait(patience(random.uniform(0.5, 1.5)) / NODES)
    cluster.fault(node, mode="reset")
    cluster.fault(node)


def torn(cluster: Cluster, node: int, stop: threading.Event) -> None:
    """SIGKILL, and back, while every connection to the others dies after 0.5 to 1.5 s."""
    cluster.kill(f"node{node}")
    others = itertools.cycle(other for other in range(1, NODES + 1) if other != node)
    end = time.monotonic() + SESSION
    while not stop.is_set() and time.monotonic() < end:
        cut(cluster, next(others), stop)
    cluster.restart(node)
    cut(cluster, next(others), stop)
    stop.wait(2)


FAULTS: dict[str, Callable[[Cluster, int, threading.Event], None]] = {
    f.__name__: f for f in (killed, paused, rolled, cut, torn)
}


class Trouble:
    """Hurts one node after the other while a block runs."""

    def __init__(self, cluster: Cluster, fault: str) -> None:
        self.cluster, self.fault = cluster, FAULTS[fault]
        self.stop, self.struck = threading.Event(), 0
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        try:
            for node in itertools.cycle(range(1, NODES + 1)):
                if self.stop.is_set():
                    return
                self.fault(self.cluster, node, self.stop)
                self.struck += 1
        except BaseException as error:
            self.failure = error

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(DEADLINE)
        if self.failure:
            raise self.failure


# --- producers


@dataclass
class Told:
    """What the producer of one run was told: by partition and sequence, an offset, or what the error says of the record."""

    run: str
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    failed: dict[tuple[int, int], bool | None] = field(default_factory=dict)
    # After how many seconds a callback was told of each record, each time that one was.
    fates: dict[tuple[int, int], list[float]] = field(default_factory=dict)

    def expect(self, place: tuple[int, int], delivery: ottla.Delivery) -> None:
        """Note when the fate of a record that was just sent is told."""
        begin, told = time.monotonic(), self.fates.setdefault(place, [])
        delivery.add_done_callback(lambda _: told.append(time.monotonic() - begin))

    def take(self, place: tuple[int, int], delivery: ottla.Delivery) -> None:
        assert delivery.done(), f"{self.run}: {place} was not resolved"
        error = delivery.exception(0)
        if error is None:
            self.offsets[place] = delivery.result(0).offset
        elif isinstance(error, errors.KafkaError):
            self.failed[place] = error.written
        else:
            raise error


def judge(topic: str, told: list[Told], log: list[Message]) -> None:
    """Hold the whole log of a topic against what its producers were told; see `stamps` for the invariants."""
    held: dict[str, dict[tuple[int, int], int]] = {each.run: {} for each in told}
    last: dict[tuple[str, int], int] = {}
    for m in log:
        run, of_topic, partition, sequence = read_stamp(m.value)
        assert run in held, f"a record of nobody: {run}"
        assert (of_topic, partition) == (topic, m.partition), f"{run}: a record in a strange place (R7)"
        assert (partition, sequence) not in held[run], f"{run}: {partition}, {sequence} is there twice (R2)"
        assert sequence > last.get((run, partition), -1), f"{run}: {partition}, {sequence} is out of order (R4)"
        held[run][partition, sequence] = m.offset
        last[run, partition] = sequence
    for each in told:
        there = held[each.run]
        for place, offset in each.offsets.items():
            assert place in there, f"{each.run}: {place} was acknowledged and is lost (R1)"
            assert there[place] == offset, f"{each.run}: {place} is at {there[place]}, and {offset} was told (R3)"
        for place, written in each.failed.items():
            assert written is None or (place in there) == written, f"{each.run}: {place}: told written={written} (R5)"
        for place in each.offsets.keys() | each.failed.keys():
            times = each.fates.get(place, [])
            assert len(times) == 1, f"{each.run}: the fate of {place} was told {len(times)} times (R6)"
            assert times[0] < DELIVERY + MARGIN, f"{each.run}: the fate of {place} was told after {times[0]:.0f} s (R6)"
        strange = there.keys() - each.offsets.keys() - each.failed.keys()
        assert not strange, f"{each.run}: records that were not sent: {sorted(strange)[:3]}"


def send_all(
    bootstrap: str,
    topic: str,
    told: Told,
    count: int,
    progress: tqdm,
    make: Callable[..., ottla.Producer] = ottla.Producer,
) -> None:
    """Send `count` records at an even pace; then learn the fate of each."""
    sent: list[tuple[tuple[int, int], ottla.Delivery]] = []
    options = {"batch_size": BATCH, "delivery_timeout_ms": int(DELIVERY * 1_000), "request_timeout_ms": 5_000}
    with make(bootstrap, **options) as producer:
        begin = time.monotonic()
        for number in range(count):
            place = (number % PARTITIONS, number // PARTITIONS)
            value = stamp(told.run, topic, *place)
            delivery = producer.send(topic, value, partition=place[0])
            told.expect(place, delivery)
            sent.append((place, delivery))
            if number % 100 == 99:
                time.sleep(max(0.0, begin + number / PACE - time.monotonic()))
                progress.update(100)
        producer.flush(DEADLINE)
    for place, delivery in sent:
        told.take(place, delivery)


def produce(cluster: Cluster, records: int, fault: str) -> str:
    """Three producers at once; returns what is to be said of it."""
    controls, topic = Controls(cluster), f"produced-{fault}"
    controls.create(topic, PARTITIONS)
    through = str(cluster.st["bootstrap"]["PROXIED"])
    told = [Told(f"{fault}-{n}") for n in range(PRODUCERS)]
    with (
        tqdm(total=records, desc=f"produce, {fault}", unit="rec", disable=None) as progress,
        Trouble(cluster, fault) as trouble,
    ):
        share = records // PRODUCERS
        in_parallel([lambda each=each: send_all(through, topic, each, share, progress) for each in told])
    controls.wait_for_replicas(topic, PARTITIONS)
    judge(topic, told, controls.log(topic, PARTITIONS))
    acknowledged = sum(len(each.offsets) for each in told)
    fates = Counter(written for each in told for written in each.failed.values())
    assert acknowledged > 0
    return f"{acknowledged:,} acknowledged, all there once; failed: {dict(fates) or 'none'}; {trouble.struck} faults"


# --- consume, transform, produce


class Worker:
    """Copies partitions of a topic to another by `ottla.transform`. Now and then it stops in the middle, and while a successor of
    the same name works, it wants to go on."""

    def __init__(self, bootstrap: str, source: str, sink: str, number: int, progress: tqdm) -> None:
        self.bootstrap, self.source, self.sink, self.progress = bootstrap, source, sink, progress
        self.name = f"{source}-worker-{number}"
        self.chance = random.Random(number)
        self.is_done, self.has_ended = threading.Event(), False
        self.outcomes: Counter[str] = Counter()

    def run(self) -> None:
        try:
            self.work()
        finally:
            self.has_ended = True

    def work(self) -> None:
        former: Incarnation | None = None
        while not self.is_done.is_set():
            current = Incarnation(self)
            while current.is_alive() and not current.is_stuck.is_set() and not self.is_done.is_set():
                # Its producer has the name by then: that of the former one is fenced.
                if former and current.calls >= 2:
                    self.bury(former)
                    former = None
                time.sleep(0.05)
            if former:
                self.bury(former)
                former = None
            if current.is_stuck.is_set():
                former = current
                continue
            current.end()
        if former:
            # Nobody has taken its place, so that it may go on, and finds nothing to do.
            former.is_released.set()
            former.made.stop()
            former.join(DEADLINE)
            assert not former.is_alive()

    def bury(self, former: Incarnation) -> None:
        """Whoever was replaced can do nothing any more (R13)."""
        former.is_released.set()
        former.join(DEADLINE)
        assert not former.is_alive(), f"{self.name}: a worker that was replaced goes on"
        assert isinstance(former.failure, errors.FencedError), former.failure
        self.outcomes[f"zombie: {type(former.failure).__name__}"] += 1


class Incarnation(threading.Thread):
    """One life of a worker."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(daemon=True)
        self.worker = worker
        self.calls = 0
        self.is_stuck, self.is_released = threading.Event(), threading.Event()
        self.failure: BaseException | None = None
        quick = {"request.timeout.ms": 5_000}
        self.made = ottla.transform(
            worker.bootstrap,
            self.copy,
            topics=worker.source,
            group_id=GROUP,
            to=worker.sink,
            transactional_id=worker.name,
            max_records=200,
            retry_for=DEADLINE,
            consumer=quick
            | {
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                # So long the group waits for one that stopped.
                "max.poll.interval.ms": 10_000,
            },
            producer=quick | {"max.block.ms": 60_000, "transaction.timeout.ms": 60_000},
        )
        self.start()

    def copy(self, batch: ottla.Batch) -> Iterator[ottla.NewRecord]:
        self.calls += 1
        yield from (ottla.NewRecord(record.value, partition=record.partition) for record in batch)
        if self.worker.chance.random() < 0.02:
            self.is_stuck.set()
            self.is_released.wait(DEADLINE)
        self.worker.progress.update(len(batch))

    def run(self) -> None:
        try:
            self.made.run()
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        """It has ended, or is to end."""
        self.made.stop()
        self.join(DEADLINE)
        assert not self.is_alive()
        if isinstance(self.failure, errors.FencedError):
            # Nobody else has this name, so that only a transaction that was open for too long explains it.
            self.worker.outcomes["gone: FencedError"] += 1
        elif self.failure is not None:
            raise self.failure


def committed(bootstrap: str, topic: str, partitions: list[int], group: str = GROUP) -> dict[int, int]:
    """A group's offsets, 0 where it has none, as another client is told them; it may take several attempts."""
    end = time.monotonic() + DEADLINE
    while True:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        try:
            found = consumer.committed([TopicPartition(topic, p) for p in partitions], 10)
            return {each.partition: max(each.offset, 0) for each in found}
        except KafkaException:
            if time.monotonic() > end:
                raise
        finally:
            consumer.close()


def transform(cluster: Cluster, records: int, fault: str) -> str:
    """Workers in transactions; returns what is to be said of it."""
    controls, source, sink = Controls(cluster), f"source-{fault}", f"sink-{fault}"
    for topic in (source, sink):
        controls.create(topic, PARTITIONS)
    through = str(cluster.st["bootstrap"]["PROXIED"])
    each = records // PARTITIONS
    with ottla.Producer(controls.bootstrap) as producer:
        for p in range(PARTITIONS):
            producer.send_many(source, [stamp(fault, sink, p, n) for n in range(each)], partitions=[p] * each)
    ends = dict.fromkeys(range(PARTITIONS), each)
    total = each * PARTITIONS
    with (
        tqdm(total=total, desc=f"transform, {fault}", unit="rec", disable=None) as progress,
        Trouble(cluster, fault) as trouble,
    ):
        workers = [Worker(through, source, sink, n, progress) for n in range(WORKERS)]

        def watch() -> None:
            end = time.monotonic() + 600
            try:
                while committed(controls.bootstrap, source, list(range(PARTITIONS))) != ends:
                    assert time.monotonic() < end, "the workers do not come to the end"
                    if any(worker.has_ended for worker in workers):
                        return  # it says why
                    time.sleep(0.5)
            finally:
                for worker in workers:
                    worker.is_done.set()

        in_parallel([watch, *(worker.run for worker in workers)])
    controls.wait_for_replicas(sink, PARTITIONS)
    assert committed(controls.bootstrap, source, list(range(PARTITIONS))) == ends, "the offsets of the group (R12)"
    wanted = {p: list(range(each)) for p in range(PARTITIONS)}
    by_confluent = Confluent().consume_committed(controls.bootstrap, sink, PARTITIONS)
    assert sequences(by_confluent, fault, sink) == wanted, (
        "confluent-kafka reads each record once and in order (R11, R12)"
    )
    by_java = Java().consume_committed(controls.bootstrap, sink, total)
    assert sequences(by_java, fault, sink) == wanted, "Java reads each record once and in order (R11, R12)"
    outcomes = sum((worker.outcomes for worker in workers), Counter())
    return f"{total:,} once each and in order, by confluent-kafka and Java; {dict(outcomes)}; {trouble.struck} faults"


def sequences(messages: list[Message], run: str, topic: str) -> dict[int, list[int]]:
    """The sequences of each partition, as they were read."""
    found: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
    for m in messages:
        of_run, of_topic, partition, sequence = read_stamp(m.value)
        assert (of_run, of_topic, partition) == (run, topic, m.partition)
        found[partition].append(sequence)
    return found


# --- the command


def in_parallel(jobs: list[Callable[[], None]]) -> None:
    """Run each on a thread of its own; what one raises is raised when all have ended."""
    failures: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def three_nodes(folder: Path, version: str) -> AbstractContextManager[Cluster]:
    """Three nodes behind fault proxies, that lose a node after `SESSION` seconds."""
    sessions = {"broker.session.timeout.ms": f"{SESSION}000", "zookeeper.session.timeout.ms": f"{SESSION}000"}
    # With one every 2 s, as usual, a node that stalls for a second is lost too.
    sessions |= {"broker.heartbeat.interval.ms": "500"}
    # A coordinator gives each member its whole session anew: where one lasts longer than coordinators do, a member that could
    # not say goodbye is one for ever.
    members = {"group.consumer.min.session.timeout.ms": "10000", "group.consumer.session.timeout.ms": "10000"}
    members |= {"group.consumer.min.heartbeat.interval.ms": "500", "group.consumer.heartbeat.interval.ms": "500"}
    config = {**sessions, **members, "min.insync.replicas": "2", "group.initial.rebalance.delay.ms": "0"}
    return kafka_for_a_while(folder, version=version, nodes=NODES, config=config, heap="320m", proxy="PLAINTEXT")


RUNS = {"produce": (produce, 500_000), "transform": (transform, 100_000)}


def main() -> None:
    description, _, epilog = (__doc__ or "").partition("\n\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="fault_runs", description=description, epilog=epilog, formatter_class=form)
    parser.add_argument("what", nargs="?", choices=RUNS, help="produce or transform; without it, both")
    parser.add_argument("--fault", choices=FAULTS, help="what happens to the nodes; without it, one after the other")
    parser.add_argument(
        "--version", choices=RELEASES, default=RELEASES[0], help="Kafka's release (default: %(default)s)"
    )
    parser.add_argument(
        "--records", type=int, help="records of each run (default: 500000 produced, 100000 transformed)"
    )
    given = parser.parse_args()
    for what in [given.what] if given.what else RUNS:
        run, records = RUNS[what]
        for fault in [given.fault] if given.fault else FAULTS:
            with tempfile.TemporaryDirectory() as folder, three_nodes(Path(folder) / "kafka", given.version) as cluster:
                begin = time.monotonic()
                said = run(cluster, given.records or records, fault)
                print(f"{given.version} {what}, nodes {fault}: {said}; {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
