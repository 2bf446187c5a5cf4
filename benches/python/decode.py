"""Values to typed columns, by ottla and by others: processor time a record.

    .venv/bin/python benches/python/decode.py [--spark]

JSON of 126 bytes with 7 fields, and the same records in Avro. All decode the same values, which are in memory already,
with one thread; a repeat is each of them once. Spark's from_json is a job over cached rows less the same job without
it, both by the processor time of all threads of its JVM.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.json as arrow_json

import ottla
import ottla.testing

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 50_000
REPEATS = 7
SPARK_RECORDS = 2_000_000
SIZE = 126
GOAL = 450
"""Nanoseconds a record."""

ZONED = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("id", pa.int32()),
        ("seq", pa.int64()),
        ("price", pa.float64()),
        ("ok", pa.bool_()),
        ("at", ZONED),
        ("note", pa.string()),
    ]
)
AVRO = {
    "type": "record",
    "name": "Sample",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "id", "type": "int"},
        {"name": "seq", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "ok", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "note", "type": "string"},
    ],
}
DDL = "name string, id int, seq long, price double, ok boolean, at timestamp, note string"


def sample(row: int) -> bytes:
    """One JSON value of the size."""
    at = f"2026-11-23T09:{row % 60:02}:{row // 60 % 60:02}.{row % 1000:03}Z"
    known = {
        "name": f"N{row % 99_999:05}",
        "id": 100_000 + row % 100_000,
        "seq": 5_000_000_000 + row,
        "price": row % 1000 + 1000 + (10 + row % 90) / 100,
        "ok": row % 2 == 0,
        "at": at,
        "note": "",
    }
    missing = SIZE - len(json.dumps(known, separators=(",", ":")))
    known["note"] = "abcdefghijklmnopqrstuvwxyz"[:missing]
    return json.dumps(known, separators=(",", ":")).encode()


def batches(values: list[bytes]) -> list[ottla.Batch]:
    """The values, consumed."""
    with ottla.testing.Broker() as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("samples", values, partitions=[0] * len(values)).result(60)
        with ottla.Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([ottla.TopicPartition("samples", 0, 0)])
            found: list[ottla.Batch] = []
            while sum(map(len, found)) < len(values):
                found.append(consumer.poll(30, max_records=10_000))
            return found


def ways() -> dict[str, Callable[[], Any]]:
    """Each way, ready to run."""
    values = [sample(row) for row in range(RECORDS)]
    lines = b"\n".join(values)
    # pyarrow reads no zone in a text.
    naive = SCHEMA.set(5, pa.field("at", pa.string()))
    parse = arrow_json.ParseOptions(explicit_schema=naive, unexpected_field_behavior="ignore")
    read = arrow_json.ReadOptions(use_threads=False)
    consumed, decoder = batches(values), ottla.Decoder(SCHEMA)
    made: dict[str, Callable[[], Any]] = {
        "json: ottla": lambda: [batch.decode(decoder) for batch in consumed],
        "json: pyarrow.json, at as text": lambda: arrow_json.read_json(io.BytesIO(lines), read, parse),
        "json: json and pyarrow, at as text": lambda: pa.Table.from_pylist([json.loads(v) for v in values], naive),
    }
    if orjson := optional("orjson"):
        made["json: orjson and pyarrow, at as text"] = lambda: pa.Table.from_pylist(
            [orjson.loads(v) for v in values], naive
        )
    if fastavro := optional("fastavro"):
        schema = fastavro.parse_schema(AVRO)
        table = pa.concat_tables(batch.decode(decoder).to_arrow() for batch in consumed)
        written = []
        for row in table.to_pylist():
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, row)
            written.append(out.getvalue())
        binary, ours = batches(written), ottla.Decoder(json.dumps(AVRO), "avro")
        made["avro: ottla"] = lambda: [batch.decode(ours) for batch in binary]
        made["avro: fastavro and pyarrow"] = lambda: pa.Table.from_pylist(
            [fastavro.schemaless_reader(io.BytesIO(value), schema, None) for value in written], SCHEMA
        )
    return made


def optional(name: str) -> Any:
    """A module, if it is there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed, and left out", file=sys.stderr)
        return None


def spark_nanoseconds() -> list[float]:
    """Spark's from_json, a record."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    from ottla.spark import ensure_java

    ensure_java()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "2g").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    few = spark.createDataFrame([(bytearray(sample(row)),) for row in range(10_000)], "value binary")
    many = spark.range(SPARK_RECORDS // 10_000).crossJoin(few).select("value").coalesce(2).cache()
    many.count()

    def seconds(frame: Any) -> float:
        def used() -> int:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        before = used()
        frame.write.format("noop").mode("overwrite").save()
        return (used() - before) / os.sysconf("SC_CLK_TCK")

    parsed = many.select(f.from_json(f.col("value").cast("string"), DDL).alias("v")).select("v.*")
    for frame in (parsed, many) * 2:
        seconds(frame)
    found = [(seconds(parsed) - seconds(many)) / SPARK_RECORDS * 1e9 for _ in range(5)]
    spark.stop()
    return found


class Decoding(NamedTuple):
    """What was measured: nanoseconds a record of each way in each repeat, and that as text."""

    nanoseconds: dict[str, list[float]]
    text: str


def run(repeats: int, *, spark: bool = False) -> Decoding:
    """Measure each way so often; medians, the lowest, and whether the goal was met."""
    made = ways()
    found: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(repeats):
        for name, way in made.items():
            before = time.process_time()
            way()
            found[name].append((time.process_time() - before) / RECORDS * 1e9)
    if spark:
        found["json: Spark's from_json"] = spark_nanoseconds()
    ours = statistics.median(found["json: ottla"])
    lines = []
    for name, times in found.items():
        median = statistics.median(times)
        lines.append(f"{name:38} {median:6.0f} ns a record, at best {min(times):6.0f}; {median / ours:5.1f} x our JSON")
    met = "met" if ours <= GOAL else "missed"
    lines.append(f"goal: JSON of {SIZE} bytes to 7 columns in at most {GOAL} ns: {met}")
    return Decoding(found, "\n".join(lines))


def main() -> None:
    """Measure, and print medians and the lowest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spark", action="store_true", help="Spark's from_json, too: a minute")
    print(run(REPEATS, spark=parser.parse_args().spark).text)


if __name__ == "__main__":
    main()
