"""What becomes of each micro-batch: good rows go to the table, dead letters to their folder, in few files.

Tasks send dead letters to a topic themselves. Their rows are only counted here.
"""

import json
import math
import threading

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from ottla.spark.ingest.identity import Batch
from ottla.spark.ingest.published_folder import PublishedFolder
from ottla.spark.ingest.settings import PLACE, Settings, Table
from ottla.spark.ingest.tables import Sink, sink
from ottla.spark.plan.checkpoint import FIRST
from ottla.spark.shared.formats import OF_KEYS
from ottla.spark.shared.offsets import Offsets, from_json
from ottla.spark.shared.storage import Folder

# Seconds until Spark reports the id of a started query.
PATIENCE = 60.0


class Stopped(Exception):  # noqa: N818 - nothing is wrong
    """A batch that begins after the job was stopped. It is read again when the job starts again."""


class Batches:
    """Takes the micro-batches of one query, by `foreachBatch`.

    Args:
        settings: Of the job.
        stopping: Set if no further batch may begin.
        quiet: Whether the Spark log has no other reader, which would show a refused batch as an error.
    """

    def __init__(self, settings: Settings, stopping: threading.Event, *, quiet: bool) -> None:
        self._settings = settings
        self._stopping = stopping
        self._quiet = quiet
        self._query: str | None = None
        self._known = threading.Event()
        self._sink: Sink | None = None
        self._letters: PublishedFolder | None = None
        self._row_bytes: float | None = None
        self.bad = 0
        self.refused = False

    def of(self, query: str) -> None:
        """Set the query's id.

        Spark reports it only when the query has started, and the first batch waits for it.
        """
        self._query = query
        self._known.set()

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Take a batch.

        Raises:
            Stopped: The job was stopped before it began.
            IngestError: The table has another batch of this number.
        """
        if self._stopping.is_set():
            self.refused = True
            if self._quiet:
                frame.sparkSession.sparkContext.setLogLevel("OFF")
            raise Stopped("the job was stopped")
        sink = self._target(frame.sparkSession)
        most = self._most_rows()
        batch = self._batch(frame.sparkSession, number)
        if batch.end:
            frame = frame.coalesce(max(1, math.ceil(_records(batch) / most)))
        rows, counted = frame, None
        if self._settings.letters or self._settings.topic:
            counted = Observation()
            bad = self._is_bad(frame)
            rows = frame.observe(counted, f.count_if(bad).alias("bad")).where(~bad).drop(*self._unwanted(frame))
        table = self._settings.table
        added = sink.add(batch, selected(filtered(rows, table), table), most)
        self._row_bytes = added.row_bytes or self._row_bytes
        # A batch that the table had already was not computed: a count of it would be waited for without end.
        bad_rows = counted.get["bad"] if counted is not None and added.computed else None
        if self._letters is None:
            self.bad += bad_rows or 0
        elif bad_rows != 0:
            written = self._letters.add(batch, self._dead(frame), most)
            self.bad += written.rows if written else 0

    def _target(self, spark: SparkSession) -> Sink:
        if self._sink is None:
            if not self._known.wait(PATIENCE) or self._query is None:
                raise TimeoutError(f"Spark did not report the id of the query within {PATIENCE:.0f} s")
            self._sink = sink(spark, self._settings.table, self._query)
            if self._settings.letters:
                self._letters = PublishedFolder(spark, self._settings.letters, self._query)
        return self._sink

    def _most_rows(self) -> int:
        """Most rows of a file: by `size` as soon as it is known how large a row is."""
        settings = self._settings
        if settings.size is None or self._row_bytes is None:
            return settings.rows
        return max(1, min(settings.rows, int(settings.size / self._row_bytes)))

    def _batch(self, spark: SparkSession, number: int) -> Batch:
        """Which batch it is, from Spark's log of offsets."""
        log = Folder(spark, self._settings.checkpoint)
        before = f"offsets/{number - 1}" if number else FIRST
        return Batch(number, _logged(log.read(before)), _logged(log.read(f"offsets/{number}")))

    def _corrupt(self, frame: DataFrame) -> dict[str, str]:
        """The columns with what does not decode, by `key` and `value`."""
        names = {"value": self._settings.corrupt, "key": self._settings.corrupt + OF_KEYS}
        return {side: name for side, name in names.items() if name in frame.columns}

    def _is_bad(self, frame: DataFrame) -> Column:
        bad = f.lit(False)
        for name in self._corrupt(frame).values():
            bad = bad | f.col(f"`{name}`").isNotNull()
        return bad

    def _unwanted(self, frame: DataFrame) -> tuple[str, ...]:
        return (*self._corrupt(frame).values(), *self._settings.added)

    def _dead(self, frame: DataFrame) -> DataFrame:
        """Where bad records stand in Kafka, and the bytes of them that do not decode."""
        corrupt = [f.col(f"`{name}`").alias(side) for side, name in self._corrupt(frame).items()]
        return frame.where(self._is_bad(frame)).select(*PLACE, *corrupt)


def filtered(frame: DataFrame, table: Table) -> DataFrame:
    """The rows that the table takes."""
    return frame.where(table.where) if table.where else frame


def selected(frame: DataFrame, table: Table) -> DataFrame:
    """The columns that the table takes."""
    return frame.selectExpr(*table.select) if table.select else frame


def _records(batch: Batch) -> int:
    """How many records a batch has at most."""
    return sum(until - max(0, batch.start.get(partition, 0)) for partition, until in batch.end.items())


def _logged(text: str | None) -> Offsets:
    """The offsets of the one source in a file of the Spark log: its last line."""
    try:
        return from_json(json.loads((text or "").strip().rpartition("\n")[2]))
    except (ValueError, AttributeError, TypeError):
        return {}
