"""Where reads begin and end: the driver combines the user's options with the brokers' offsets."""

import warnings
from typing import Protocol

from ottla.errors import KafkaError
from ottla.spark.offsets import EARLIEST, LATEST, Offsets, Partition, Range, limit, ranges
from ottla.spark.options import Position, ReadOptions


class DataLossError(KafkaError):
    """Records that the query was to read are gone from Kafka."""


class DataLossWarning(UserWarning):
    """Records are gone under failOnDataLoss=false: the query goes on with those that are left."""


class Log(Protocol):
    """What the planner needs to know of a cluster."""

    def partitions(self, topics: tuple[str, ...]) -> list[Partition]:
        """All partitions of the topics now."""

    def earliest(self, partitions: list[Partition]) -> Offsets:
        """The first offset that each partition still holds."""

    def latest(self, partitions: list[Partition]) -> Offsets:
        """The offset after the last record of each partition that may be read."""


class Planner:
    """Resolves the positions of one read."""

    def __init__(self, options: ReadOptions, log: Log) -> None:
        self._options = options
        self._log = log

    def report(self, what: str) -> None:
        """Fail on data loss, or warn.

        Raises:
            DataLossError: `failOnDataLoss` is true.
        """
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. To go on with the records that are left, set option failOnDataLoss to false; "
                "to keep records longer, raise the topic's retention"
            )
        warnings.warn(what, DataLossWarning, stacklevel=2)

    def batch(self) -> list[Range]:
        """The ranges of a batch read."""
        partitions = self._log.partitions(self._options.topics)
        start = self._resolve("startingOffsets", self._options.start, EARLIEST, partitions)
        end = self._resolve("endingOffsets", self._options.end, LATEST, partitions)
        return ranges(start, end, {}, self.report)

    def initial(self) -> Offsets:
        """Where a new stream begins."""
        partitions = self._log.partitions(self._options.topics)
        return self._resolve("startingOffsets", self._options.start, LATEST, partitions)

    def latest(self) -> Offsets:
        """Where all partitions end now, including those discovered since."""
        return self._log.latest(self._log.partitions(self._options.topics))

    def limited(self, most: int, start: Offsets, end: Offsets) -> Offsets:
        """`end`, or an earlier position that `most` records allow."""
        return limit(most, {**start, **self._earliest_of_new(start, end)}, end)

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """The ranges of a micro-batch."""
        return ranges(start, end, self._earliest_of_new(start, end), self.report)

    def _earliest_of_new(self, start: Offsets, end: Offsets) -> Offsets:
        new = sorted(end.keys() - start.keys())
        return self._log.earliest(new) if new else {}

    def _resolve(self, option: str, position: Position | None, default: int, partitions: list[Partition]) -> Offsets:
        position = default if position is None else position
        if isinstance(position, int):
            ask = self._log.latest if position == LATEST else self._log.earliest
            return ask(partitions)
        _require_all(option, position, partitions)
        earliest, latest = self._log.earliest(partitions), self._log.latest(partitions)
        resolved: Offsets = {}
        for partition, offset in position.items():
            first, last = earliest[partition], latest[partition]
            resolved[partition] = first if offset == EARLIEST else last if offset == LATEST else offset
            if not first <= resolved[partition] <= last:
                topic, number = partition
                self.report(f"{option} asks for offset {offset} of {topic}-{number}, which holds {first} to {last}")
                resolved[partition] = min(max(offset, first), last)
        return resolved


def _require_all(option: str, named: Offsets, partitions: list[Partition]) -> None:
    there = set(partitions)
    for wrong, what in ((there - named.keys(), "leaves out"), (named.keys() - there, "names what is not there,")):
        if wrong:
            listed = ", ".join(f"{topic}-{number}" for topic, number in sorted(wrong))
            raise ValueError(
                f"{option} {what} {listed}: every partition of the subscribed topics must be named, and no other; "
                f"{LATEST} stands for the latest offset, {EARLIEST} for the earliest"
            )
