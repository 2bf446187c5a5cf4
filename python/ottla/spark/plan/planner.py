"""Where reads begin and end: the driver combines the user's options with the brokers' offsets."""

import logging
import time
import warnings
from datetime import UTC, datetime, timedelta
from typing import Protocol

from ottla.errors import KafkaError
from ottla.spark.plan.filters import Narrowing
from ottla.spark.plan.limits import Patience, limit, records_of, waiting
from ottla.spark.plan.positions import EARLIEST, LATEST, Group, Position
from ottla.spark.plan.read_options import ReadOptions, Topics
from ottla.spark.plan.tasks import records_of_tasks, split
from ottla.spark.plan.topic_history import TopicHistory
from ottla.spark.shared.offsets import Offsets, Partition, names
from ottla.spark.shared.ranges import Range, Seen, ranges

LOG = logging.getLogger("ottla.spark")


class DataLossError(KafkaError):
    """Records that the query was to read are gone from Kafka."""


class DataLossWarning(UserWarning):
    """Records are gone under failOnDataLoss=false: the query continues with those that are left."""


class Log(Protocol):
    """The planner's metadata of a cluster.

    Attributes:
        ids: The ids of the topics that `partitions` found last, if brokers return them (Kafka 2.8 and later).
    """

    ids: dict[str, str]

    def partitions(self, topics: Topics) -> list[Partition]:
        """All partitions that are to be read now."""

    def earliest(self, partitions: list[Partition]) -> Offsets:
        """The first offset that each partition still holds."""

    def latest(self, partitions: list[Partition]) -> Offsets:
        """Return the offset after the last record of each partition that may be read."""

    def at_times(self, times: Offsets) -> dict[Partition, int | None]:
        """The first offset of each partition whose record is at or after a time; None without one.

        Args:
            times: Milliseconds since 1970 UTC.
        """

    def record_bytes(self, starts: Offsets, ends: Offsets) -> dict[Partition, float]:
        """The bytes of keys and values, on average for an offset, of the first records between start and end."""

    def committed(self, group: str, partitions: list[Partition]) -> Offsets:
        """The committed offsets of a consumer group, without partitions that have none."""

    def last_seen(self, spans: list[Range]) -> dict[Partition, Seen]:
        """The last record of each range; without ranges whose last offsets hold none, or do not arrive in time."""


class Planner:
    """Resolves the positions of one read.

    Args:
        options: What is read.
        log: The cluster.
        past: What a stream remembers of it; None for a batch.
    """

    def __init__(self, options: ReadOptions, log: Log, past: TopicHistory | None = None) -> None:
        self._options = options
        self._log = log
        self._past = past

    def report(self, what: str) -> None:
        """Fail on data loss, or warn.

        Raises:
            DataLossError: `failOnDataLoss` is true.
        """
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. To continue with the records that are left, set option failOnDataLoss to false"
            )
        warnings.warn(what, DataLossWarning, stacklevel=2)

    def batch(self, narrowing: Narrowing | None = None) -> list[Range]:
        """The ranges of a batch read.

        Args:
            narrowing: What Spark's filters leave of it.

        Raises:
            ValueError: The read ends before it begins, or a position is named of what is not there.
            DataLossError: A named offset is gone, or was never written, under `failOnDataLoss`.
        """
        partitions = self._log.partitions(self._options.topics)
        begins = self._options.start or Position("startingOffsets", EARLIEST)
        ends = self._options.end or Position("endingOffsets", LATEST)
        start, end = self._resolve(begins, partitions), self._resolve(ends, partitions, ending=True)
        for partition, until in sorted(end.items()):
            if until < start[partition]:
                raise ValueError(
                    f"the read of {names([partition])} ends at offset {until} (option {ends.option}), before offset "
                    f"{start[partition]} where it begins (option {begins.option})"
                )
        spans = ranges(start, end, {}, self.report)
        return self._split(spans if narrowing is None else self._narrowed(spans, narrowing))

    def initial(self) -> Offsets:
        """Where a new stream begins."""
        return self._resolve(self._options.stream_start, self._log.partitions(self._options.topics))

    def latest(self, known: Offsets) -> Offsets:
        """Where all partitions end now, including those discovered since.

        A broker that lags behind can return an offset below a known one. The request is repeated, up to
        `fetchOffset.numRetries` times, before the lower offset is accepted.

        Args:
            known: Offsets that were there before.

        Raises:
            DataLossError: A topic was recreated since this query read it, under `failOnDataLoss`.
        """
        partitions = self._log.partitions(self._options.topics)
        self._compare(known)
        latest = self._log.latest(partitions)
        for _ in range(1, self._options.fetch_attempts):
            behind = sorted(p for p, offset in latest.items() if offset < known.get(p, 0))
            if not behind:
                break
            LOG.warning("Asking again for the end of %s, which was below an offset read before", names(behind))
            time.sleep(self._options.fetch_interval)
            latest = self._log.latest(partitions)
        return latest

    def waiting(self, start: Offsets, end: Offsets) -> int:
        """How many offsets a micro-batch without a limit would read."""
        return sum(waiting(self._with_new(start, end), end).values())

    def within_limits(self, start: Offsets, latest: Offsets, patience: Patience) -> Offsets:
        """Where the next batch ends under the user's limits; at its start if it waits for more records."""
        # Counting costs a request to the brokers where partitions are new.
        if self._options.min_offsets and patience.waits(self.waiting(start, latest), time.monotonic()):
            return start
        return self.limited(start, latest)

    def limited(self, start: Offsets, end: Offsets) -> Offsets:
        """`end`, or the earlier position that the limits of a trigger allow."""
        begin = self._with_new(start, end)
        most = self._options.max_offsets
        if self._options.max_bytes is not None and (sizes := waiting(begin, end)):
            bytes_each = self._log.record_bytes({p: begin[p] for p in sizes}, end)
            allowed = records_of(self._options.max_bytes, sizes, bytes_each)
            most = min((n for n in (most, allowed) if n is not None), default=None)
        return end if most is None else limit(most, begin, end)

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """The ranges of a micro-batch."""
        spans = ranges(start, end, self._earliest_of_new(start, end), self.report)
        if self._past is not None:
            spans = self._past.marked(spans)
            # Before tasks begin: a record that is lost after this was there.
            self._past.stands(start, end, self._log.last_seen(spans))
        return self._split(spans)

    def compare(self, known: Offsets) -> None:
        """Check that the topics are those that the stream has read up to these offsets.

        Raises:
            DataLossError: One was recreated, under `failOnDataLoss`.
        """
        self._log.partitions(self._options.topics)
        self._compare(known)

    def _compare(self, known: Offsets) -> None:
        """Report topics that were recreated, and remember the ids of all."""
        if self._past is None:
            return
        for topic, was, now in self._past.replaced(self._log.ids):
            read = ", ".join(f"{names([at])} to offset {end}" for at, end in sorted(known.items()) if at[0] == topic)
            self.report(
                f"topic {topic} was deleted and recreated: the stream has read the topic with id {was}"
                f"{f' ({read})' if read else ''}, and the one with id {now} has other records at these offsets"
            )
        self._past.topics_are(self._log.ids)

    def _split(self, spans: list[Range]) -> list[Range]:
        options = self._options
        of_each = None
        if options.max_task_bytes is not None and spans:
            starts = {(span.topic, span.partition): span.start for span in spans}
            ends = {(span.topic, span.partition): span.end for span in spans}
            of_each = records_of_tasks(options.max_task_bytes, self._log.record_bytes(starts, ends))
        return split(spans, options.min_partitions, options.max_records, of_each)

    def _with_new(self, start: Offsets, end: Offsets) -> Offsets:
        return {**start, **self._earliest_of_new(start, end)}

    def _earliest_of_new(self, start: Offsets, end: Offsets) -> Offsets:
        new = sorted(end.keys() - start.keys())
        return self._log.earliest(new) if new else {}

    def _narrowed(self, spans: list[Range], narrowing: Narrowing) -> list[Range]:
        spans = [narrowing.clip(span) for span in spans if narrowing.takes((span.topic, span.partition))]
        spans = [span for span in spans if span.end > span.start]
        if narrowing.since is None or not spans:
            return spans
        # Requested after the ends are known: a later record is beyond them anyway.
        firsts = self._log.at_times({(span.topic, span.partition): narrowing.since for span in spans})
        found = [(span, firsts[span.topic, span.partition]) for span in spans]
        return [span._replace(start=max(span.start, first)) for span, first in found if first is not None]

    def _resolve(self, position: Position, partitions: list[Partition], *, ending: bool = False) -> Offsets:
        at = position.at
        if position.group is not None:
            at = self._committed(position.group, partitions)
        elif isinstance(at, dict):
            _require_all(position, at, partitions)
        if position.timed:
            return self._resolve_times(position, partitions, ending=ending)
        if isinstance(at, int):
            return (self._log.latest if at == LATEST else self._log.earliest)(partitions)
        earliest, latest = self._log.earliest(partitions), self._log.latest(partitions)
        resolved: Offsets = {}
        for partition, offset in at.items():
            first, last = earliest[partition], latest[partition]
            resolved[partition] = first if offset == EARLIEST else last if offset == LATEST else offset
            if not first <= resolved[partition] <= last:
                self.report(
                    f"option {position.option} requests offset {offset} of {names([partition])}, "
                    f"which holds {first} to {last}"
                )
                resolved[partition] = min(max(offset, first), last)
        return resolved

    def _committed(self, group: Group, partitions: list[Partition]) -> Offsets:
        found = self._log.committed(group.id, partitions)
        if not found and partitions and group.default is None:
            raise ValueError(
                f"option startingOffsets: group {group.id} has committed no offset of {names(partitions[:3])}. Correct "
                "its name, or set option kafka.auto.offset.reset to earliest or latest to begin there"
            )
        default = EARLIEST if group.default is None else group.default
        return {partition: found.get(partition, default) for partition in partitions}

    def _resolve_times(self, position: Position, partitions: list[Partition], *, ending: bool) -> Offsets:
        times = position.at if isinstance(position.at, dict) else dict.fromkeys(partitions, position.at)
        found = self._log.at_times(times)
        none = sorted(partition for partition, offset in found.items() if offset is None)
        if none and not ending and not self._options.latest_if_none:
            raise ValueError(
                f"option {position.option}: {names(none[:1])} has no record at or after {_moment(times[none[0]])}; set "
                "startingOffsetsByTimestampStrategy to latest to begin such partitions at their end"
            )
        ends = self._log.latest(none) if none else {}
        return {partition: ends[partition] if offset is None else offset for partition, offset in found.items()}


def _moment(millis: int) -> str:
    try:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    except OverflowError:
        return str(millis)
    return f"{millis} ({when.isoformat(timespec='milliseconds')})"


def _require_all(position: Position, named: Offsets, partitions: list[Partition]) -> None:
    there = set(partitions)
    rule = "every partition that is read must be named, and no other"
    if not position.timed:
        rule += f"; {LATEST} stands for the latest offset, {EARLIEST} for the earliest"
    for wrong, what in ((there - named.keys(), "leaves out"), (named.keys() - there, "names what is not there,")):
        if wrong:
            raise ValueError(f"option {position.option} {what} {names(sorted(wrong))}: {rule}")
