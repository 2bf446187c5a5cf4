"""What a client is given to do, and the watch that measures it."""

from __future__ import annotations

import itertools
import json
import random
import re
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from scenarios import Content

CHUNK = 10_000
"""Records of one call that takes many, and between two looks at the clock."""
TRANSACTION = 1_000
"""Records of a transaction."""
WARM = 2
"""Records of each partition of a topic that a measurement begins to write to."""


@dataclass(frozen=True)
class Job:
    """One measurement's work.

    Attributes:
        bootstrap: host:port of the broker.
        topic: A filled topic to read, or an empty one to write to.
        partitions: How many it has.
        records: How many records to read, or at most to write; of a latency, how often it is taken; of rebalances, how
            often a member comes and goes.
        size: Bytes of a value.
        budget: Seconds after which a slow client stops.
        codec: What the topic is compressed with, or is to be.
        group: The group to be a member of, whose committed offsets are the partitions' beginnings; empty for none.
        properties: What the client is set up with, beyond its defaults.
        topics: How many topics there are, each with the same number of partitions.
        content: What values hold: `events`, or 100 columns as `json` or `avro`.
        aborted: One of this many transactions was aborted when the topic was filled; 0 if it has no transactions.
    """

    bootstrap: str
    topic: str
    partitions: int
    records: int
    size: int
    budget: float
    codec: str = "none"
    group: str = ""
    properties: dict[str, Any] = field(default_factory=dict)
    topics: int = 1
    content: Content = "events"
    aborted: int = 0

    @property
    def names(self) -> list[str]:
        """The names of its topics."""
        return topic_names(self.topic, self.topics)

    @property
    def targets(self) -> list[tuple[str, int]]:
        """Each partition of each topic."""
        return [(name, partition) for name in self.names for partition in range(self.partitions)]

    def wants_more(self, count: int, watch: Stopwatch) -> bool:
        """Whether a client that has done `count` records goes on: to the end or its budget, but not without any."""
        return count < self.records and (watch.spent() < self.budget or not count)

    @property
    def chunk(self) -> int:
        """Records that are sent by one call: fewer where they are large."""
        return max(1, min(CHUNK, (8 << 20) // self.size, self.records))

    def values(self) -> list[bytes]:
        """A chunk of values to send."""
        return values(self.size, self.chunk)

    def shares(self) -> dict[tuple[str, int], list[bytes]]:
        """A chunk of values to send to each partition of each topic in turn, by topic and partition."""
        shares: dict[tuple[str, int], list[bytes]] = {}
        for target, value in zip(itertools.cycle(self.targets), self.values(), strict=False):
            shares.setdefault(target, []).append(value)
        return shares

    def transaction(self) -> list[bytes]:
        """The values of a transaction."""
        return values(self.size, TRANSACTION)


def topic_names(topic: str, topics: int) -> list[str]:
    """One topic by its name, or several that are numbered."""
    return [topic] if topics == 1 else [f"{topic}-{number}" for number in range(topics)]


class Stopwatch:
    """Wall and processor time between `start` and `stop`; where there are any, the times of single records, those of
    rebalances as a member joins and as one leaves, and further figures by their names."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.peak: int | None = None
        self.laps = list[float]()
        self.rebalances: dict[str, list[float]] = {"join": [], "leave": []}
        self.more: dict[str, float] = {}

    def start(self) -> None:
        self.cpu, self.wall = _processor_time(), time.perf_counter()

    def stop(self) -> None:
        self.wall, self.cpu = time.perf_counter() - self.wall, _processor_time() - self.cpu

    def spent(self) -> float:
        return time.perf_counter() - self.wall

    def reported(self, wall: float, cpu: float, peak: int) -> None:
        """Take the figures of a client that runs, and is measured, in a process of its own."""
        self.wall, self.cpu, self.peak = wall, cpu, peak


async def look_at_each(records: AsyncIterable[Any], job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Read records one by one, and the length of each value; how many, and their bytes."""
    count = size = 0
    async for record in records:
        size += len(record.value)
        count += 1
        if not count % CHUNK and not job.wants_more(count, watch):
            break
    return count, size


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory(name: str, process: int | str = "self") -> int:
    """A field of /proc/PID/status in bytes, such as VmHWM, the most that was resident."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def events(size: int) -> list[bytes]:
    """Values that a topic for consumers is filled with."""
    return values(size, max(1, min(CHUNK, (32 << 20) // size)))


def values(size: int, count: int) -> list[bytes]:
    """`count` distinct values of `size` bytes: lines of JSON as events have them, always the same."""
    dice = random.Random(size)
    return [_value(dice, i, size) for i in range(count)]


def _value(dice: random.Random, number: int, size: int) -> bytes:
    text, events = b"", 0
    while len(text) < size:
        event = {
            "id": number * 2_654_435_761 % 2**32,
            "at": 1_700_000_000_000 + number * 37 + events,
            "user": f"user-{dice.randrange(5_000)}",
            "event": dice.choice(("view", "search", "click", "order")),
            "price": dice.randrange(10_000) / 100,
            "ok": dice.random() < 0.9,
        }
        text, events = text + json.dumps(event).encode(), events + 1
    return text[:size]
