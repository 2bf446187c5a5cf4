"""Writes from Spark to one real Kafka: format("ottla"), also exactly once, and Spark's own sink, as it is and tuned.

    .venv/bin/python benches/python/spark_sink.py [--rows 2000000] [--repeats 5]

Rows have keys of 8 digits and values of 100 bytes, and are in Spark's memory when the watch starts. Each write goes to
a new topic of 4 partitions. Processor time is that of Spark's JVM and of its Python workers. Table, figures and plot
also go to benches/out/spark-sink.*.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import on_spark
from broker import Broker, real_broker
from scenarios import JAVA_BATCH

PARTITIONS = 4
TUNED = {f"kafka.{name}": str(value) for name, value in JAVA_BATCH}
# Name, format and options; ours is first, and the others are compared to it.
WAYS: list[tuple[str, str, dict[str, str]]] = [
    ("ottla", "ottla", {}),
    ("ottla, exactly once", "ottla", {"exactlyOnce": "true", "shards": "2", "version": "0"}),
    ("Spark's own", "kafka", {}),
    ("Spark's own, tuned", "kafka", TUNED),
]
GOALS = {"Spark's own": (1.2, None), "Spark's own, tuned": (1.2, None)}
MOST_OF_EXACTLY_ONCE = 1.3
"""How many times as long as the other writes of ours those may take that are exactly once."""


def measure(frame: Any, broker: Broker, way: tuple[str, str, dict[str, str]], topic: str) -> tuple[float, float]:
    """Seconds on the clock, and of processor time, of one write."""
    _, sink, options = way
    broker.create(topic, PARTITIONS)
    broker.warm(topic, PARTITIONS)
    given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **options}
    if "exactlyOnce" in options:
        given["appId"] = topic
    wall, cpu = time.perf_counter(), on_spark.processor_time(broker)
    frame.write.format(sink).options(**given).mode("append").save()
    wall, cpu = time.perf_counter() - wall, on_spark.processor_time(broker) - cpu
    broker.delete(topic)
    return wall, cpu


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--repeats", type=int, default=5)
    given = arguments.parse_args()
    case = on_spark.Case("writes of 100 bytes", given.rows, goals=dict(GOALS))
    with real_broker() as broker:
        spark = on_spark.session()
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
                    case.add(way[0], *taken)
        spark.stop()
    on_spark.save("spark-sink", [case])
    print(f"goal: exactly once in at most {MOST_OF_EXACTLY_ONCE} x the time of ottla's other writes")


if __name__ == "__main__":
    main()
