"""What a read of a part of a topic is, for threads and asyncio: steps that each wait for one operation."""

from __future__ import annotations

import bisect
import heapq
import operator
import time
from collections.abc import Generator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from ottla._hints import ConfigValue, keywords
from ottla._ottla import Batch, ConsumerCore, Operation
from ottla._types import TopicPartition
from ottla.errors import ArgumentError, KafkaTimeoutError, NotFoundError

Moment: TypeAlias = int | datetime | timedelta
Spans: TypeAlias = range | Mapping[int, range]
"""Offsets to read: one range for every partition, or a range by partition number."""
Steps: TypeAlias = Generator[Operation, Any, Batch]


# Seconds of one poll: where only markers of transactions are left, no record ends it.
SLICE = 0.05


def checked(
    topic: object,
    last: object,
    times: Mapping[str, object],
    offsets: object,
    config: Mapping[str, ConfigValue] | None,
    properties: Mapping[str, Any],
) -> dict[str, Any]:
    """Refuse what makes no sense, and choose the consumer's properties.

    Args:
        topic: The topic to read.
        last: The most records to return.
        times: The bounds by the names of their arguments.
        offsets: The offsets to read.
        config: Properties by Kafka's names.
        properties: Properties as keywords.

    Raises:
        ArgumentError: An argument has a wrong type, `last` or an offset is negative, or there is a group.
    """
    if not isinstance(topic, str):
        raise ArgumentError(f"topic is the name of one topic, and was {topic!r}: read several one by one")
    if last is not None and (isinstance(last, bool) or not hasattr(last, "__index__") or operator.index(last) < 0):
        raise ArgumentError(f"last is a number of records, from 0 up, and was {last!r}")
    for name, moment in times.items():
        if isinstance(moment, bool) or not (
            moment is None or isinstance(moment, (datetime, timedelta)) or hasattr(moment, "__index__")
        ):
            raise ArgumentError(
                f"{name} is milliseconds since 1970 UTC, a datetime with a time zone or a timedelta, which is so long "
                f"ago, and was {moment!r}"
            )
    _check_offsets(offsets)
    given = dict(config or {})
    if "group_id" in properties or "group.id" in given:
        raise ArgumentError("a read belongs to no group: leave group.id out, or use a Consumer")
    if "auto_offset_reset" not in properties:
        # Records that are deleted meanwhile are passed over, and no others.
        given.setdefault("auto.offset.reset", "earliest")
    return given


def _check_offsets(offsets: object) -> None:
    spans = offsets.values() if isinstance(offsets, Mapping) else () if offsets is None else (offsets,)
    for span in spans:
        if not isinstance(span, range) or span.step != 1 or span.start < 0:
            raise ArgumentError(
                f"offsets is a range of offsets with step 1, from 0 up, or such a range by partition number, as in "
                f"{{0: range(100, 200)}}, and was {offsets!r}"
            )
    if isinstance(offsets, Mapping):
        for number in offsets:
            if isinstance(number, bool) or not hasattr(number, "__index__"):
                raise ArgumentError(f"offsets has ranges by partition number, and one of the numbers was {number!r}")


def of_admin(config: Mapping[str, ConfigValue], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a consumer's properties that an admin client has, too."""
    known = keywords.AdminProperties.__annotations__
    given = {name.replace(".", "_"): value for name, value in (*config.items(), *properties.items())}
    return {name.replace("_", "."): value for name, value in given.items() if name in known}


def not_found(error: NotFoundError, topics: Iterable[str]) -> NotFoundError:
    """Make an error of a missing topic that names the nearest topic.

    Args:
        error: The error of the brokers.
        topics: The topics that exist.
    """
    import difflib  # it is not needed before

    near = difflib.get_close_matches(error.topic or "", topics, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "Admin.list_topics() lists the topics that exist"
    named = NotFoundError(f"topic {error.topic!r} does not exist: {error}; {hint}")
    named.__dict__.update(error.__dict__)
    return named


def steps(
    core: ConsumerCore,
    topic: str,
    last: int | None,
    since: Moment | None,
    until: Moment | None,
    offsets: Spans | None = None,
) -> Steps:
    """Read a part of a topic.

    Yields:
        Operations to wait for; their results are sent in.

    Returns:
        The records.
    """
    spans = yield from limits(core, topic, since, until, offsets)
    parts = []
    for each, span in spans.items():
        begin = TopicPartition(topic, each.partition, span.start)
        parts.append(
            (yield from (_part(core, begin, span.stop) if last is None else _tail(core, begin, span.stop, last)))
        )
    return Batch.concat(parts if last is None else _newest(parts, last))


def limits(
    core: ConsumerCore, topic: str, since: Moment | None, until: Moment | None, offsets: Spans | None
) -> Generator[Operation, Any, dict[TopicPartition, range]]:
    """Find the offsets that a part of a topic has now.

    Yields:
        Operations to wait for; their results are sent in.

    Returns:
        By partition the offsets to read; the range is empty if there are none.
    """
    numbers = yield core.partitions_for(topic, None)
    if isinstance(offsets, Mapping):
        if missing := sorted(set(map(operator.index, offsets)) - set(numbers)):
            raise ArgumentError(
                f"topic {topic!r} has no partition {missing[0]}, of which offsets has a range: it has {len(numbers)}, "
                f"numbered from 0"
            )
        numbers = [number for number in numbers if number in offsets]
    partitions = [TopicPartition(topic, number) for number in numbers]
    if not partitions:
        return {}
    starts = yield core.beginning_offsets(partitions, None)
    ends = yield core.end_offsets(partitions, None)
    if since is not None:
        found = yield core.offsets_for_times(dict.fromkeys(partitions, _moment(since)), None)
        starts = {each: found[each].offset if found[each] else ends[each] for each in partitions}
    if until is not None:
        found = yield core.offsets_for_times(dict.fromkeys(partitions, _moment(until)), None)
        ends = {each: min(found[each].offset, ends[each]) if found[each] else ends[each] for each in partitions}
    if offsets is not None:
        wanted = {each: offsets[each.partition] if isinstance(offsets, Mapping) else offsets for each in partitions}
        starts = {each: max(starts[each], wanted[each].start) for each in partitions}
        ends = {each: min(ends[each], wanted[each].stop) for each in partitions}
    return {each: range(starts[each], max(starts[each], ends[each])) for each in partitions}


def _moment(moment: Moment) -> int | datetime:
    if isinstance(moment, timedelta):
        return int((time.time() - moment.total_seconds()) * 1000)
    return moment


def _part(core: ConsumerCore, partition: TopicPartition, end: int) -> Steps:
    """The records of a partition from its offset on, to another."""
    batches: list[Batch] = []
    position, patience = partition.offset or 0, core.api_timeout()
    deadline = time.monotonic() + patience
    core.assign([partition])
    while position < end:
        batch: Batch = yield core.poll(SLICE, None)
        batches.append(batch[: bisect.bisect_left(range(len(batch)), end, key=lambda row: batch[row].offset)])
        before, position = position, (yield core.position(partition, None))
        if position > before:
            deadline = time.monotonic() + patience
        elif time.monotonic() > deadline:
            # If brokers are away, this fails and reports the cause.
            yield core.end_offsets([partition], 1.0)
            raise stalled(partition, position, end, patience)
    return Batch.concat(batches)


def stalled(partition: TopicPartition, position: int, end: int, patience: float) -> KafkaTimeoutError:
    """Make the error of a partition of which no more records came.

    Args:
        partition: The partition.
        position: The offset of the next record.
        end: The offset that the read ends before.
        patience: Seconds for which nothing came.
    """
    error = KafkaTimeoutError(
        f"nothing was read of {partition.topic}[{partition.partition}] from offset {position} on for "
        f"{patience:g} seconds (default.api.timeout.ms), though it ends at {end}"
    )
    error.topic, error.partition = partition.topic, partition.partition
    return error


def _tail(core: ConsumerCore, partition: TopicPartition, end: int, count: int) -> Steps:
    """The last records of a partition before an offset, but none before its own offset.

    Markers of transactions, aborted records and compaction leave offsets without a record: then it reads from further
    back.
    """
    start, begin, wanted = partition.offset or 0, end, count
    pieces: list[Batch] = []
    while begin > start and sum(map(len, pieces)) < count:
        stop, begin = begin, max(start, begin - wanted)
        piece = yield from _part(core, TopicPartition(partition.topic, partition.partition, begin), stop)
        pieces.insert(0, piece)
        wanted *= 2
    return Batch.concat(pieces)


def _newest(parts: list[Batch], count: int) -> list[Batch]:
    """Of all parts together the newest records: each loses its first ones. Parts with equal timestamps take turns."""
    starts = [len(part) for part in parts]
    newest = [(-part[-1].timestamp, 0, index) for index, part in enumerate(parts) if len(part)]
    heapq.heapify(newest)
    for _ in range(min(count, sum(starts))):
        _, taken, index = heapq.heappop(newest)
        starts[index] -= 1
        if starts[index]:
            heapq.heappush(newest, (-parts[index][starts[index] - 1].timestamp, taken + 1, index))
    return [part[start:] for part, start in zip(parts, starts, strict=True)]
