"""Offsets of many partitions: their JSON, how a trigger's limit is shared out, and the ranges that tasks read.

Nothing here talks to a broker. The JSON is that of Spark's Kafka source, `{"topic":{"0":123}}`, topics and partitions
in order, so that either source can take up the other's checkpoint.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

# In the JSON of startingOffsets and endingOffsets; ListOffsets uses the same two numbers the other way round.
LATEST = -1
EARLIEST = -2

Partition = tuple[str, int]
Offsets = dict[Partition, int]
# How to report records that are gone: it raises under failOnDataLoss, else it warns.
ReportLoss = Callable[[str], None]


class Range(NamedTuple):
    """The records of one partition from offset `start`, inclusive, to `end`, exclusive."""

    topic: str
    partition: int
    start: int
    end: int


def to_json(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Offsets as the value that Spark keeps in its checkpoint."""
    told: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        told.setdefault(topic, {})[str(partition)] = offset
    return told


def from_json(told: Mapping[str, Mapping[str, int]]) -> Offsets:
    """What `to_json` made, or Spark's Kafka source."""
    return {(topic, int(partition)): offset for topic, parts in told.items() for partition, offset in parts.items()}


def parse(option: str, text: str) -> Offsets:
    """The offsets that a user wrote as JSON.

    Args:
        option: The option's name, for the error.
        text: Such as `{"topic": {"0": 23, "1": -1}}`; -1 is the latest offset, -2 the earliest.

    Raises:
        ValueError: The text is something else.
    """
    shape = f'{option} must be "earliest", "latest" or JSON such as {{"topic": {{"0": 23, "1": -1}}}}'
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{shape}; {text!r} is not JSON: {error}") from error
    if not isinstance(told, dict) or not told:
        raise ValueError(f"{shape}; got {text!r}")
    offsets: Offsets = {}
    for topic, parts in told.items():
        if not isinstance(parts, dict) or not parts:
            raise ValueError(f"{shape}; for topic {topic!r} it holds {parts!r}")
        for partition, offset in parts.items():
            offsets[topic, _partition(shape, topic, partition)] = _offset(shape, topic, partition, offset)
    return offsets


def _partition(shape: str, topic: str, partition: str) -> int:
    if not (partition.isascii() and partition.isdigit()):
        raise ValueError(f"{shape}; topic {topic!r} has no partition named {partition!r}")
    return int(partition)


def _offset(shape: str, topic: str, partition: str, offset: Any) -> int:
    # A bool is an int to Python, and not to JSON.
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST:
        raise ValueError(
            f"{shape}; topic {topic!r} partition {partition} has offset {offset!r}, "
            f"which is neither an offset nor {LATEST} (latest) nor {EARLIEST} (earliest)"
        )
    return offset


def limit(most: int, start: Offsets, end: Offsets) -> Offsets:
    """Share at most `most` records among partitions, in proportion to the records that wait in each.

    A partition with waiting records moves by at least one, so that small ones do not starve; the sum can exceed `most`
    by that much, as it can in Spark's Kafka source.

    Args:
        most: Records for the whole trigger.
        start: The position of each partition; a partition without one is left alone.
        end: Where each partition ends now.

    Returns:
        Ends between `start` and `end`.
    """
    waiting = {p: end[p] - start[p] for p in end if p in start and end[p] > start[p]}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    shares = {p: max(1, math.floor(most * size / total)) for p, size in waiting.items()}
    return {p: start[p] + min(shares[p], waiting[p]) if p in waiting else offset for p, offset in end.items()}


def ranges(start: Offsets, end: Offsets, earliest: Offsets, report: ReportLoss) -> list[Range]:
    """The ranges that a micro-batch reads.

    Args:
        start: Where the batch begins.
        end: Where it ends; may name partitions that are new since `start`.
        earliest: Where each new partition begins.
        report: Called for records that can no longer be read.

    Returns:
        The ranges that are not empty, in order.
    """
    gone = sorted(start.keys() - end.keys())
    if gone:
        report(
            f"partitions {_names(gone)} were there and are gone: their topic was deleted, or its name is not subscribed"
        )
    planned = []
    for (topic, partition), until in sorted(end.items()):
        begin = start.get((topic, partition))
        if begin is None:
            begin = earliest[topic, partition]
            if begin > 0:
                report(f"new partition {topic}-{partition} begins at offset {begin}, not 0: what stood before is gone")
        if until < begin:
            report(
                f"partition {topic}-{partition} ends at offset {until}, before offset {begin} where reading stands: "
                "the topic was deleted and made anew, or its log was cut"
            )
        elif until > begin:
            planned.append(Range(topic, partition, begin, until))
    return planned


def _names(partitions: list[Partition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)
