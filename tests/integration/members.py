"""Members of groups of ours that read in threads of their own, and what they read."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import ottla
from tests.integration.peers.base import DEADLINE, until
from tests.python.conftest import Api
from tests.waiting import wait_for_ours

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.peers.franz import FranzMember

PARTITIONS, RECORDS = 4, 400

Read = Counter[tuple[int, int]]
# A member that writes what it reads, a few records at a time, until it is killed.
CHILD = """
import json, sys, time, ottla
bootstrap, topic, options = json.loads(sys.argv[1])
with ottla.Consumer(bootstrap, group_id=topic, topics=topic, **options) as consumer:
    while True:
        for record in consumer.poll(0.1, max_records=5):
            print(record.partition, record.offset, flush=True)
        time.sleep(0.05)
"""


def fill(bootstrap: str, topic: str, begin: int = 0, count: int = RECORDS, **options: Any) -> None:
    """So many records, in all partitions in turn."""
    with ottla.Producer(bootstrap, **options) as producer:
        sent = [producer.send(topic, str(value), partition=value % PARTITIONS) for value in range(begin, begin + count)]
        for delivery in sent:
            delivery.result(DEADLINE)


class Member(threading.Thread):
    """One of ours, in a thread of its own, which reads until it is told to leave. `topic` names the group, too.

    It is of the same facade as `api`, on a loop of its own.
    """

    def __init__(
        self, bootstrap: str, topic: str, *, api: Api | None = None, subscription: Any = None, **options: Any
    ) -> None:
        super().__init__(daemon=True)
        self.api = type(api)() if api else Api()
        self.consumer = self.api.module.Consumer(bootstrap, group_id=topic, **options)
        self.consumer.subscribe(subscription or topic, on_revoke=self.revoked, on_lost=self.lost)
        self.read: Read = Counter()
        self.late: list[tuple[int, int]] = []
        self.gone: set[int] = set()
        self.losses = 0
        self.leaves = threading.Event()
        self.failure: BaseException | None = None
        self.start()

    def revoked(self, partitions: list[ottla.TopicPartition]) -> None:
        self.gone |= {partition.partition for partition in partitions}

    def lost(self, partitions: list[ottla.TopicPartition]) -> None:
        self.losses += 1
        self.revoked(partitions)

    def run(self) -> None:
        try:
            with contextlib.closing(self):
                while not self.leaves.is_set():
                    batch = self.api(self.consumer.poll(0.1, max_records=20))
                    self.gone -= {partition.partition for partition in self.consumer.assignment()}
                    places = [(record.partition, record.offset) for record in batch]
                    self.late += [place for place in places if place[0] in self.gone]
                    self.read.update(places)
        except BaseException as error:
            self.failure = error

    def close(self) -> None:
        try:
            self.api(self.consumer.close())
        finally:
            self.api.end()

    def has(self) -> int:
        """How many partitions it is assigned; raises what ended it."""
        if self.failure:
            raise self.failure
        return len(self.consumer.assignment())

    def leave(self) -> Read:
        """Leave the group; gives what was read."""
        self.leaves.set()
        self.join(DEADLINE)
        assert not self.is_alive()
        if self.failure:
            raise self.failure
        assert self.late == [], "records of revoked partitions"
        return self.read


def read_by_one_who_is_killed(bootstrap: str, topic: str, options: dict[str, Any]) -> Read:
    """What a member in a process of its own was given of the topic, until SIGKILL in the middle."""
    command = [sys.executable, "-c", CHILD, json.dumps([bootstrap, topic, options])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        read: Read = Counter()
        for line in child.stdout:
            partition, offset = line.split()
            read[int(partition), int(offset)] += 1
            if len(read) == RECORDS // 2:
                break
        child.send_signal(signal.SIGKILL)
        for line in child.stdout.read().splitlines():
            partition, offset = line.split()
            read[int(partition), int(offset)] += 1
    return read


def leaves_and_comes_back(
    bootstrap: str, topic: str, api: Api, join: Callable[[], Member], options: dict[str, Any]
) -> None:
    """A member stands still for longer than `max.poll.interval.ms`: who joins gets all partitions until it polls again.

    The topic has a record in each partition.
    """
    lost: list[int] = []
    with api.consumer(bootstrap, group_id=topic, max_poll_interval_ms=3000, **options) as slow:
        slow.subscribe(topic, on_lost=lambda partitions: lost.append(len(partitions)))
        wait_for_ours(lambda: len(api(slow.poll(0.1))) > 0, "it reads")
        other = join()
        wait_for_ours(lambda: other.has() == PARTITIONS, "the other one has all, without any poll of the first")
        assert lost == []

        def is_back() -> bool:
            api(slow.poll(0.05))
            return len(slow.assignment()) == PARTITIONS // 2

        wait_for_ours(is_back, "it has its half again")
        assert lost == [PARTITIONS]
        other.leave()


def shares_with_franz(ours: Member, theirs: FranzMember, bootstrap: str, topic: str, **options: Any) -> None:
    """One of ours that has read the first records, and one of franz-go's, share the others, which it leaves to ours in the end."""
    read: Read = Counter()

    def happened(is_so: Callable[[], bool], what: str) -> None:
        for _ in until(DEADLINE, what):
            read.update((message.partition or 0, message.offset or 0) for message in theirs.poll())
            if is_so():
                return

    happened(lambda: len(theirs.assignment()) == ours.has() == PARTITIONS // 2, "each has its half")
    fill(bootstrap, topic, PARTITIONS, RECORDS // 2 - PARTITIONS, **options)
    happened(lambda: len({*ours.read, *read}) == RECORDS // 2, "both read all there is")
    assert len(read) >= RECORDS // 5, "it took part"
    read.update((message.partition or 0, message.offset or 0) for message in theirs.close())
    fill(bootstrap, topic, RECORDS // 2, RECORDS // 2, **options)
    for _ in until(DEADLINE, "ours reads the rest"):
        if whole(ours.read, read):
            break
        time.sleep(0.05)
    all_once(ours.leave(), read)


def whole(*reads: Read) -> bool:
    return len(set().union(*reads)) == RECORDS


def all_once(*reads: Read) -> None:
    total = sum(reads, Counter[tuple[int, int]]())
    assert len(total) == RECORDS
    assert {place: times for place, times in total.items() if times > 1} == {}
