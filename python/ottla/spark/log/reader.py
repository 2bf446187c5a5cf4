"""Batches of log files: the driver finds the segments, and each task reads a part of one."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla import TopicPartition
from ottla.log import INTERNAL_TOPICS, Log, LogRange, open_log
from ottla.spark.log.options import LogOptions
from ottla.spark.plan.read_options import Topics
from ottla.spark.shared.offsets import Offsets, Partition, names
from ottla.spark.shared.pickling import Picklable
from ottla.spark.shared.ranges import Range, Seen

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.read.layout import Layout


class LogReader(Picklable, DataSourceReader):
    """Reads segments, once."""

    def __init__(self, options: LogOptions, layout: "Layout") -> None:
        self._options, self._layout = options, layout

    def partitions(self) -> Sequence[InputPartition]:
        """One task per segment, or more for large ones."""
        from ottla.spark.plan.planner import Planner

        options = self._options
        log = open_log(
            options.path,
            remote=options.remote,
            private_keys=options.private_keys(),
            isolation_level=options.isolation,
            storage_options=dict(options.storage),
        )
        spans = Planner(options.read, _Folders(log)).batch()
        return [
            InputPartition(part)
            for span in spans
            for part in log.ranges((span.topic, span.partition), span.start, span.end, max_bytes=options.max_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of a part, in columns."""
        # Spark makes one partition without a value of an empty plan; before 4.2, that partition is None.
        part = getattr(partition, "value", None)
        return iter(()) if part is None else self._rows(part)

    def _rows(self, part: LogRange) -> Iterator["pa.RecordBatch"]:
        from ottla.spark.read.dead_letters import failure
        from ottla.spark.read.range_reader import BATCH_ROWS
        from ottla.spark.shared.formats import FAILFAST
        from ottla.spark.shared.worker_process import spare_collections

        spare_collections()
        typed = self._options.read.typed
        for batch in part.read(dict(self._options.storage)):
            for first in range(0, len(batch), BATCH_ROWS):
                rows, bad = self._layout.decode(batch[first : first + BATCH_ROWS])
                if bad and typed is not None and typed.mode == FAILFAST:
                    raise failure(bad[0])
                yield from rows


class _Folders:
    """The planner's metadata of a cluster, from its files."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.ids: dict[str, str] = {}

    def partitions(self, topics: Topics) -> list[Partition]:
        """All partitions that are to be read."""
        there: list[Partition] = [(at.topic, at.partition) for at in self._log.partitions]
        if topics.assigned:
            if missing := sorted(set(topics.assigned) - set(there)):
                raise ValueError(f"option assign names {names(missing)}, of which there is no folder in option path")
            return list(topics.assigned)
        if topics.names:
            if missing_topics := sorted(set(topics.names) - {topic for topic, _ in there}):
                raise ValueError(
                    f"option subscribe names topic {missing_topics[0]}, of which there is no folder in option path"
                )
            return [at for at in there if at[0] in topics.names]
        pattern = re.compile(topics.pattern or "")
        return [at for at in there if at[0] not in INTERNAL_TOPICS and pattern.search(at[0])]

    def earliest(self, partitions: list[Partition]) -> Offsets:
        """The first offset of each partition."""
        offsets = self._log.beginning_offsets(partitions)
        return {partition: offsets[TopicPartition(*partition)] for partition in partitions}

    def latest(self, partitions: list[Partition]) -> Offsets:
        """The offset after the last record of each partition."""
        offsets = self._log.end_offsets(partitions)
        return {partition: offsets[TopicPartition(*partition)] for partition in partitions}

    # No option of a read of files needs the following methods.

    def at_times(self, times: Offsets) -> dict[Partition, int | None]:
        """Not supported: only brokers know this."""
        raise NotImplementedError(f"files do not have the offsets at times of {names(times)}")

    def record_bytes(self, starts: Offsets, ends: Offsets) -> dict[Partition, float]:
        """Not supported: only streams call this."""
        raise NotImplementedError(f"files do not have the bytes of records of {names(starts)}")

    def committed(self, group: str, partitions: list[Partition]) -> Offsets:
        """Not supported: only brokers know this."""
        raise NotImplementedError(f"files do not have the committed offsets of group {group}")

    def last_seen(self, spans: list[Range]) -> dict[Partition, Seen]:
        """Not supported: only streams call this."""
        raise NotImplementedError(f"there are no streams of files, nor of {spans}")
