"""Ranges of offsets and how Spark's own Kafka source splits them; `python -m tests.spark.splits` writes `peer/splits`.

A case is `[minPartitions, maxRecordsPerPartition, ranges, split]`: the limits may be null, a range is
`[topic, partition, start, end]`.
"""

import gzip
import json
import random
from pathlib import Path

FILE = Path(__file__).parent / "peer" / "splits.jsonl.gz"


def case(rng):
    """A random input: limits, and ranges of which some are empty, tiny or huge."""
    spread = rng.choice([5, 100, 10_000, 10**9, 2**55])
    ranges = []
    for partition in range(rng.randint(1, 8)):
        start = rng.choice([0, rng.randint(0, spread)])
        size = rng.choice([0, 1, rng.randint(0, 20), rng.randint(0, spread)])
        ranges.append([rng.choice("tu"), partition, start, start + size])
    ranges.sort()
    largest = max(end - start for _, _, start, end in ranges)
    min_parts = rng.choice([None, rng.randint(1, 12), rng.randint(1, 40)])
    # Not so small that there are thousands of parts.
    max_records = rng.choice([None, None, rng.randint(1 + largest // 30, max(2, largest))])
    return min_parts, max_records, ranges


def split_by_spark(spark, min_parts, max_records, ranges):
    """What `KafkaOffsetRangeCalculator` makes of it, in the order it returns."""
    jvm = spark.sparkContext._jvm
    kafka = jvm.org.apache.spark.sql.kafka010
    given = jvm.java.util.HashMap()
    for name, value in (("minpartitions", min_parts), ("maxrecordsperpartition", max_records)):
        if value is not None:
            given.put(name, str(value))
    options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(given)
    calculator = kafka.KafkaOffsetRangeCalculator.apply(options)
    nowhere = jvm.scala.Option.empty()
    listed = jvm.java.util.ArrayList()
    for topic, partition, start, end in ranges:
        at = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        listed.add(kafka.KafkaOffsetRange(at, start, end, nowhere))
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    none = convert.asScala(jvm.java.util.ArrayList()).toSeq()
    found = convert.asJava(calculator.getRanges(convert.asScala(listed).toSeq(), none))
    return [[r.topic(), r.partition(), r.fromOffset(), r.untilOffset()] for r in found]


def recorded():
    """The cases in the file."""
    with gzip.open(FILE, "rt") as lines:
        return [json.loads(line) for line in lines]


def main():
    from pyspark.sql import SparkSession
    from tests.spark.conftest import peer_jars

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", ",".join(map(str, peer_jars())))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    rng = random.Random(16)
    lines = ""
    for _ in range(1000):
        given = case(rng)
        lines += json.dumps([*given, split_by_spark(spark, *given)], separators=(",", ":")) + "\n"
    # Without the time of day, the same cases make the same file.
    FILE.write_bytes(gzip.compress(lines.encode(), mtime=0))
    spark.stop()


if __name__ == "__main__":
    main()
