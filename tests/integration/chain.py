"""Groups of ours one behind the other, on three nodes of real Kafka that are hurt all the time, with members that come and go.

    python -m tests.integration.chain                                  # each way to share partitions, each fault: hours
    python -m tests.integration.chain sticky --fault cut               # one of them
    python -m tests.integration.chain consumer --records 50000 --version 4.4.0

Records go through topics of 7, 11 and 31 partitions: two groups copy them on by `ottla.transform`, a third one reads the last
topic in transactions that commit offsets alone. Each group has members that stay, that leave at once, that leave after some
rounds and that come late. At each topic, two foreign clients must read each record once, those of a key in order (R8 to R12), and
no group may have committed past a record that it was not given, or have left one out.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

import ottla
from tests.integration.controls import Controls
from tests.integration.fault_runs import DEADLINE, FAULTS, RELEASES, Trouble, committed, three_nodes
from tests.integration.peers.confluent import Confluent
from tests.integration.peers.java import Java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.brokers.brokers import Cluster
    from tests.integration.messages import Message

PARTITIONS = (7, 11, 31)
KEYS = 1_000
STEADY = 2
# Seconds after which a group's member that stopped is not waited for.
PATIENCE = 10
LONGEST = 3_600

# The ways to share partitions, as settings of members; `static` members keep their names, and one comes back under its own.
WAYS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range"},
    "roundrobin": {"partition.assignment.strategy": "roundrobin"},
    "sticky": {"partition.assignment.strategy": "sticky"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "static": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


class Chain:
    """The topics and groups of a run, and what the last group was given."""

    def __init__(self, cluster: Cluster, way: str, records: int, progress: tqdm) -> None:
        self.controls, self.way, self.records, self.progress = Controls(cluster), way, records, progress
        self.bootstrap = str(cluster.st["bootstrap"]["PROXIED"])
        self.topics = [f"{way}-{partitions}" for partitions in PARTITIONS]
        self.given: list[set[tuple[int, int]]] = [set() for _ in PARTITIONS]
        self.counted = threading.Lock()

    def group(self, level: int) -> str:
        return f"group-of-{self.topics[level]}"

    def note(self, level: int, batch: ottla.Batch) -> None:
        """Note what a function of this level was given; a transaction that was aborted gives it again."""
        places = {(record.partition, record.offset) for record in batch}
        with self.counted:
            before = len(self.given[level])
            self.given[level] |= places
            if level == len(PARTITIONS) - 1:
                self.progress.update(len(self.given[level]) - before)

    def is_through(self) -> bool:
        return len(self.given[-1]) >= self.records


class Member(threading.Thread):
    """Reads a topic in its group, and copies it to the next one if there is one; it may leave after some rounds."""

    def __init__(self, chain: Chain, level: int, name: str, rounds: float = float("inf")) -> None:
        super().__init__(daemon=True, name=f"{chain.topics[level]}-{name}")
        self.chain, self.level, self.rounds = chain, level, rounds
        self.calls = 0
        self.failure: BaseException | None = None
        self.is_last = level == len(PARTITIONS) - 1
        consumer = {
            "auto.offset.reset": "earliest",
            "request.timeout.ms": 5_000,
            "max.poll.interval.ms": PATIENCE * 1_000,
            **WAYS[chain.way],
        }
        if "group.protocol" not in consumer:
            consumer |= {"session.timeout.ms": PATIENCE * 1_000, "heartbeat.interval.ms": 500}
        if chain.way == "static":
            consumer["group.instance.id"] = self.name
        self.made = ottla.transform(
            chain.bootstrap,
            self.copy,
            topics=chain.topics[level],
            group_id=chain.group(level),
            to=None if self.is_last else chain.topics[level + 1],
            max_records=1_000,
            retry_for=DEADLINE,
            consumer=consumer,
            producer={"request.timeout.ms": 5_000, "max.block.ms": 60_000},
        )
        self.start()

    def copy(self, batch: ottla.Batch) -> Iterable[ottla.NewRecord] | None:
        self.calls += 1
        if self.calls >= self.rounds:
            self.made.stop()
        self.chain.note(self.level, batch)
        if self.is_last:
            return None
        return [ottla.NewRecord(record.value, key=record.key) for record in batch]

    def run(self) -> None:
        try:
            self.made.run()
        except BaseException as error:
            self.failure = error

    def leave(self) -> None:
        self.made.stop()
        self.join(DEADLINE)
        assert not self.is_alive(), f"{self.name} does not leave"
        if self.failure:
            raise self.failure


class Passers(threading.Thread):
    """Members of one level that do not stay: one leaves at once, one after some rounds, and one comes when these have gone."""

    def __init__(self, chain: Chain, level: int) -> None:
        super().__init__(daemon=True)
        self.chain, self.level = chain, level
        self.is_done = threading.Event()
        self.lives = 0
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.is_done.is_set():
                    return
                # A static one comes back under its name before anybody else has its partitions.
                name = "passer" if self.chain.way == "static" else f"passer-{number}"
                member = Member(self.chain, self.level, name, rounds=20)
                if number % 3 == 0:
                    member.leave()
                while member.is_alive() and not self.is_done.wait(0.1):
                    pass
                member.leave()
                self.lives += 1
                self.is_done.wait(2)
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        self.is_done.set()
        self.join(DEADLINE)
        if self.failure:
            raise self.failure


def numbered(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values: the records of a key count up from 0."""
    for number in range(count):
        yield b"key-%d" % (number % KEYS), b"%d" % (number // KEYS)


def send(chain: Chain) -> None:
    """All records, some at a time, so that the groups work meanwhile."""
    with ottla.Producer(chain.bootstrap, delivery_timeout_ms=int(DEADLINE * 1_000)) as producer:
        pairs = list(numbered(chain.records))
        for begin in range(0, len(pairs), 5_000):
            some = pairs[begin : begin + 5_000]
            producer.send_many(chain.topics[0], [v for _, v in some], keys=[k for k, _ in some]).result(DEADLINE)
            time.sleep(0.05)


def check_order(records: int, log: list[Message], what: str) -> None:
    """Each record once, those of a key in order and in one partition."""
    found: dict[bytes, list[int]] = defaultdict(list)
    homes: dict[bytes, set[int]] = defaultdict(set)
    for m in log:
        assert m.key is not None
        assert m.value is not None
        assert m.partition is not None
        found[m.key].append(int(m.value))
        homes[m.key].add(m.partition)
    counts = Counter(key for key, _ in numbered(records))
    wrong = [key for key in counts.keys() | found.keys() if found[key] != list(range(counts[key]))]
    assert not wrong, f"{what}: {len(wrong)} keys, such as {wrong[0]!r}: {found[wrong[0]][:20]} (R8 to R12)"
    assert all(len(partitions) == 1 for partitions in homes.values()), f"{what}: a key in two partitions"


def check_commits(chain: Chain, level: int, log: list[Message]) -> None:
    """The group was given each record, and has committed all."""
    places = {(m.partition, m.offset) for m in log}
    left_out = places - chain.given[level]
    assert not left_out, f"{chain.group(level)} was not given {sorted(left_out)[:5]} (R10)"
    partitions = list(range(PARTITIONS[level]))
    offsets = committed(chain.controls.bootstrap, chain.topics[level], partitions, chain.group(level))
    open_ = [place for place in places if offsets[place[0]] <= place[1]]
    assert not open_, f"{chain.group(level)} has not committed {sorted(open_)[:5]} (R12)"


def run(cluster: Cluster, way: str, records: int, fault: str) -> str:
    """The whole of it; returns what is to be said of it."""
    with tqdm(total=records, desc=f"{way}, {fault}", unit="rec", disable=None) as progress:
        chain = Chain(cluster, way, records, progress)
        for topic, partitions in zip(chain.topics, PARTITIONS, strict=True):
            chain.controls.create(topic, partitions)
        levels = range(len(PARTITIONS))
        with Trouble(cluster, fault) as trouble:
            steady = [Member(chain, level, f"steady-{n}") for level in levels for n in range(STEADY)]
            passers = [Passers(chain, level) for level in levels]
            send(chain)
            late = [Member(chain, level, "late") for level in levels]
            end = time.monotonic() + LONGEST
            while not chain.is_through():
                assert time.monotonic() < end, f"{len(chain.given[-1])} of {records} records came through"
                # Who has ended says why.
                for member in [*steady, *late]:
                    if not member.is_alive():
                        member.leave()
                time.sleep(0.2)
            for passer in passers:
                passer.end()
            for member in [*steady, *late]:
                member.leave()
    for level, (topic, partitions) in enumerate(zip(chain.topics, PARTITIONS, strict=True)):
        chain.controls.wait_for_replicas(topic, partitions)
        log = Confluent().consume_committed(chain.controls.bootstrap, topic, partitions, records)
        check_order(records, log, f"{topic}, read by confluent-kafka")
        check_order(
            records, Java().consume_committed(chain.controls.bootstrap, topic, records), f"{topic}, read by Java"
        )
        check_commits(chain, level, log)
    lives = sum(passer.lives for passer in passers)
    return f"{records:,} once each and in order at each of {len(PARTITIONS)} topics; {lives} passers; {trouble.struck} faults"


def main() -> None:
    description, _, epilog = (__doc__ or "").partition("\n\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="chain", description=description, epilog=epilog, formatter_class=form)
    parser.add_argument("way", nargs="?", choices=WAYS, help="how partitions are shared; without it, each way")
    parser.add_argument("--fault", choices=FAULTS, help="what happens to the nodes; without it, one after the other")
    parser.add_argument(
        "--version", choices=RELEASES, default=RELEASES[0], help="Kafka's release (default: %(default)s)"
    )
    parser.add_argument("--records", type=int, default=500_000, help="records of each run (default: %(default)s)")
    given = parser.parse_args()
    for way in [given.way] if given.way else WAYS:
        if way == "consumer" and given.version != RELEASES[0]:
            print(f"{given.version} has no groups of the consumer protocol", flush=True)
            continue
        for fault in [given.fault] if given.fault else FAULTS:
            with tempfile.TemporaryDirectory() as folder, three_nodes(Path(folder) / "kafka", given.version) as cluster:
                begin = time.monotonic()
                said = run(cluster, way, given.records, fault)
                print(f"{given.version} {way}, nodes {fault}: {said}; {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
