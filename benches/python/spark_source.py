"""Reads into Spark from one real Kafka: format("ottla"), and Spark's own source, as it is and tuned.

    .venv/bin/python benches/python/spark_source.py [--only rows|json|avro|stream] [--repeats 5]

`rows`: the 7 columns of Kafka, 5 million records of 100 bytes. `json` and `avro`: 2 million values as 7 typed columns,
by our decoders and by Spark's source tuned, with from_json and from_avro; Avro has the frames of Confluent's
serializers and a registry. `stream`: what a micro-batch of 1,000 records takes. All go to Spark's noop sink in
local[2]; the first round does not count. Processor time is that of Spark's JVM and of its Python workers. Table,
figures and plot also go to benches/out/spark-source.*.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

import on_spark
from broker import Broker, real_broker
from decode import AVRO, DDL, sample
from tests.python.decoding import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 4
ROWS, TYPED = 5_000_000, 2_000_000
SPARK_AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"
TUNED = {
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.max.poll.records": "20000",
    "kafka.receive.buffer.bytes": str(1 << 20),
}
BATCHES, BATCH = 40, 1_000
MOST_OVERHEAD = 30
"""Milliseconds by which a micro-batch of ours may take longer than one of Spark's own source."""

Way = tuple[str, "Callable[[], Any]"]


def timed(frame: Any, broker: Broker) -> tuple[float, float]:
    """Seconds on the clock, and of processor time, of reading all of it."""
    wall, cpu = time.perf_counter(), on_spark.processor_time(broker)
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - wall, on_spark.processor_time(broker) - cpu


def measure(broker: Broker, case: on_spark.Case, ways: list[Way], repeats: int) -> on_spark.Case:
    for repeat in range(repeats + 1):
        for name, make in ways:
            taken = timed(make(), broker)
            if repeat:
                case.add(name, *taken)
    return case


class Reads:
    """The reads of one topic."""

    def __init__(self, spark: Any, broker: Broker, topic: str) -> None:
        self.spark, self.options = spark, {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}

    def __call__(self, source: str, **options: str) -> Any:
        given = {**self.options, "startingOffsets": "earliest", **options}
        return self.spark.read.format(source).options(**given).load()


def rows(spark: Any, broker: Broker, repeats: int) -> on_spark.Case:
    broker.fill("rows", PARTITIONS, 100, ROWS, "none", 131_072)
    read = Reads(spark, broker, "rows")
    goals = {"Spark's own": (3.5, None), "Spark's own, tuned": (2.0, 1 / 0.75)}
    ways: list[Way] = [
        ("ottla", lambda: read("ottla")),
        ("Spark's own", lambda: read("kafka")),
        ("Spark's own, tuned", lambda: read("kafka", **TUNED)),
    ]
    return measure(broker, on_spark.Case("7 columns of 100-byte records", ROWS, goals=goals), ways, repeats)


def typed(spark: Any, broker: Broker, topic: str, value: Any) -> Reads:
    """A topic of the samples of `decode.py`, written by Spark's own sink as `value` makes them of the column `text`."""
    broker.create(topic, PARTITIONS)
    some = spark.createDataFrame([(sample(row).decode(),) for row in range(10_000)], "text string")
    many = spark.range(TYPED // 10_000).crossJoin(some).select(value.alias("value"))
    many.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", topic).save()
    return Reads(spark, broker, topic)


def typed_json(spark: Any, broker: Broker, repeats: int) -> on_spark.Case:
    from pyspark.sql import functions as f

    read = typed(spark, broker, "json", f.col("text"))
    ours = {"value.format": "json", "value.schema": DDL, "columns": "value"}
    theirs = f.from_json(f.col("value").cast("string"), DDL).alias("v")
    ways: list[Way] = [
        ("ottla", lambda: read("ottla", **ours).select("value.*")),
        ("Spark's own, tuned, and from_json", lambda: read("kafka", **TUNED).select(theirs).select("v.*")),
    ]
    case = on_spark.Case("JSON as 7 typed columns", TYPED, goals={ways[1][0]: (None, 4.0)})
    return measure(broker, case, ways, repeats)


def typed_avro(spark: Any, broker: Broker, repeats: int) -> on_spark.Case:
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro, to_avro

    schema, registry = json.dumps(AVRO), FakeRegistry()
    try:
        frame = b"\0" + registry.add("avro-value", schema).to_bytes(4, "big")
        parsed = f.from_json("text", DDL)
        read = typed(spark, broker, "avro", f.concat(f.lit(bytearray(frame)), to_avro(parsed, schema)))
        ours = {"value.format": "avro", "schema.registry.url": registry.url, "columns": "value"}
        theirs = from_avro(f.expr("substring(value, 6)"), schema).alias("v")
        ways: list[Way] = [
            ("ottla, with the registry", lambda: read("ottla", **ours).select("value.*")),
            ("Spark's own, tuned, and from_avro", lambda: read("kafka", **TUNED).select(theirs).select("v.*")),
        ]
        case = on_spark.Case("Avro as 7 typed columns", TYPED, goals={ways[1][0]: (None, 3.0)})
        return measure(broker, case, ways, repeats)
    finally:
        registry.close()


def stream(spark: Any, broker: Broker, repeats: int) -> on_spark.Case:
    """The median micro-batch of each repeat on the clock, and an equal share of the processor time of all."""
    broker.fill("stream", PARTITIONS, 100, BATCHES * BATCH, "none", 131_072)
    case = on_spark.Case("a micro-batch of 1,000 records", BATCH)
    for repeat in range(repeats + 1):
        for name, source in (("ottla", "ottla"), ("Spark's own", "kafka")):
            given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "stream", "startingOffsets": "earliest"}
            frame = spark.readStream.format(source).options(**given, maxOffsetsPerTrigger=str(BATCH)).load()
            with tempfile.TemporaryDirectory() as folder:
                cpu = on_spark.processor_time(broker)
                writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
                query = writer.trigger(availableNow=True).start()
                if not query.awaitTermination(120):
                    raise SystemExit("the stream does not come to its end")
                cpu = on_spark.processor_time(broker) - cpu
            lasted = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
            if repeat:
                case.add(name, statistics.median(lasted) / 1e3, cpu / len(lasted))
    ours, theirs = (statistics.median(wall for wall, _ in taken) * 1e3 for taken in case.taken.values())
    print(f"a micro-batch takes {ours:.0f} ms, Spark's own {theirs:.0f} ms; goal: {MOST_OVERHEAD} ms more at most")
    return case


CASES = {"rows": rows, "json": typed_json, "avro": typed_avro, "stream": stream}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", choices=CASES)
    arguments.add_argument("--repeats", type=int, default=5)
    given = arguments.parse_args()
    with real_broker() as broker:
        spark = on_spark.session(SPARK_AVRO)
        made = [case(spark, broker, given.repeats) for name, case in CASES.items() if given.only in (None, name)]
        spark.stop()
    on_spark.save("spark-source", made)


if __name__ == "__main__":
    main()
