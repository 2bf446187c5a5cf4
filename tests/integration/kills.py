"""Groups whose members, processes of their own that commit by themselves, are killed in turn while records flow; and the judge of what
was given twice.

Members write down when a poll gave them what, the killer when it killed whom, all by the monotonic clock, which processes of one
machine share.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

import ottla
from tests.integration.peers.base import DEADLINE
from tests.waiting import wait_for_ours

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

TOPIC, PARTITIONS = "flow", 4
# Records of each partition in a second.
PACE = 100
# Seconds of `auto.commit.interval.ms`, and of a session.
INTERVAL, SESSION = 1.0, 8.0
# Seconds for which a group reads in peace before one of its members is killed.
PEACE = 2.5
# Seconds that threads of a client may need to hear of each other.
MARGIN = 0.2

# Prints what each poll gave, in one write. With `ahead`, it commits so many records more than it was given.
CHILD = """
import json, sys, time, ottla
bootstrap, topic, ahead, options = json.loads(sys.argv[1])
with ottla.Consumer(bootstrap, **options) as consumer:
    consumer.subscribe(topic, on_lost=lambda _: print(json.dumps({"lost": time.monotonic()}), flush=True))
    while True:
        batch = consumer.poll(0.05)
        given = [(record.partition, record.offset) for record in batch]
        print(json.dumps({"at": time.monotonic(), "given": given}), flush=True)
        if ahead and given:
            consumer.commit({(topic, partition): offset + 1 + ahead for partition, offset in given})
"""


@dataclass
class Life:
    """What became of one member, in seconds of the monotonic clock."""

    name: str
    # When a poll ended, and what it gave: partitions and offsets.
    polls: list[tuple[float, list[tuple[int, int]]]] = field(default_factory=list)
    # When the group went on without it.
    lost: list[float] = field(default_factory=list)
    killed: float | None = None

    def longest_pause(self, since: float, until: float) -> float:
        """The longest time without the end of a poll."""
        ends = [since, *(at for at, _ in self.polls if since < at < until), until]
        return max(later - earlier for earlier, later in pairwise(ends))


class Member:
    """A member in a process of its own, and what it writes down."""

    def __init__(self, name: str, bootstrap: str, ahead: int, options: dict[str, Any]) -> None:
        self.life = Life(name)
        command = [sys.executable, "-c", CHILD, json.dumps([bootstrap, TOPIC, ahead, options])]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.reading = threading.Thread(target=self.read, daemon=True)
        self.reading.start()

    def read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            # The last line of one that was killed may be torn: what it says was given out, and is as good as not written.
            if not line.endswith("\n"):
                return
            told = json.loads(line)
            if "lost" in told:
                self.life.lost.append(told["lost"])
            else:
                self.life.polls.append((told["at"], [tuple(place) for place in told["given"]]))

    def kill(self) -> None:
        self.life.killed = time.monotonic()
        self.end()

    def end(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)
        self.reading.join(DEADLINE)
        assert self.process.stdout
        self.process.stdout.close()


class Meanwhile(threading.Thread):
    """Runs while a block runs, until it sees that it is over."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.is_over = threading.Event()

    def close(self) -> None:
        """Ends what it has open."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.join(DEADLINE)
        self.close()


class Flow(Meanwhile):
    """Writes records to all partitions at a steady pace."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.producer = ottla.Producer(bootstrap, linger_ms=0)

    def run(self) -> None:
        begin, sent = time.monotonic(), 0
        while not self.is_over.wait(0.02):
            due = int((time.monotonic() - begin) * PACE)
            for _ in range(sent, due):
                for partition in range(PARTITIONS):
                    self.producer.send(TOPIC, b"%f" % time.monotonic(), partition=partition)
            sent = max(sent, due)

    def close(self) -> None:
        self.producer.close(DEADLINE)


class Control(Meanwhile):
    """Times how long the broker needs for a commit, again and again, by another client and in a group of its own."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "control", "enable.auto.commit": False})
        self.commits: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self.is_over.wait(0.05):
            begin = time.monotonic()
            while not self.is_over.is_set() and not self.is_committed():
                time.sleep(0.05)
            self.commits.append((begin, time.monotonic()))

    def is_committed(self) -> bool:
        """Commit once. A broker that is busy, or has no coordinator for the group yet, refuses; the next one is part of the same."""
        try:
            self.consumer.commit(offsets=[TopicPartition(TOPIC, 0, len(self.commits))], asynchronous=False)
        except KafkaException as refused:
            print(f"a commit by confluent-kafka was refused: {refused}")
            return False
        return True

    def longest(self, since: float, until: float) -> float:
        """Seconds of the longest commit that was under way between these instants."""
        return max((end - begin for begin, end in self.commits if begin < until and end > since), default=0.0)

    def close(self) -> None:
        self.consumer.close()


def run(bootstrap: str, group: str, *, kills: int, peace: float = PEACE, ahead: int = 0, **options: Any) -> list[Life]:
    """Keeps two members of a group that reads the flow, kills one after the other, and gives what became of all of them."""
    options = {
        "group_id": group,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": int(INTERVAL * 1000),
        "enable_auto_commit": not ahead,
        **options,
    }
    members = [Member(f"{group}-{number}", bootstrap, ahead, options) for number in range(2)]
    try:
        begin = time.monotonic()
        for number in range(kills):
            all_go_on(members, begin)
            time.sleep(peace + number * INTERVAL / kills)
            members[number].kill()
            begin = time.monotonic()
            members.append(Member(f"{group}-{number + 2}", bootstrap, ahead, options))
        all_go_on(members, begin)
    finally:
        for member in members:
            member.end()
    return [member.life for member in members]


def all_go_on(members: list[Member], since: float) -> None:
    """Wait until both members that live are given records, and each partition goes on."""
    living = [member.life for member in members if member.life.killed is None]

    def so() -> bool:
        recent = [{p for at, given in list(life.polls) if at > since for p, _ in given} for life in living]
        return all(recent) and set().union(*recent) == set(range(PARTITIONS))

    wait_for_ours(so, f"{living[-1].name} and another one share the partitions")


def judge(lives: Iterable[Life], control: Control | None = None) -> str:
    """Nothing was skipped, and what was given twice was given first by one that was killed, soon before that. Returns what is to
    be said of it."""
    given: dict[tuple[int, int], list[tuple[float, Life]]] = defaultdict(list)
    for life in lives:
        assert not life.lost, f"{life.name} lost its membership: this machine was too busy"
        for at, places in life.polls:
            for place in places:
                given[place].append((at, life))
    for partition in {partition for partition, _ in given}:
        offsets = sorted(offset for of, offset in given if of == partition)
        missing = sorted(set(range(offsets[-1])) - set(offsets))
        assert not missing, f"partition {partition}: {len(missing)} records are skipped, such as {missing[0]}"
    repeated, oldest = 0, 0.0
    for (partition, offset), times in given.items():
        for (at, first), (_, second) in pairwise(sorted(times, key=lambda it: it[0])):
            what = f"partition {partition}, offset {offset}: given by {first.name} and by {second.name}"
            assert first.killed is not None, f"{what}, though nobody was killed"
            assert first is not second, f"{what}, which is the same"
            allowed = allowance(first, first.killed, control)
            age = first.killed - at
            assert age <= allowed, f"{what}, first {age:.2f} s before the kill, of which {allowed:.2f} s are allowed"
            repeated, oldest = repeated + 1, max(oldest, age)
    return f"{len(given)} records, {repeated} of them twice, given at most {oldest:.2f} s before a kill"


def allowance(life: Life, killed: float, control: Control | None) -> float:
    """How long before its end a member may have been given what is given again: since the last commit that it had time for."""
    since = killed - 3 * INTERVAL
    # A poll says that what was given before may be committed, and begins the commit; one that is under way is waited for.
    commit = control.longest(since, killed) if control else 0.0
    return INTERVAL + life.longest_pause(since, killed) + 2 * commit + MARGIN
