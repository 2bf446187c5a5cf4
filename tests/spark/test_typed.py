"""Typed columns by format("ottla"), on an embedded broker."""

import io
import json
import re
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal

import confluent_kafka
import fastavro
import pytest
from google.protobuf import descriptor_pb2, struct_pb2
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from tests.python.decoding import FakeRegistry
from tests.python.test_decode_protobuf import FILE, TIME, Whole, struct_file

import ottla

from .starts import begun

# Spark 4.0 and 4.1 leave sockets of theirs to the garbage collector.
SPARKS_SOCKETS = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings(SPARKS_SOCKETS)]

ITEM = (
    "item string, price decimal(8,2), at timestamp, tags array<string>, sizes map<string,int>, of struct<a:int,b:date>"
)
GOOD = b'{"item":"pen","price":1.255,"at":"2026-11-23T10:00:00.5+01:00","tags":["x",null],"sizes":{"s":1},"of":{"a":1,"b":"2026-11-23"}}'
BAD = b'{"item":"ink","price":"much"}'
STRUCT = descriptor_pb2.FileDescriptorProto.FromString(struct_pb2.DESCRIPTOR.serialized_pb)
AVRO = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]}
LATER = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "double"},
        {"name": "more", "type": "string", "default": "none"},
        {"name": "when", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    ],
}


@pytest.fixture
def registry():
    made = FakeRegistry()
    yield made
    made.close()


def sent(topic, values, keys=None):
    """A topic of one partition with these values."""
    made = topic(1)
    with ottla.Producer(made.bootstrap) as producer:
        for place, value in enumerate(values):
            producer.send(made.name, value, key=None if keys is None else keys[place]).result(30)
    return made


def sentence(error):
    """What stands at the end of the Python traceback inside Spark's error, which is one line."""
    told = str(error).partition("=== Streaming Query ===")[0].splitlines()
    lines = [line for line in told if line.strip() and not line.startswith(" SQLSTATE")]
    assert re.match(r"[\w.]+Error: ", lines[-1]), str(error)
    return lines[-1]


def avro(schema, value, schema_id=None):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return (b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")) + out.getvalue()


def test_a_value_is_a_struct_beside_the_columns_of_its_record(topic):
    made = sent(topic, [GOOD, None, b"{}"])
    frame = made.read(**{"value.format": "json", "value.schema": ITEM})
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    good, tombstone, empty = (row.value for row in frame.orderBy("offset").collect())
    assert good.item == "pen"
    assert good.price == Decimal("1.26")
    assert good["at"].astimezone(UTC) == datetime(2026, 11, 23, 9, 0, 0, 500_000, tzinfo=UTC)
    assert (good.tags, good.sizes) == (["x", None], {"s": 1})
    assert tuple(good.of) == (1, datetime(2026, 11, 23).date())  # noqa: DTZ001
    assert tombstone is None, "a tombstone is no value, not a value without fields"
    assert set(empty) == {None}
    assert frame.where("value.price > 1").select("offset", "value.item").collect() == [(0, "pen")]


def test_the_schema_of_the_user_chooses_the_columns(topic, spark):
    made = sent(topic, [GOOD, None])
    reader = spark.read.format("ottla").options(**made.options(**{"value.format": "json"}))
    frame = reader.schema("offset long, value struct<of:struct<b:date>, item:string>").load()
    assert frame.columns == ["offset", "value"]
    assert [(row.offset, row.value and row.value.item) for row in frame.orderBy("offset").collect()] == [
        (0, "pen"),
        (1, None),
    ]
    flat = reader.option("value.flatten", "true").schema(
        "item string, offset long, headers array<struct<key:string,value:binary>>"
    )
    assert flat.load().orderBy("offset").collect() == [("pen", 0, None), (None, 1, None)]


def test_fields_as_columns_and_only_those_that_are_wanted(topic):
    made = sent(topic, [GOOD])
    frame = made.read(**{"value.format": "json", "value.schema": ITEM, "value.flatten": "true"})
    assert frame.columns == ["key", "item", "price", "at", "tags", "sizes", "of", "topic", "partition", "offset", "timestamp", "timestampType"]  # fmt: skip
    assert frame.select("item", "of.a", "offset").collect() == [("pen", 1, 0)]
    assert made.read(columns="offset,topic").collect() == [(0, made.name)]
    spark_json = made.spark.createDataFrame([], ITEM).schema.json()
    some = made.read(**{"value.format": "json", "value.schema": spark_json, "columns": "value.item,offset"})
    assert [tuple(row) for row in some.collect()] == [(("pen",), 0)]


def test_failfast_names_the_record(topic):
    made = sent(topic, [GOOD, BAD, BAD])
    with pytest.raises(PySparkException) as raised:
        made.read(**{"value.format": "json", "value.schema": ITEM}).collect()
    assert sentence(raised.value) == (
        f"ottla.errors.DecodeError: the value of the record at offset 1 of partition 0 of topic {made.name} does not decode: "
        "column price: decimal(8, 2) is wanted, not much; to skip such records, set option mode to PERMISSIVE or "
        "DROPMALFORMED, or option deadLetterTopic"
    )


def test_a_bad_record_behind_the_end_of_the_range_is_not_read(topic):
    made = sent(topic, [GOOD, GOOD, BAD])
    given = {"value.format": "json", "value.schema": ITEM, "endingOffsets": json.dumps({made.name: {"0": 2}})}
    assert made.read(**given).count() == 2


def test_permissive_keeps_what_is_bad(topic):
    made = sent(topic, [BAD, GOOD, None], keys=[b"k", b"\xff", None])
    given = {"value.format": "json", "value.schema": ITEM, "key.format": "string", "mode": "PERMISSIVE"}
    frame = made.read(**given).orderBy("offset").select("key", "value.item", "_corrupt", "_corrupt_key")
    assert [tuple(row) for row in frame.collect()] == [
        ("k", None, bytearray(BAD), None),
        (None, "pen", None, bytearray(b"\xff")),
        (None, None, None, None),
    ]
    assert made.read(**given).where("value is null").count() == 2
    named = made.read(**given, columnNameOfCorruptRecord="bad")
    assert [name for name in named.columns if "bad" in name] == ["bad", "bad_key"]


def test_dropmalformed_leaves_rows_out(topic):
    made = sent(topic, [BAD, GOOD, GOOD, None], keys=[b"a", b"\xff", b"c", b"d"])
    given = {"value.format": "json", "value.schema": ITEM, "key.format": "string", "mode": "DROPMALFORMED"}
    assert [tuple(row) for row in made.read(**given).select("key", "offset").orderBy("offset").collect()] == [
        ("c", 2),
        ("d", 3),
    ]


def letters(broker, topic, count):
    """The dead letters in a topic, as another client reads them."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found, deadline = [], time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), 1)
    found += consumer.consume(1, 0.3)
    consumer.close()
    return found


def test_bad_records_go_to_a_topic_with_the_reason(topic, broker):
    dead = topic(1).name
    made = sent(topic, [BAD, GOOD, b"{"], keys=[b"a", b"b", b"c"])
    given = {"value.format": "json", "value.schema": ITEM, "deadLetterTopic": dead}
    assert made.read(**given).select("offset").collect() == [(1,)]
    first, second = letters(broker, dead, 2)
    assert (first.key(), first.value(), second.value()) == (b"a", BAD, b"{")
    assert dict(first.headers()) == {
        "__ottla.errors.topic": made.name.encode(),
        "__ottla.errors.partition": b"0",
        "__ottla.errors.offset": b"0",
        "__ottla.errors.side": b"value",
        "__ottla.errors.column": b"price",
        "__ottla.errors.message": b"decimal(8, 2) is wanted, not much",
    }
    broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", count=1_000)
    try:
        with pytest.raises(PySparkException) as raised:
            made.read(**given).collect()
    finally:
        broker.clear_faults()
    assert f"(topic {dead}" in str(raised.value)
    assert f"the dead letter of the value of the record at offset 0 of partition 0 of topic {made.name}" in str(
        raised.value
    )


def test_a_stream_of_typed_values(topic, tmp_path, broker):
    dead = topic(1).name
    made = sent(topic, [GOOD, BAD, GOOD])
    given = {"value.format": "json", "value.schema": ITEM, "value.flatten": "true", "columns": "value,offset"}
    given |= {"startingOffsets": "earliest", "deadLetterTopic": dead, "mode": "PERMISSIVE"}
    made.stream(tmp_path, **given)
    made.produce([b'{"item":"rubber"}'])
    made.stream(tmp_path, **given)
    rows = made.spark.read.parquet(str(tmp_path / "rows")).select("item", "offset").orderBy("offset")
    assert rows.collect() == [("pen", 0), (None, 1), ("pen", 2), ("rubber", 3)]
    assert len(letters(broker, dead, 1)) == 1


def test_a_bad_record_ends_a_stream_with_its_place(topic, tmp_path):
    made = sent(topic, [BAD])
    with pytest.raises(PySparkException) as raised:
        made.stream(tmp_path, **{"value.format": "json", "value.schema": ITEM, "startingOffsets": "earliest"})
    assert f"offset 0 of partition 0 of topic {made.name} does not decode: column price" in sentence(raised.value)


def test_a_stream_that_cannot_be_says_so(topic, tmp_path):
    made = sent(topic, [GOOD])
    frame = (
        made.spark.readStream.format("ottla")
        .options(**made.options(**{"value.format": "json"}))
        .schema("item string")
        .load()
    )
    query = begun(frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start)
    try:
        with pytest.raises(PySparkException) as raised:
            query.awaitTermination(60)
    finally:
        query.stop()
    assert "declare the fields of a typed value as value struct<item:string>" in sentence(raised.value)


def test_csv_and_text(topic):
    made = sent(topic, [b'pen;"1;5"', b"ink;"], keys=["ä".encode(), None])
    given = {
        "value.format": "csv",
        "value.schema": "item string, n string",
        "value.delimiter": ";",
        "key.format": "string",
    }
    rows = made.read(**given).orderBy("offset").select("key", "value.*").collect()
    assert [tuple(row) for row in rows] == [("ä", "pen", "1;5"), (None, "ink", None)]


def test_protobuf_of_descriptors(topic, tmp_path):
    file = tmp_path / "shop.desc"
    file.write_bytes(descriptor_pb2.FileDescriptorSet(file=[TIME, FILE]).SerializeToString())
    message = Whole(uint64=2**64 - 1, uint32=2**32 - 1, kind=1, string="x", counts={"a": -1})
    message.at.FromSeconds(1)
    made = sent(topic, [message.SerializeToString(), b"\xff"])
    given = {
        "value.format": "protobuf",
        "value.schema.file": str(file),
        "value.message": "Whole",
        "mode": "DROPMALFORMED",
    }
    names = ("uint64", "uint32", "kind", "string", "counts", "at")
    (row,) = made.read(**given, columns=",".join(f"value.{name}" for name in names)).collect()
    assert row.value.asDict() == {
        "uint64": Decimal(2**64 - 1),
        "uint32": 2**32 - 1,
        "kind": "SOME",
        "string": "x",
        "counts": {"a": -1},
        "at": row.value["at"],
    }
    assert row.value["at"].timestamp() == 1


def test_a_field_without_a_type_in_spark_is_no_matter_if_it_is_not_read(topic, tmp_path):
    """A `Struct` contains itself."""
    file = tmp_path / "loose.desc"
    file.write_bytes(descriptor_pb2.FileDescriptorSet(file=[STRUCT, struct_file()]).SerializeToString())
    made = sent(topic, [b"\x08\x05"])
    given = {"value.format": "protobuf", "value.schema.file": str(file)}
    with pytest.raises(PySparkException, match="contains itself"):
        made.read(**given)
    frame = made.read(**given, columns="value.one,value.n")
    assert [tuple(row) for row in frame.select("value.n", "value.one").collect()] == [(5, None)]
    flat = {**given, "value.flatten": "true"}
    reader = made.spark.read.format("ottla").options(**made.options(**flat))
    assert reader.schema("n int").load().collect() == [(5,)]


def with_registry(registry, **given):
    return {"value.format": "avro", "schema.registry.url": registry.url, **given}


def test_a_registry_tells_the_schema_and_each_record_its_own(topic, registry):
    made = topic(1)
    first = registry.add(f"{made.name}-value", json.dumps(AVRO))
    second = registry.add(f"{made.name}-value", json.dumps(LATER))
    with ottla.Producer(made.bootstrap) as producer:
        producer.send(made.name, avro(AVRO, {"id": 1, "note": "x"}, first)).result(30)
        producer.send(made.name, avro(LATER, {"id": 2.5, "more": "y", "when": 1_000}, second)).result(30)
        guid = [("__value_schema_id", b"\x01" + second.to_bytes(16, "big"))]
        producer.send(made.name, avro(LATER, {"id": 3.0, "more": "z", "when": None}), headers=guid).result(30)
    frame = made.read(**with_registry(registry))
    assert frame.schema["value"].dataType.simpleString() == "struct<id:double,more:string,when:timestamp>"
    rows = [
        tuple(row)
        for row in frame.orderBy("offset").select("value.id", "value.more", f.unix_millis("value.when")).collect()
    ]
    assert rows == [(1.0, "none", None), (2.5, "y", 1_000), (3.0, "z", None)], (
        "the reader's default where the writer has none"
    )
    some = made.read(**with_registry(registry), columns="value.more").select("value.more")
    assert sorted(row.more for row in some.collect()) == ["none", "y", "z"]
    old = made.read(**with_registry(registry), **{"value.schema.registry.version": "1", "mode": "PERMISSIVE"})
    assert old.schema["value"].dataType.simpleString() == "struct<id:bigint,note:string>"
    assert old.where("_corrupt is null").count() == 1, "a double does not become a long"


def test_the_subject_decides_the_context_of_ids(topic, registry):
    """The number 1 means one schema in each context of a registry."""
    made = topic(1)
    swapped = {**AVRO, "fields": AVRO["fields"][::-1]}
    registry.add("other", json.dumps(swapped))
    number = registry.add(":.staging:orders", json.dumps(AVRO))
    with ottla.Producer(made.bootstrap) as producer:
        producer.send(made.name, avro(AVRO, {"id": 1, "note": "x"}, number)).result(30)
    subject = {"value.schema.registry.subject": ":.staging:orders"}
    for more in ({}, {"columns": "value.id,value.note"}):
        frame = made.read(**with_registry(registry, **subject, **more)).select("value.id", "value.note")
        assert [tuple(row) for row in frame.collect()] == [(1, "x")]
    assert "/schemas/ids/1?subject=%3A.staging%3Aorders" in registry.requests


def test_a_user_s_schema_over_a_registry(topic, spark, registry):
    made = topic(1)
    first = registry.add("of-orders", json.dumps(AVRO))
    with ottla.Producer(made.bootstrap) as producer:
        producer.send(made.name, avro(AVRO, {"id": 1, "note": "x"}, first)).result(30)
    reader = spark.read.format("ottla").options(**made.options(**with_registry(registry)))
    frame = reader.schema("value struct<note:string,other:int,id:double>").load()
    assert [tuple(row.value) for row in frame.collect()] == [("x", None, 1.0)]
    assert registry.requests.count(f"/schemas/ids/1?subject={made.name}-value") >= 1
    assert not [path for path in registry.requests if "of-orders" in path], "nobody asked which schema is the latest"


def test_a_registry_is_asked_once_a_worker(topic, tmp_path, registry):
    made = topic(1)
    number = registry.add(f"{made.name}-value", json.dumps(AVRO))
    given = with_registry(registry, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    with ottla.Producer(made.bootstrap) as producer:
        producer.send_many(made.name, [avro(AVRO, {"id": n, "note": "x"}, number) for n in range(60)]).result(30)
    made.stream(tmp_path, **given)
    rows = made.spark.read.parquet(str(tmp_path / "rows")).select("value.id")
    assert sorted(row.id for row in rows.collect()) == list(range(60))
    # Spark takes turns among the workers that are idle, of which earlier tests have left some.
    path = f"/schemas/ids/{number}?subject={made.name}-value"
    assert 1 <= registry.requests.count(path) <= 6, "the 12 batches of few workers share their decoders"


def test_a_registry_that_is_down_or_does_not_know(topic, registry):
    made = sent(topic, [b"\0\0\0\0\x07\x02"])
    with pytest.raises(PySparkException) as raised:
        made.read(**with_registry(registry))
    assert (
        f"/subjects/{made.name}-value/versions/latest: Schema not found. Option value.schema.registry.subject"
        in str(raised.value)
    )
    number = registry.add(f"{made.name}-value", json.dumps(AVRO))
    assert number == 1
    with pytest.raises(PySparkException) as raised:
        made.read(**with_registry(registry)).collect()
    assert "its schema 7 cannot be used" in sentence(raised.value)
    registry.fault = lambda path: (401, b"{}") if path.startswith("/schemas") else None
    with pytest.raises(PySparkException) as raised:
        made.read(
            **with_registry(registry, **{"secret.schema.registry.basic.auth.user.info": "alice:hunter2"})
        ).collect()
    assert "does not accept the credentials" in sentence(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_registry_that_does_not_answer_in_the_middle_of_a_stream(topic, tmp_path, registry):
    """The batch fails, and is read when it answers again."""
    made, answers = topic(1), threading.Event()
    numbers = [registry.add(f"{made.name}-value", json.dumps(schema)) for schema in (AVRO, {**AVRO, "doc": "newer"})]

    def send(number, **record):
        with ottla.Producer(made.bootstrap) as producer:
            producer.send(made.name, avro(AVRO, {"note": "x", **record}, number)).result(30)

    send(numbers[0], id=0)
    given = with_registry(registry, startingOffsets="earliest")
    made.stream(tmp_path, **given)
    send(numbers[1], id=1)
    registry.fault = lambda path: answers.wait(60) and None if path.startswith(f"/schemas/ids/{numbers[1]}") else None
    try:
        with pytest.raises(PySparkException) as raised:
            made.stream(tmp_path, **given)
    finally:
        answers.set()
    assert f"/schemas/ids/{numbers[1]}" in sentence(raised.value)
    assert "within 10 seconds" in sentence(raised.value)
    made.stream(tmp_path, **given)
    rows = made.spark.read.parquet(str(tmp_path / "rows")).select("value.id")
    assert sorted(row.id for row in rows.collect()) == [0, 1]


def test_no_plan_shows_the_password_of_a_registry(topic, registry):
    made = topic(1)
    registry.add(f"{made.name}-value", json.dumps(AVRO))
    secret = {"secret.schema.registry.basic.auth.user.info": "alice:hunter2"}
    frame = made.read(**with_registry(registry, **secret))
    assert registry.seen["authorization"].startswith("Basic ")
    execution = frame._jdf.queryExecution()
    assert "hunter2" not in execution.toString() + execution.simpleString() + str(frame)
