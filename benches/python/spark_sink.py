"""Writes from Spark to one real Kafka: format("ottla"), also exactly once, and Spark's own sink, as it is and tuned.

    .venv/bin/python benches/python/spark_sink.py [--rows 2000000] [--repeats 5]

Rows have keys of 8 digits and values of 100 bytes, and are in Spark's memory when the watch starts. Each write goes to
a new topic of 4 partitions. Processor time is that of Spark's JVM and of its Python workers. The figures also go to
benches/out/spark-sink.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from broker import Broker, real_broker  # noqa: E402
from scenarios import JAVA_BATCH  # noqa: E402
from tests.spark.conftest import peer_jars  # noqa: E402

PARTITIONS = 4
TUNED = {f"kafka.{name}": str(value) for name, value in JAVA_BATCH}
# Name, format and options; ours is first, and the others are compared to it.
WAYS: list[tuple[str, str, dict[str, str]]] = [
    ("ottla", "ottla", {}),
    ("ottla, exactly once", "ottla", {"exactlyOnce": "true", "shards": "2", "version": "0"}),
    ("Spark's own", "kafka", {}),
    ("Spark's own, tuned", "kafka", TUNED),
]


def session() -> Any:
    from pyspark.sql import SparkSession

    from ottla.spark import ensure_java

    ensure_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    jars = peer_jars()
    if not jars:
        raise SystemExit("Spark's own sink comes through Maven, which is not installed")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "2g")
    made = builder.config("spark.jars", ",".join(map(str, jars))).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def processor_time() -> float:
    """Seconds of this process and of all that it started, those that have ended too."""
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
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[process] for process in ours if process in used)


def measure(frame: Any, broker: Broker, way: tuple[str, str, dict[str, str]], topic: str) -> tuple[float, float]:
    """Seconds on the clock, and of processor time, of one write."""
    _, sink, options = way
    broker.create(topic, PARTITIONS)
    broker.warm(topic, PARTITIONS)
    given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **options}
    if "exactlyOnce" in options:
        given["appId"] = topic
    wall, cpu = time.perf_counter(), processor_time()
    frame.write.format(sink).options(**given).mode("append").save()
    wall, cpu = time.perf_counter() - wall, processor_time() - cpu
    broker.delete(topic)
    return wall, cpu


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--repeats", type=int, default=5)
    given = arguments.parse_args()
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in WAYS}
    with real_broker() as broker:
        spark = session()
        frame = spark.range(0, given.rows, 1, 2).selectExpr(
            "lpad(CAST(id AS STRING), 8, '0') AS key", "rpad(concat('{\"id\": ', id, '}'), 100, ' ') AS value"
        )
        frame = frame.persist()
        frame.count()
        # The first round warms both sides, and does not count.
        for repeat in range(given.repeats + 1):
            for way in WAYS:
                taken = measure(frame, broker, way, f"sink-{repeat}-{way[1]}-{len(way[2])}")
                if repeat:
                    figures[way[0]].append(taken)
        spark.stop()
    out = ROOT / "benches" / "out"
    out.mkdir(exist_ok=True)
    (out / "spark-sink.json").write_text(json.dumps({"rows": given.rows, "seconds": figures}, indent=1))
    print(f"{given.rows:,} rows of 100 bytes; medians of {given.repeats}, and how many times as fast ours is, in pairs")
    for name, taken in figures.items():
        wall, cpu = (statistics.median(column) for column in zip(*taken, strict=True))
        pairs = zip(figures["ottla"], taken, strict=True)
        times = statistics.median(theirs / ours for (ours, _), (theirs, _) in pairs)
        rate, each = given.rows / wall / 1e6, cpu / given.rows * 1e9
        print(f"{name:20} {rate:5.2f} M rows/s  {each:6.0f} ns of processor time a row  {times:4.2f}")


if __name__ == "__main__":
    main()
