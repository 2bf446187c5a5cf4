"""A job of `ottla ingest`: a session, a query, and its end."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DataType

from ottla.spark import ensure_java, register
from ottla.spark.ingest.batches import Batches, filtered, selected
from ottla.spark.ingest.beginning import Beginning
from ottla.spark.ingest.columns import check_folder
from ottla.spark.ingest.report import Report
from ottla.spark.ingest.settings import AVAILABLE_NOW, ONCE, Settings
from ottla.spark.ingest.spark_errors import IngestError, plain_errors
from ottla.spark.ingest.tables import check_package, properties
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.shared import redaction
from ottla.spark.shared.formats import is_ddl
from ottla.spark.shared.offsets import Offsets

# Spark gives a process of Python 10 s to start, whatever else the machine does, and there is no setting for it.
SLOW, STARTS = "Python worker failed to connect back", 4
# Seconds between two looks at the query.
LOOK = 0.1
# Defaults of a session: all cores of this machine, no web interface, and a log of errors only.
DEFAULTS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
# Beside that on this machine alone, of which others shall not know.
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class Outcome(NamedTuple):
    """What a job has done.

    Attributes:
        records: How many offsets it took.
        batches: In how many micro-batches.
        bad: How many of them are dead letters, as far as batches were computed by this run.
        behind: How many were left when the last batch began; None if Spark does not report it.
        stopped: Whether it was stopped.
    """

    records: int
    batches: int
    bad: int
    behind: int | None
    stopped: bool


class Stop:
    """The wish that a job ends: softly after the running micro-batch, or at once."""

    def __init__(self) -> None:
        self.softly = threading.Event()
        self.at_once = threading.Event()

    def request(self) -> None:
        """Request an end; the second time, an end at once."""
        (self.at_once if self.softly.is_set() else self.softly).set()


def run(settings: Settings, spark: SparkSession | None = None, stop: Stop | None = None) -> Outcome:
    """Run a job until its end, or until it is stopped.

    Args:
        settings: Of the job.
        spark: A session to run in; by default the session that is there already, or one of its own, which ends with it.
        stop: Ends it from another thread. In the main thread SIGINT and SIGTERM do.

    Raises:
        KeyboardInterrupt: It was stopped twice, which ends it at once.
        IngestError: The query failed.
        ConfigError: The format's package is missing, or columns do not fit.
    """
    stop, report = stop or Stop(), Report(settings.name, shown=settings.shown)
    report.doing("starting Spark")
    # Spark takes SIGINT for itself when its session is made.
    with _session(settings, spark) as (session, own), _signals(stop):
        register(session)
        check_package(session, settings)
        attempts = 0
        while True:
            attempts += 1
            try:
                with plain_errors(f"{settings.name}:"):
                    return _run(settings, session, stop, report, own=own)
            except IngestError as error:
                if SLOW not in str(error) or report.batches or attempts == STARTS:
                    raise IngestError(settings.shown(str(error))) from error.__cause__
                report.write("the Python of Spark did not start within 10 s; trying again")


def _run(settings: Settings, spark: SparkSession, stop: Stop, report: Report, *, own: bool) -> Outcome:
    batches = Batches(settings, stop.softly, quiet=own)
    query, begin = _start(settings, spark, batches)
    report.start(begin)
    batches.of(query.id)
    interrupted = False
    try:
        while query.isActive:
            report.progress(_news(query, report), batches.bad)
            if stop.at_once.is_set():
                interrupted = True
                break
            # Between two batches nothing is lost by an end; a batch that begins now refuses itself.
            if stop.softly.is_set() and not query.status["isTriggerActive"]:
                break
            time.sleep(LOOK)
    finally:
        query.stop()
        report.progress(_news(query, report), batches.bad)
        report.end(batches.bad)
    if interrupted:
        raise KeyboardInterrupt
    if not batches.refused and (error := query.exception()):
        raise error
    outcome = Outcome(report.records, report.batches, batches.bad, report.behind, stop.softly.is_set())
    report.write(_summary(settings, outcome))
    return outcome


def _news(query: StreamingQuery, report: Report) -> list[StreamingQueryProgress]:
    """Spark's progress of its last batches, if there is a new one: Spark reports it with a delay."""
    return [] if report.knows(query.lastProgress) else query.recentProgress


def _start(settings: Settings, spark: SparkSession, batches: Batches) -> tuple[StreamingQuery, Offsets | None]:
    """Start the query; with where its first batch begins, unless that is past."""
    _check_schemas(settings)
    beginning = Beginning(spark, settings)
    frame = spark.readStream.format("ottla").options(**redaction.hide(beginning.source)).load()
    _check_columns(settings, frame)
    beginning.keep()
    writer = frame.writeStream.foreachBatch(batches).queryName(settings.name)
    writer = writer.option("checkpointLocation", settings.checkpoint)
    if settings.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif settings.trigger == ONCE:
        writer = writer.trigger(once=True)
    else:
        writer = writer.trigger(processingTime=settings.trigger)
    return writer.start(), beginning.offsets


def _check_schemas(settings: Settings) -> None:
    """Refuse a schema in Spark's SQL that Spark cannot read. Its error later shows a text that the user never wrote."""
    typed = ReadOptions.parse(settings.source).typed
    for side in typed.sides if typed else ():
        if isinstance(side.schema, str) and is_ddl(side.schema):
            with plain_errors(f"{settings.file}: [source] {side.side}.schema: {side.schema!r} is wrong:"):
                DataType.fromDDL(side.schema)


def _check_columns(settings: Settings, frame: DataFrame) -> None:
    """Refuse columns that are not there, or do not fit those of the folder, now and not in the first batch."""
    place, table = f"{settings.file}: [table]", settings.table
    with plain_errors(f"{place} where:"):
        frame = filtered(frame, table)
    with plain_errors(f"{place} select:"):
        frame = selected(frame, table)
    if missing := [name for name in table.partition_by if name not in frame.columns]:
        raise IngestError(f"{place} partition-by names {missing[0]}, and the columns are {', '.join(frame.columns)}")
    if table.format == "parquet":
        check_folder(frame.sparkSession, table, frame.schema, place)


def _summary(settings: Settings, outcome: Outcome) -> str:
    count = f"{outcome.batches} batch{'' if outcome.batches == 1 else 'es'}"
    where = settings.letters or f"topic {settings.topic}"
    bad = f", {outcome.bad:,} of them dead letters in {where}" if outcome.bad else ""
    how = "stopped after" if outcome.stopped else "done:"
    return f"{how} {outcome.records:,} records in {count} into {settings.table}{bad}"


@contextmanager
def _session(settings: Settings, given: SparkSession | None) -> Iterator[tuple[SparkSession, bool]]:
    """The session to run in, and whether it is one of our own, which ends with the job."""
    found = given or SparkSession.getActiveSession()
    if found is not None:
        yield found, False
        return
    wanted = {**properties(settings.table), **settings.spark}
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Options of spark-submit take precedence over the file. A conf has them as soon as Java is
        # connected.
        SparkContext._ensure_initialized()  # noqa: SLF001 - there is no public way
        submitted = dict(SparkConf().getAll())
        wanted = {name: value for name, value in wanted.items() if name not in submitted}
    else:
        ensure_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        wanted = {**DEFAULTS, **wanted}
        if wanted["spark.master"].startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            wanted = {**LOCAL, **wanted}
    builder = SparkSession.builder.appName(settings.name)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session, True
    finally:
        session.stop()


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGBREAK, which only Windows has, request an end, if this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's signature
        stop.request()

    numbers = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGBREAK", signal.SIGTERM)}
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
