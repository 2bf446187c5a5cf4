"""Spark as the others are measured: one session for all of a run's measurements, and the watch for its processes.

The session is of two cores, and has Spark's own source and sink. It lasts for the run, since a new JVM takes half a
minute of work to be as quick as an old one. So that ways do not meet it at different ages, all of them are tried before
any counts, and they are measured in turn.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker import Broker
    from report import Measured
    from scenarios import Way

AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"


class Session:
    """A session, and the broker that it reads from and writes to.

    Attributes:
        spark: The SparkSession.
        broker: The broker.
        at_end: What ends with the session.
    """

    def __init__(self, broker: Broker) -> None:
        import ready_made
        from pyspark.sql import SparkSession
        from tests.spark.conftest import peer_jars

        from ottla.spark import ensure_java

        ensure_java()
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        # Spark's processes import what it is registered with by its name.
        paths = [str(Path(ready_made.__file__).parent), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "2g")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.session.timeZone", "UTC")
        self.spark = builder.config("spark.jars", ",".join(map(str, peer_jars(AVRO)))).getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.spark.dataSource.register(ready_made.ReadyMade)
        self.broker = broker
        self.at_end = contextlib.ExitStack()
        self.at_end.callback(self.spark.stop)

    def read(self, way: Way, topic: str, *, stream: bool = False, **options: str) -> Any:
        """A DataFrame of a topic from its beginning."""
        reader = self.spark.readStream if stream else self.spark.read
        given = {**self.options(way), "subscribe": topic, "startingOffsets": "earliest", **options}
        return reader.format(source(way)).options(**given).load()

    def options(self, way: Way) -> dict[str, str]:
        """The options of a read or a write: where the broker is, and how the way is tuned."""
        tuned = {f"kafka.{name}": str(value) for name, value in way.properties}
        return {"kafka.bootstrap.servers": self.broker.bootstrap, **tuned}


def source(way: Way) -> str:
    """The name that Spark knows a way's source and sink by."""
    return {"ours": "ottla", "peer": "kafka", "limit": "ready-made"}[way.role]


@contextlib.contextmanager
def watch(broker: Broker, records: int) -> Iterator[Measured]:
    """The figures of a `with` block that reads or writes so many records, which are complete at its end. Processor time
    is that of this process and of all that it started, but not of the broker."""
    measured: Measured = {"records": records}
    cpu, wall = _processor_time(broker.pid), time.perf_counter()
    yield measured
    measured["seconds"] = time.perf_counter() - wall
    measured["cpu_seconds"] = _processor_time(broker.pid) - cpu


def _processor_time(without: int) -> float:
    """Seconds of this process and of all that it started, those that have ended too, without one of these trees."""
    parents, used = dict[int, int](), dict[int, float]()
    tick = os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in front, in parentheses, may hold anything.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = sum(map(int, fields[11:15])) / tick
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours - {without}:
        ours |= more
    return sum(used[process] for process in ours if process in used)
