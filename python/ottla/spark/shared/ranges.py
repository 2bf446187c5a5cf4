"""The ranges of offsets that tasks read."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.spark.shared.offsets import Offsets, names

if TYPE_CHECKING:
    from ottla._sasl._tokens import Token

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
                f"partition {topic}-{partition} ends at offset {until}, before offset {begin} of the next record: "
                "the topic was deleted and recreated, or its log was truncated"
            )
        elif until > begin:
            planned.append(Range(topic, partition, begin, until))
    return planned
