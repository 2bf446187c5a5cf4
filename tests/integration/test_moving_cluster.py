"""Three nodes of real Kafka in motion: leaders move, a node dies and returns, partitions are added, a topic is made anew.

One story a release is told once, while a producer sends and a sync and an asyncio consumer read; each test then judges one side
of what happened. Everything the cluster is told to do, and what its log is compared with, goes through foreign clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pytest

import ottla
import ottla.aio
from tests.integration.conftest import REAL, SHORT_SESSIONS, kafka_for_a_while
from tests.integration.controls import Controls
from tests.integration.stamps import Sent, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.messages import Message

pytestmark = [REAL]
RELEASES = ["4.4.0", "3.9.1", "2.8.2"]
NODES = 3
STEADY, REBORN = "steady", "reborn"
PARTITIONS, PARTITIONS_LATER = 3, 5
# More after than before, so that the position of before lies inside the log of after.
BEFORE, AFTER = 40, 120
PATIENCE = 20.0
# So that news are learned within the story, not after five minutes.
WATCHFUL = {"metadata_max_age_ms": 1000, "request_timeout_ms": 5_000}


class Read(NamedTuple):
    """A record as a consumer under test returned it."""

    topic: str
    partition: int
    offset: int
    value: bytes | None


class Reader(threading.Thread):
    """Polls both topics until it is halted; keeps what came and what was raised."""

    name_of_kind = "sync"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap, self.halted = bootstrap, threading.Event()
        self.records: list[Read] = []
        self.raised: list[BaseException] = []
        self.properties = {"topics": [STEADY, REBORN], "auto_offset_reset": "earliest", **WATCHFUL}
        self.start()

    def run(self) -> None:
        with ottla.Consumer(self.bootstrap, **self.properties) as consumer:
            while not self.halted.is_set():
                try:
                    self.take(consumer.poll(0.2))
                except ottla.KafkaError as error:
                    self.raised.append(error)
                    time.sleep(0.05)

    def take(self, batch: ottla.Batch) -> None:
        self.records += [Read(r.topic, r.partition, r.offset, r.value) for r in batch]

    def halt(self) -> None:
        self.halted.set()
        self.join(PATIENCE)
        assert not self.is_alive(), f"the {self.name_of_kind} consumer does not end"

    def of(self, topic: str, partition: int) -> list[Read]:
        return [r for r in list(self.records) if (r.topic, r.partition) == (topic, partition)]

    def count(self, topic: str) -> int:
        return sum(r.topic == topic for r in list(self.records))


class AioReader(Reader):
    """The same in asyncio, on a loop of its own."""

    name_of_kind = "asyncio"

    def run(self) -> None:
        asyncio.run(self.read())

    async def read(self) -> None:
        async with ottla.aio.Consumer(self.bootstrap, **self.properties) as consumer:
            while not self.halted.is_set():
                try:
                    self.take(await consumer.poll(0.2))
                except ottla.KafkaError as error:
                    self.raised.append(error)
                    await asyncio.sleep(0.05)


class Sender(threading.Thread):
    """Sends to every partition of `steady` in turn, until it is halted."""

    def __init__(self, producer: ottla.Producer) -> None:
        super().__init__(daemon=True)
        self.producer, self.halted = producer, threading.Event()
        self.sent = Sent("steady", STEADY)
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        sequence = 0
        try:
            while not self.halted.wait(0.005):
                for partition in range(PARTITIONS):
                    self.sent.send(self.producer, partition, sequence)
                # A partition that was added is refused until the producer has heard of it.
                with contextlib.suppress(ottla.errors.ArgumentError):
                    for partition in range(PARTITIONS, PARTITIONS_LATER):
                        self.sent.send(self.producer, partition, sequence)
                sequence += 1
        except BaseException as error:
            self.failure = error

    def halt(self) -> None:
        self.halted.set()
        self.join(PATIENCE)
        assert self.failure is None, f"send raised {self.failure!r}"
        self.producer.flush(PATIENCE)


class Listener(logging.Handler):
    """Keeps what the loggers under `ottla` say."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append((record.name, record.getMessage()))

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        logger = logging.getLogger("ottla")
        level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)


@dataclass
class Story:
    """What happened, for the tests to judge."""

    sent: Sent
    readers: list[Reader]
    steady: list[Message] = field(default_factory=list)
    """What the log of `steady` holds."""
    reborn: list[Message] = field(default_factory=list)
    """What the log of the new `reborn` holds."""
    said: list[tuple[str, str]] = field(default_factory=list)


@pytest.fixture(
    scope="module",
    params=[RELEASES[0], *(pytest.param(release, marks=pytest.mark.nightly) for release in RELEASES[1:])],
)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Everything that happens to a cluster of one release; the cluster ends with it."""
    config = {
        "auto.leader.rebalance.enable": "false",
        **SHORT_SESSIONS,
        "zookeeper.session.timeout.ms": "3000",
    }
    options = {"version": request.param, "nodes": NODES, "config": config, "heap": "320m"}
    listener = Listener()
    with kafka_for_a_while(tmp_path_factory.mktemp("moving"), **options) as cluster:
        with listener.attached():
            told = tell(Controls(cluster))
        told.said = listener.said
        yield told


def tell(controls: Controls) -> Story:
    controls.create(STEADY, PARTITIONS)
    controls.create(REBORN, 1)
    # Every node has heard of them by then; who assigns what a node does not know of is told so.
    controls.wait_for_replicas(STEADY, PARTITIONS)
    controls.wait_for_replicas(REBORN, 1)
    readers = [Reader(controls.bootstrap), AioReader(controls.bootstrap)]
    with ottla.Producer(controls.bootstrap, linger_ms=2, delivery_timeout_ms=60_000, **WATCHFUL) as producer:
        sender = Sender(producer)
        fill(producer, BEFORE, "before")
        told = Story(sender.sent, readers)
        try:
            controls.rotate_leaders(STEADY)
            node = controls.kill_leader(STEADY)
            time.sleep(2)
            controls.cluster.restart(node)
            controls.wait_for_replicas(STEADY, PARTITIONS)
            controls.elect_preferred(STEADY)
            controls.add_partitions(STEADY, PARTITIONS_LATER)
            remake(controls, readers)
            fill(producer, AFTER, "after")
            time.sleep(1)
            sender.halt()
            told.steady = controls.log(STEADY, PARTITIONS_LATER)
            told.reborn = controls.log(REBORN, 1)
            catch_up(readers, {STEADY: len(told.steady), REBORN: BEFORE + AFTER})
        finally:
            sender.halted.set()
            for reader in readers:
                reader.halt()
    return told


def fill(producer: ottla.Producer, count: int, run: str) -> None:
    """Records for `reborn` that say in which of its two lives they were sent."""
    for delivery in [producer.send(REBORN, stamp(run, REBORN, 0, n), partition=0) for n in range(count)]:
        delivery.result(PATIENCE)


def remake(controls: Controls, readers: list[Reader]) -> None:
    """Deletes a topic that everybody has read to its end, and makes it anew while they go on polling."""
    catch_up(readers, {REBORN: BEFORE})
    controls.delete(REBORN)
    time.sleep(2)
    controls.create(REBORN, 1)


def catch_up(readers: list[Reader], counts: dict[str, int]) -> None:
    """Waits until each reader has so many records of each topic; whether they are the right ones, or too few, is judged later."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and any(r.count(t) < n for r in readers for t, n in counts.items()):
        time.sleep(0.05)


def test_nothing_acknowledged_is_lost_or_doubled(story: Story) -> None:
    assert len({m.partition for m in story.steady}) == PARTITIONS_LATER
    story.sent.check(story.steady)


def test_poll_raises_nothing(story: Story) -> None:
    raised = [f"{reader.name_of_kind}: {error!r}" for reader in story.readers for error in reader.raised]
    assert not raised, f"{len(raised)} times: " + "; ".join(sorted(set(raised)))


@pytest.mark.parametrize("partitions", [range(PARTITIONS), range(PARTITIONS, PARTITIONS_LATER)], ids=["first", "added"])
def test_nothing_is_skipped_or_read_twice(story: Story, partitions: range) -> None:
    for reader in story.readers:
        for partition in partitions:
            held = [Read(STEADY, partition, m.offset, m.value) for m in story.steady if m.partition == partition]
            assert reader.of(STEADY, partition) == held, reader.name_of_kind


def test_a_topic_made_anew_is_read_from_its_beginning(story: Story) -> None:
    assert [m.value for m in story.reborn] == [stamp("after", REBORN, 0, n) for n in range(AFTER)]
    before = [Read(REBORN, 0, n, stamp("before", REBORN, 0, n)) for n in range(BEFORE)]
    after = [Read(REBORN, 0, m.offset, m.value) for m in story.reborn]
    for reader in story.readers:
        assert reader.of(REBORN, 0) == before + after, reader.name_of_kind


def test_the_log_says_what_happened(story: Story) -> None:
    lacking = missing_from(story.said)
    assert not lacking, f"of {len(story.said)} messages none says " + "; ".join(lacking)


def missing_from(said: list[tuple[str, str]]) -> list[str]:
    """Of what happened, what no logger said. Each message begins with the client's id."""
    wanted = [
        ("ottla.connection", r"^[\w-]+: connected to 127\.0\.0\.1:\d+ \(broker \d\) in \d+ ms$"),
        ("ottla.connection", r"^[\w-]+: (disconnected from|cannot connect to) 127\.0\.0\.1:\d+: "),
        (
            "ottla.cluster",
            rf"^[\w-]+: leader of {STEADY}-\d moved from (broker \d|none) to (broker \d|none) \(epoch -?\d+\)$",
        ),
        (
            "ottla.cluster",
            rf"^[\w-]+: topic {STEADY} has {PARTITIONS_LATER} partitions now, and had {PARTITIONS} before$",
        ),
        ("ottla.cluster", rf"^[\w-]+: topic {REBORN} is not available: "),
        ("ottla.cluster", rf"^[\w-]+: topic {REBORN} was deleted and created again$"),
        ("ottla.consumer", rf"^[\w-]+: offset of {REBORN}-0 was reset from {BEFORE} to 0: "),
        ("ottla.producer", r"^[\w-]+: producer id \d+, epoch \d+$"),
    ]
    return [
        f"{logger}: {text}" for logger, text in wanted if not any(n == logger and re.match(text, m) for n, m in said)
    ]
