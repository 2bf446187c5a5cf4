"""Where `consume` reads records from: brokers, as nobody's member, in a group or in a share group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, Self, cast

import ottla
from ottla._hints import AcknowledgeKind
from ottla.cli.consume.limits import LOOK, PATIENCE, Ends, GroupEnd, Idle, check_reader
from ottla.cli.consume.plan import Plan
from ottla.cli.consume.topics import check, missing
from ottla.cli.formats.rows import Rows
from ottla.cli.patterns import pattern
from ottla.cli.windows import Point, Window
from ottla.errors import ArgumentError, NotFoundError

Most = Callable[[], int | None]
"""The most records that are still wanted; None for any number."""


class Source(Protocol):
    """Something to read records from, in a `with` statement."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End."""

    def read(self, most: Most) -> Iterator[Rows]:
        """Records until the end, if there is one."""

    def written(self, rows: Rows, used: int) -> None:
        """The first `used` records of the batch of these rows were written or left out."""


class BrokerSource:
    """Reads partitions of brokers, all of them or those that a group assigns.

    Args:
        plan: What to read.
        topics: The names of the topics.
    """

    def __init__(self, plan: Plan, topics: list[str]) -> None:
        self._plan = plan
        self._topics = topics
        self._ends: dict[ottla.TopicPartition, int] | None = None
        config = dict(plan.config)
        if plan.window.begin.kind != "end" or self._is_placed():
            # Placed partitions start where they are told: records that are deleted meanwhile are passed over.
            config["auto.offset.reset"] = "earliest"
        read = None if plan.group is not None or self._is_placed() else topics
        self._consumer = ottla.Consumer(plan.bootstrap, topics=read, config=config)

    def _is_placed(self) -> bool:
        """Whether the command looks up the offsets itself. Otherwise partitions that are added are read, too."""
        if self._plan.group is not None:
            return False
        edge = self._plan.window in (Window(Point("end")), Window(Point("start")))
        return not edge or self._plan.exits or self._plan.partitions is not None or self._plan.tail is not None

    def __enter__(self) -> Self:
        """Look whether the topics are there, and join the group if there is one.

        Raises:
            NotFoundError: A topic does not exist.
        """
        consumer, plan = self._consumer, self._plan
        try:
            if plan.group is not None and plan.regex:
                consumer.subscribe(pattern(plan.topics))
                return self
            for topic in self._topics:
                consumer.partitions_for(topic, PATIENCE)
            if plan.group is not None:
                consumer.subscribe(self._topics)
        except NotFoundError as error:
            consumer.close(0)
            raise missing(plan, error) from error
        except BaseException:
            consumer.close(0)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the group, and disconnect."""
        if kind is not None and issubclass(kind, BrokenPipeError):
            # The records in the pipe are lost, and they are unknown.
            self._consumer._close(None, "nothing")  # noqa: SLF001 there is no other use for it
        else:
            self._consumer.__exit__(kind, error, at)

    def read(self, most: Most) -> Iterator[Rows]:
        """Records until the end, if there is one."""
        consumer, plan = self._consumer, self._plan
        if plan.tail is not None:
            yield from self._tail(plan.tail)
        elif self._is_placed() and not self._place():
            return
        idle = None if plan.idle is None else Idle(consumer, plan.idle)
        ends = None if self._ends is None else Ends(consumer, self._ends, waits=_waits(plan.window))
        group = GroupEnd(consumer) if plan.group is not None and plan.exits else None
        while True:
            check_reader()
            batch = consumer.poll(LOOK if idle is None else min(LOOK, idle.left()), max_records=most())
            if idle is not None and idle.is_over(batch):
                return
            yield ends.cut(batch) if ends is not None else Rows(batch)
            if ends is not None and ends.are_reached(batch):
                return
            if group is not None and group.is_reached(batch):
                return

    def written(self, rows: Rows, used: int) -> None:
        """Let the group commit no record that was not looked at."""
        if self._plan.group is None or used >= len(rows.batch):
            return
        consumer = self._consumer
        if self._plan.config.get("enable.auto.commit", "true").lower() == "true":
            offsets = {at: consumer.position(at, PATIENCE) for at in consumer.assignment()}
            offsets |= {at: span.start for at, span in rows.batch.spans.items()}
            offsets |= rows.batch[:used].next_offsets if used else {}
            consumer.commit(offsets, timeout=PATIENCE)
        consumer._close(None, "nothing")  # noqa: SLF001 the offsets are committed

    def _partitions(self) -> list[ottla.TopicPartition]:
        """The partitions of the topics that are wanted."""
        found = []
        for topic in self._topics:
            numbers = self._consumer.partitions_for(topic, PATIENCE)
            wanted = self._plan.partitions
            if wanted is not None and (missing := sorted(set(wanted) - set(numbers))):
                raise ArgumentError(
                    f"topic {topic} has no partition {missing[0]}: it has {len(numbers)}, from 0 to {len(numbers) - 1}"
                )
            found += [ottla.TopicPartition(topic, number) for number in (numbers if wanted is None else wanted)]
        return found

    def _place(self) -> bool:
        """Find the offsets of the window, and assign the partitions that have some. Returns whether there are any."""
        consumer, window = self._consumer, self._plan.window
        if self._plan.exits:
            window = window.with_end()
        partitions = self._partitions()
        starts = consumer.beginning_offsets(partitions, PATIENCE)
        ends = consumer.end_offsets(partitions, PATIENCE)
        times = {point.value for point in (window.begin, window.end) if point is not None and point.kind == "time"}
        found = {at: consumer.offsets_for_times(dict.fromkeys(partitions, at), PATIENCE) for at in times}

        def resolve(at: ottla.TopicPartition) -> tuple[int, int | None]:
            def at_time(moment: int) -> int | None:
                first = found[moment][at]
                return None if first is None else first.offset

            return window.resolve(starts[at], ends[at], at_time)

        spans = {at: resolve(at) for at in partitions}
        spans = {at: (begin, end) for at, (begin, end) in spans.items() if end is None or begin < end}
        if not spans:
            return False
        consumer.assign([ottla.TopicPartition(at.topic, at.partition, begin) for at, (begin, _) in spans.items()])
        if window.end is not None:
            self._ends = {at: end for at, (_, end) in spans.items() if end is not None}
        return True

    def _tail(self, count: int) -> Iterator[Rows]:
        """The newest records of each topic. The partitions are then read from there."""
        partitions = self._partitions()
        positions = self._consumer.end_offsets(partitions, PATIENCE)
        starts = self._consumer.beginning_offsets(partitions, PATIENCE)
        if self._plan.exits:
            self._ends = {at: end for at, end in positions.items() if starts[at] < end}
        for topic in self._topics:
            batch = last(self._plan, topic, count, positions)
            yield Rows(batch)
            positions |= {at: max(offset, positions[at]) for at, offset in batch.next_offsets.items()}
        self._consumer.assign([ottla.TopicPartition(at.topic, at.partition, end) for at, end in positions.items()])


def _waits(window: Window) -> bool:
    """Whether records are waited for that are not there yet."""
    return window.end is not None and window.end.kind == "end" and window.end.value > 0


def last(plan: Plan, topic: str, count: int, ends: dict[ottla.TopicPartition, int] | None = None) -> ottla.Batch:
    """The newest records of a topic.

    Args:
        plan: The partitions that count, and the consumer's properties.
        topic: The topic.
        count: The most records.
        ends: The offsets before which they are; None for all.
    """
    offsets = None
    if plan.partitions is not None or ends is not None:
        known = {} if ends is None else {at.partition: end for at, end in ends.items() if at.topic == topic}
        offsets = {number: range(known.get(number, 2**62)) for number in plan.partitions or known}
    return ottla.read(plan.bootstrap, topic, last=count, offsets=offsets, config=plan.config)


class LastSource:
    """Reads the newest records of each topic, and ends.

    Args:
        plan: What to read.
        topics: The names of the topics.
    """

    def __init__(self, plan: Plan, topics: list[str]) -> None:
        self._plan, self._topics = plan, topics

    def __enter__(self) -> Self:
        """Begin.

        Raises:
            NotFoundError: A topic does not exist.
        """
        check(self._plan, self._topics)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End."""

    def read(self, most: Most) -> Iterator[Rows]:  # noqa: ARG002 the number is known
        """The records."""
        for topic in self._topics:
            yield Rows(last(self._plan, topic, self._plan.last or 0))

    def written(self, rows: Rows, used: int) -> None:
        """Nothing is committed."""


class ShareSource:
    """Reads records of a share group, and acknowledges them when they are written.

    Args:
        plan: What to read.
        topics: The names of the topics.
    """

    def __init__(self, plan: Plan, topics: list[str]) -> None:
        config = {name: value for name, value in plan.config.items() if name != "allow.auto.create.topics"}
        config |= {"group.id": plan.share_group or "", "share.acknowledgement.mode": "explicit"}
        check(plan, topics)
        self._plan = plan
        self._kind = cast("AcknowledgeKind", plan.ack)
        self._consumer = ottla.ShareConsumer(plan.bootstrap, topics=topics, config=config)

    def __enter__(self) -> Self:
        """Join the group with the first poll."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the group. Records that are not acknowledged go to other members."""
        self._consumer.__exit__(kind, error, at)

    def read(self, most: Most) -> Iterator[Rows]:
        """Records until none came for a while, counted from when the group has assigned partitions."""
        consumer, limit = self._consumer, self._plan.idle
        since: float | None = None
        while True:
            check_reader()
            now = time.monotonic()
            batch = consumer.poll(LOOK if limit is None else min(LOOK, max(limit, 0.01)), max_records=most())
            if len(batch):
                since = time.monotonic()
                yield Rows(batch)
            elif since is None:
                since = now if consumer.assignment() else None
            elif limit is not None and time.monotonic() - since >= limit:
                return

    def written(self, rows: Rows, used: int) -> None:
        """Acknowledge the records, and wait until the broker has done it.

        Raises:
            KafkaError: The broker did not, for a partition: its records are delivered again.
        """
        batch = rows.batch
        if used:
            self._consumer.acknowledge(batch[:used], self._kind)
        if used < len(batch):
            self._consumer.acknowledge(batch[used:], "release")
        for error in self._consumer.commit(timeout=PATIENCE).values():
            if error is not None:
                raise error
