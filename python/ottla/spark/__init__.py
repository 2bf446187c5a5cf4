"""Spark reads and writes Kafka topics through ottla, without a jar.

`spark.read`, `spark.readStream`, `df.write` and `df.writeStream` take `.format("ottla")`. `spark.read` also takes
`.format("ottla-log")`, which reads the files of a broker's log without a broker.

Spark 3.5 knows no data sources in Python: there, and wherever you like, `read_kafka` gives the frame, `stream_kafka`
starts the stream and `write_kafka` writes the rows that `format("ottla")` would.

The packages `pyspark_ottla` and `pyspark_ottla_log`, which are installed with ottla, register the formats by
themselves. `register` registers them explicitly, and `ensure_java` finds a Java runtime for Spark.
`offsets_behind_latest` returns the lag of a stream, and `commit_listener` commits the offsets of a stream to a consumer
group.

Columns, options and the JSON of offsets are the same as in Spark's own Kafka source and sink (the "Structured Streaming
+ Kafka Integration Guide"), so changing one word moves a query to ottla, and its checkpoint with it.
"""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from ottla.spark.read.progress import offsets_behind_latest
from ottla.spark.shared import source_lookup
from ottla.spark.shared.java import ensure_java
from ottla.spark.shared.redaction import LOGIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from ottla.spark.read.foreach_batch import stream_kafka
    from ottla.spark.read.map_in_arrow import read_kafka
    from ottla.spark.write.map_in_arrow import write_kafka

__all__ = [
    "commit_listener",
    "ensure_java",
    "offsets_behind_latest",
    "read_kafka",
    "register",
    "stream_kafka",
    "write_kafka",
]


def __dir__() -> list[str]:
    return __all__


# They need PySpark, which the others need only when they are called.
_OF_FRAMES = {
    "read_kafka": "ottla.spark.read.map_in_arrow",
    "stream_kafka": "ottla.spark.read.foreach_batch",
    "write_kafka": "ottla.spark.write.map_in_arrow",
}

# The names of options whose values plans hide.
_HIDDEN = "spark.sql.redaction.options.regex"
# Of the file systems of logs no option is shown: each has secrets of its own.
_STORAGE = "(?i:^fsspec[.])"
# And the values: a URL that is signed. Those with a login, `redaction` knows.
_SIGNED = r"://[^?\s]*[?]\S*="


def __getattr__(name: str) -> object:
    if name in _OF_FRAMES:
        return getattr(import_module(_OF_FRAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def commit_listener(options: Mapping[str, str], query: str | None = None) -> "StreamingQueryListener":
    """Make a listener that commits what a stream has read to a consumer group, at the end of each micro-batch.

    Option `commitOffsetsToGroup` alone commits when the next batch begins, and so leaves out the last one.

    ```python
    spark.streams.addListener(commit_listener(options))
    ```

    Args:
        options: Those of the source, `commitOffsetsToGroup` among them.
        query: The name of the query (`queryName`); None for every query that reads these topics.

    Returns:
        The listener, for `spark.streams.addListener`.

    Raises:
        ValueError: An option is missing, unknown or has a bad value.
    """
    from ottla.spark.read.commit_listener import CommitListener

    return CommitListener(options, query)


def register(spark: "SparkSession") -> None:
    """Make `format("ottla")` and `format("ottla-log")` known to a session.

    It is needed in two cases: if Spark's Python does not find the package `pyspark_ottla`, of which the import of
    `ottla.spark` warns, or registers the formats with the session that is there; and in each thread of your
    own that calls `df.write`, since Spark finds no data source in Python from a thread that knows no session. Otherwise
    it makes sure that Spark's workers can import ottla, and that plans hide the options of file systems, and URLs with
    a password or a query (`spark.sql.redaction.options.regex`, to which this adds).

    Args:
        spark: The session, classic or Connect.

    Raises:
        ImportError: pyspark is missing or older than 4.0, or the Python of the Spark workers has no ottla.
    """
    from pyspark.sql.utils import is_remote

    from ottla.spark.log.source import OttlaLogDataSource
    from ottla.spark.source import OttlaDataSource

    if not is_remote():
        _check_worker_python(spark.sparkContext.pythonExec)
        # PySpark makes the session that of this thread whenever it makes a frame from Python's data, and has no call
        # that does nothing else.
        spark.createDataFrame([], "nothing int")
    _make_known(spark, OttlaDataSource)
    _make_known(spark, OttlaLogDataSource)
    hidden = spark.conf.get(_HIDDEN) or ""
    ours = f"{_STORAGE}|{LOGIN}|{_SIGNED}"
    if not hidden.endswith(ours):
        spark.conf.set(_HIDDEN, f"{hidden}|{ours}" if hidden else ours)


def _make_known(spark: "SparkSession", source: "type[DataSource]") -> None:
    from pyspark.errors import PySparkException

    try:
        spark.dataSource.register(source)
    except PySparkException as error:
        # Found by its package name already: Spark guards such sources against being replaced.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _check_worker_python(python: str) -> None:
    """Raise if the Spark workers lack ottla: their own error does not name the Python that they run."""
    if shutil.which(python) is None:
        # It exists only on the executors, unpacked from `--archives`. The error of a task names
        # what is missing.
        return
    result = subprocess.run(  # noqa: S603 - the program that Spark starts for its workers
        [python, "-c", "import ottla.spark.read.range_reader"], capture_output=True, text=True, timeout=60, check=False
    )
    if result.returncode:
        why = (result.stderr.strip().splitlines() or [f"exit {result.returncode}"])[-1]
        raise ImportError(
            f"Spark's workers run {python}, which cannot import ottla: {why}. Set PYSPARK_PYTHON in the environment "
            f"to {sys.executable} before the session is made, or install ottla there"
        )


def _help_spark_to_find_us() -> None:
    """Register the formats where Spark does not find them by itself, or warn if there is no session yet."""
    if not source_lookup.is_a_driver() or (problem := source_lookup.problem(os.environ)) is None:
        return
    session = None
    if "pyspark.sql.session" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
    if session is None or not hasattr(session, "dataSource"):  # since Spark 4.0
        logging.getLogger("ottla.spark").warning(problem)
        return
    from ottla.spark.log.source import OttlaLogDataSource
    from ottla.spark.source import OttlaDataSource

    _make_known(session, OttlaDataSource)
    _make_known(session, OttlaLogDataSource)


_help_spark_to_find_us()
