"""Offsets of many partitions: the JSON in which Spark keeps them, and the ranges that tasks read.

Nothing here talks to a broker. The JSON is that of Spark's Kafka source, `{"topic":{"0":123}}`, topics and partitions
in order, so that either source can take up the other's checkpoint.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla._sasl._tokens import Token

Partition = tuple[str, int]
Offsets = dict[Partition, int]
# How to report records that are gone: it raises under failOnDataLoss, else it warns.
ReportLoss = Callable[[str], None]


class Seen(NamedTuple):
    """A record that was read. Its log is another one if it is not there any more.

    Attributes:
        next: The offset after it.
        epoch: The epoch of the leader that wrote it.
    """

    next: int
    epoch: int


class Range(NamedTuple):
    """The records of one partition from offset `start`, inclusive, to `end`, exclusive.

    Attributes:
        topic: The topic.
        partition: The partition.
        start: The first offset.
        end: The offset after the last one.
        seen: The last record before `start`, which must still be there; None if it is not known.
        token: What the task authenticates with, if the driver fetched it (`ottla.spark.shared.tokens`). A repr hides
            it.
    """

    topic: str
    partition: int
    start: int
    end: int
    seen: Seen | None = None
    token: "Token | None" = None


def to_json(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Offsets as the value that Spark keeps in its checkpoint."""
    told: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        told.setdefault(topic, {})[str(partition)] = offset
    return told


def from_json(told: Mapping[str, Mapping[str, int]]) -> Offsets:
    """What `to_json` made, or Spark's Kafka source."""
    return {(topic, int(partition)): offset for topic, parts in told.items() for partition, offset in parts.items()}


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
            f"partitions {names(gone)} were there and are gone: their topic was deleted, or its name is not subscribed"
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


def names(partitions: Iterable[Partition]) -> str:
    """Partitions as errors name them."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def named(offsets: Mapping[Partition, int]) -> str:
    """Partitions with their offsets, as errors name them."""
    return ", ".join(f"{topic}-{partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
