"""Reads into Spark's noop sink: the columns of Kafka, typed columns, and micro-batches of a stream."""

from __future__ import annotations

import json
import tempfile
from statistics import quantiles
from typing import TYPE_CHECKING, Any

import wide
from decode import AVRO, DDL, sample
from measurement import events
from on_spark import Session, watch
from scenarios import MICRO_BATCH_JOINED
from tests.python.decoding import FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from report import Measured
    from scenarios import Scenario, Way

SAMPLES = 10_000
"""Different values of the topics that are decoded."""
BATCH = 1_000
"""Records of a micro-batch."""
FIRST_BATCHES = 5
"""Of a stream, which start Spark's workers and do not count."""
LONGEST_STREAM = 300
"""Seconds."""


def rows(session: Session, scenario: Scenario, topic: str) -> Callable[[Way], Measured]:
    """The 7 columns of Kafka."""
    _events(session, scenario, topic, scenario.records)
    return lambda way: _read(session, scenario, session.read(way, topic))


def typed_json(session: Session, scenario: Scenario, topic: str) -> Callable[[Way], Measured]:
    """7 columns of JSON: by our decoder, and by from_json."""
    from pyspark.sql import functions as f

    _fill(session, scenario, topic, f.col("text"))
    ours = {"value.format": "json", "value.schema": DDL, "columns": "value", "value.flatten": "true"}
    theirs = f.from_json(f.col("value").cast("string"), DDL)
    return lambda way: _read(session, scenario, _decoded(session, way, topic, ours, theirs))


def typed_avro(session: Session, scenario: Scenario, topic: str) -> Callable[[Way], Measured]:
    """7 columns of Avro in the frames of Confluent's serializers: with the registry, and by from_avro, which knows the
    schema and gets what stands behind the frame's head."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro, to_avro

    schema, registry = json.dumps(AVRO), FakeRegistry()
    session.at_end.callback(registry.close)
    head = b"\0" + registry.add(f"{topic}-value", schema).to_bytes(4, "big")
    _fill(session, scenario, topic, f.concat(f.lit(bytearray(head)), to_avro(f.from_json("text", DDL), schema)))
    ours = {"value.format": "avro", "schema.registry.url": registry.url, "columns": "value", "value.flatten": "true"}
    theirs = from_avro(f.expr(f"substring(value, {len(head) + 1})"), schema)
    return lambda way: _read(session, scenario, _decoded(session, way, topic, ours, theirs))


def wide_json(session: Session, scenario: Scenario, topic: str) -> Callable[[Way], Measured]:
    """100 columns of JSON: by our decoder, and by from_json."""
    from pyspark.sql import functions as f

    _wide(session, scenario, topic)
    ours = {"value.format": "json", "value.schema": wide.DDL, "columns": "value", "value.flatten": "true"}
    theirs = f.from_json(f.col("value").cast("string"), wide.DDL)
    return lambda way: _read(session, scenario, _decoded(session, way, topic, ours, theirs))


def wide_avro(session: Session, scenario: Scenario, topic: str) -> Callable[[Way], Measured]:
    """100 columns of Avro without frames: by our decoder, and by from_avro."""
    from pyspark.sql.avro.functions import from_avro

    schema = json.dumps(wide.AVRO)
    _wide(session, scenario, topic)
    ours = {"value.format": "avro", "value.schema": schema, "columns": "value", "value.flatten": "true"}
    theirs = from_avro("value", schema)
    return lambda way: _read(session, scenario, _decoded(session, way, topic, ours, theirs))


def _wide(session: Session, scenario: Scenario, topic: str) -> None:
    some = wide.values(scenario.content)
    session.broker.fill(topic, scenario.partitions, some, scenario.records, scenario.codec, scenario.batch)


def micro_batches(session: Session, scenario: Scenario, topic: str) -> Callable[[Way], Measured]:
    """How long a micro-batch takes by the stream's progress, and its share of the processor time of all."""
    count = FIRST_BATCHES + scenario.records
    _events(session, scenario, topic, count * BATCH)
    return lambda way: _stream(session, way, topic, count)


def _read(session: Session, scenario: Scenario, frame: Any) -> Measured:
    with watch(session.broker, scenario.records) as measured:
        frame.write.format("noop").mode("overwrite").save()
    return measured


def _decoded(session: Session, way: Way, topic: str, ours: dict[str, str], theirs: Any) -> Any:
    if way.role == "peer":
        return session.read(way, topic).select(theirs.alias("decoded")).select("decoded.*")
    return session.read(way, topic, **ours)


def _events(session: Session, scenario: Scenario, topic: str, records: int) -> None:
    some = events(scenario.size)
    session.broker.fill(topic, scenario.partitions, some, records, scenario.codec, scenario.batch)


def _fill(session: Session, scenario: Scenario, topic: str, value: Any) -> None:
    """Write a topic of the samples of `decode.py` by Spark's own sink, as `value` makes them of the column `text`."""
    session.broker.create(topic, scenario.partitions)
    some = session.spark.createDataFrame([(sample(row).decode(),) for row in range(SAMPLES)], "text string")
    many = session.spark.range(scenario.records // SAMPLES).crossJoin(some).select(value.alias("value"))
    where = {"kafka.bootstrap.servers": session.broker.bootstrap, "topic": topic}
    many.write.format("kafka").options(**where).save()


def _stream(session: Session, way: Way, topic: str, count: int) -> Measured:
    joined = {"minRecordsPerPartition": str(BATCH)} if way == MICRO_BATCH_JOINED else {}
    frame = session.read(way, topic, stream=True, maxOffsetsPerTrigger=str(BATCH), **joined)
    with tempfile.TemporaryDirectory() as folder, watch(session.broker, count) as measured:
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(LONGEST_STREAM):
            query.stop()
            raise RuntimeError(f"the stream did not come to its end in {LONGEST_STREAM} s")
    laps = [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress if p["numInputRows"]]
    if len(laps) != count:
        raise RuntimeError(f"the stream had {len(laps)} micro-batches, not {count}")
    cuts = quantiles(laps[FIRST_BATCHES:], n=100, method="inclusive")
    return {**measured, "p50": cuts[49], "p99": cuts[98]}
