"""Avro that fastavro writes, and Confluent's serializers: what ours reads is what theirs read."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from ottla import errors

ROOT = Path(__file__).parents[2]
NESTED = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}],
                },
            },
        },
        {"name": "tags", "type": {"type": "map", "values": "double"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "ratio", "type": "float"},
        {"name": "ok", "type": "boolean"},
    ],
}
ORDERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "note": st.none() | st.text(),
        "price": st.decimals(-99_999_999, 99_999_999, places=2),
        "at": st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
        "day": st.dates(),
        "clock": st.times().map(lambda clock: clock.replace(microsecond=clock.microsecond // 1000 * 1000)),
        "state": st.sampled_from(["NEW", "PAID"]),
        "lines": st.lists(st.fixed_dictionaries({"sku": st.text(), "n": st.integers(-(2**31), 2**31 - 1)}), max_size=5),
        "tags": st.dictionaries(st.text(), st.floats(allow_nan=False), max_size=5),
        "hash": st.binary(min_size=4, max_size=4),
        "ratio": st.floats(width=32, allow_nan=False),
        "ok": st.booleans(),
    }
)


def written(schema, row):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def plain(row):
    """A row of ours as fastavro has it: maps as dicts."""
    return row | {"tags": dict(row["tags"])}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=st.lists(ORDERS, min_size=1, max_size=20))
def test_every_type_is_read_as_it_was_written(batch_of, rows):
    table = batch_of([written(NESTED, row) for row in rows]).decode(json.dumps(NESTED), "avro").to_arrow()
    table.validate(full=True)
    assert [plain(row) for row in table.to_pylist()] == rows


def test_evolution_is_that_of_fastavro(batch_of):
    reader = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "comment", "aliases": ["note"], "type": ["null", "string"]},
            {"name": "id", "type": "double"},
            {
                "name": "state",
                "type": {"type": "enum", "name": "State", "symbols": ["OTHER", "NEW"], "default": "OTHER"},
            },
            {"name": "ratio", "type": "double"},
            {"name": "added", "type": {"type": "map", "values": "int"}, "default": {"a": 1}},
            {"name": "also", "type": ["string", "null"], "default": "é"},
        ],
    }
    base = {
        "note": "n",
        "price": Decimal("1.00"),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "day": date(2026, 1, 1),
    }
    base |= {"clock": time(1), "lines": [], "tags": {}, "hash": b"1234", "ratio": 0.5, "ok": True, "id": 3}
    values = [written(NESTED, base | {"state": state}) for state in ("NEW", "PAID")]
    theirs = [fastavro.schemaless_reader(io.BytesIO(value), NESTED, reader) for value in values]
    decoded = batch_of(values).decode(json.dumps(reader), "avro", writer_schema=json.dumps(NESTED))
    assert [row | {"added": dict(row["added"])} for row in decoded.to_arrow().to_pylist()] == theirs


def test_confluents_serializers_and_ours(batch_of, registry):
    simple = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
    registry.add("orders-value", json.dumps(simple), guid=uuid.UUID(int=5))
    client = SchemaRegistryClient({"url": registry.url})
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    serializer = AvroSerializer(client, json.dumps(simple), conf=conf)
    context = SerializationContext("orders", MessageField.VALUE)
    rows = [{"a": n, "b": "x" * n} for n in range(5)]
    batch = batch_of([serializer(row, context) for row in rows])
    assert (
        batch.decode(json.dumps(simple), "avro", registry=ottla.SchemaRegistry(registry.url)).to_arrow().to_pylist()
        == rows
    )

    in_headers = conf | {"schema.id.serializer": header_schema_id_serializer}
    serializer = AvroSerializer(client, json.dumps(simple), conf=in_headers)
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext("orders", MessageField.VALUE, headers)
    value = serializer(rows[3], context)
    assert [(name, len(bytes(value))) for name, value in headers] == [("__value_schema_id", 17)]
    batch = batch_of([value], headers=headers)
    decoded = batch.decode(json.dumps(simple), "avro", registry=ottla.SchemaRegistry(registry.url))
    assert decoded.to_arrow().to_pylist() == [rows[3]]


def test_each_version_of_a_schema_is_read_as_the_newest(batch_of, registry):
    first = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    line = {"type": "record", "name": "Line", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    second = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "line", "type": ["null", "n.Line"], "default": None}],
    }
    one = registry.add("t", json.dumps(first))
    registry.add("line", json.dumps(line))
    two = registry.add("t", json.dumps(second), references=[{"name": "n.Line", "subject": "line", "version": 1}])

    def framed(number, schema, row):
        return b"\0" + number.to_bytes(4, "big") + written(schema, row)

    whole = json.loads(json.dumps(second).replace('"n.Line"', json.dumps(line)))
    values = [framed(one, first, {"a": 1}), framed(two, whole, {"a": 2, "line": {"x": 3}}), b"\0\0\0\x03\xe7x", b"{}"]
    asked = ottla.SchemaRegistry(registry.url)
    decoder = ottla.Decoder(asked.latest("t"), "avro", registry=asked)
    batch = batch_of(values)
    decoded = batch.decode(decoder, mode="drop")
    assert decoded.to_arrow().to_pylist() == [{"a": 1, "line": None}, {"a": 2, "line": {"x": 3}}]
    assert [bad.row for bad in decoded.bad] == [2, 3]
    assert "does not have /schemas/ids/999" in decoded.bad[0].reason
    # What was requested once is known, to the decoder and to the registry.
    before = len(registry.requests)
    assert len(batch[:2].decode(decoder)) == 2
    assert len(batch[:2].decode(asked.version("t", 2), "avro", registry=asked)) == 2
    assert [path for path in registry.requests[before:] if "/ids/" in path] == []


def test_the_subject_of_the_topic_is_the_default(batch_of, registry):
    batch = batch_of([b"\0\0\0\0\x01\x0e"])
    registry.add(
        f"{batch[0].topic}-value", json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
    )
    assert batch.decode(format="avro", registry=ottla.SchemaRegistry(registry.url)).to_arrow().to_pylist() == [{"a": 7}]
    with pytest.raises(errors.NotFoundError, match="-key"):
        batch.decode(format="avro", column="key", registry=ottla.SchemaRegistry(registry.url))


def test_each_topic_has_the_schema_of_its_subject(batch_of, registry):
    def record(name):
        return json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "int"}]})

    batches = [batch_of([b"\0\0\0\0" + bytes([number, 2 * number])]) for number in (1, 2)]
    topics = [batch[0].topic for batch in batches]
    for topic, name in zip(topics, "ab", strict=True):
        registry.add(f"{topic}-value", record(name))
    decoder = ottla.Decoder(format="avro", registry=ottla.SchemaRegistry(registry.url))
    with pytest.raises(errors.ArgumentError, match="has no topic"):
        decoder.decode(batches[0][:0])
    assert decoder.decode(batches[0]).to_arrow().to_pylist() == [{"a": 1}]
    assert decoder.decode(batches[0][:0]).to_arrow().column_names == ["a"]
    assert decoder.decode(batches[1]).to_arrow().to_pylist() == [{"b": 2}]
    assert decoder.decode(batches[0]).to_arrow().to_pylist() == [{"a": 1}]
    assert sum(path.endswith("/latest") for path in registry.requests) == 2
    with ottla.Consumer(batch_of.address) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0, 0) for topic in topics])
        for _ in range(20):
            both = consumer.poll(20)
            if len(both) == 2:
                break
            consumer.assign([ottla.TopicPartition(topic, 0, 0) for topic in topics])
    assert {record.topic for record in both} == set(topics)
    with pytest.raises(errors.ArgumentError, match=f"{topics[0]}.* has no common schema: pass a schema"):
        decoder.decode(both)


def of_fields(*names):
    fields = [{"name": name, "type": "int"} for name in names]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def test_ids_are_those_of_the_subjects_context(batch_of, registry):
    """The number 1 of one context swaps the fields of another's: the subject says which is meant, as for Confluent's client."""
    batch = batch_of([b"\0\0\0\0\x01\x02\x04"])
    topic = batch[0].topic
    registry.add("other-value", of_fields("b", "a"))
    registry.add(f":.staging:{topic}-value", of_fields("a", "b"))
    asked = ottla.SchemaRegistry(registry.url)
    client = SchemaRegistryClient({"url": registry.url})
    theirs = AvroDeserializer(client)(batch[0].value, SerializationContext(topic, MessageField.VALUE))
    assert theirs == {"a": 1, "b": 2}
    assert registry.requests[-1] == f"/schemas/ids/1?subject={topic}-value"
    assert batch.decode(of_fields("a", "b"), "avro", registry=asked).to_arrow().to_pylist() == [theirs]
    assert registry.requests[-1] == f"/schemas/ids/1?subject={topic}-value"
    # A subject that is passed; what a registry returned from a context; and a whole context.
    wanted = {"a": 1, "b": 2}
    latest = asked.latest(f":.staging:{topic}-value")
    for schema, options in [
        (None, {"subject": f":.staging:{topic}-value"}),
        (latest, {}),
        (of_fields("a", "b"), {"subject": ":.staging:"}),
    ]:
        decoder = ottla.Decoder(schema, "avro", registry=asked, **options)
        for one in (decoder, pickle.loads(pickle.dumps(decoder))):
            assert batch.decode(one).to_arrow().to_pylist() == [wanted]
    swapped = batch.decode(of_fields("a", "b"), "avro", registry=asked, subject="other-value").to_arrow()
    assert swapped.to_pylist() == [{"a": 2, "b": 1}]
    with pytest.raises(errors.ArgumentError, match="subject needs a registry"):
        ottla.Decoder(of_fields("a"), "avro", subject="s")


def test_each_topic_of_a_batch_has_the_ids_of_its_subject(batch_of, registry):
    first, second = (batch_of([b"\0\0\0\0\x01\x02\x04"]) for _ in range(2))
    registry.add(f":.one:{first[0].topic}-value", of_fields("a", "b"))
    registry.add(f":.two:{second[0].topic}-value", of_fields("b", "a"))
    decoder = ottla.Decoder(of_fields("a", "b"), "avro", registry=ottla.SchemaRegistry(registry.url))
    rows = [{"a": 1, "b": 2}, {"a": 2, "b": 1}]
    assert batch_of([]).decode(decoder).to_arrow().to_pylist() == []
    assert (first + second).decode(decoder).to_arrow().to_pylist() == rows
    assert [batch.decode(decoder).to_arrow().to_pylist() for batch in (first, second)] == [[row] for row in rows]
    assert len(registry.requests) == 2
    # What one topic lacks, another one has.
    third = batch_of([b"\0\0\0\0\x02\x02\x04"])
    registry.add(f":.one:{first[0].topic}-value", of_fields("a"))
    decoded = (first + third + second).decode(decoder, mode="drop")
    assert [(bad.row, "ids/2" in bad.reason) for bad in decoded.bad] == [(1, True)]
    assert decoded.to_arrow().to_pylist() == rows


def test_a_schema_that_comes_later_is_found(batch_of, registry):
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
    decoder = ottla.Decoder(schema, "avro", registry=ottla.SchemaRegistry(registry.url))
    batch = batch_of([b"\0\0\0\0\x01\x0e"])
    assert "Schema not found" in batch.decode(decoder, mode="drop").bad[0].reason
    assert registry.add("t", schema) == 1
    assert batch.decode(decoder).to_arrow().to_pylist() == [{"a": 7}]


SHARED = """
import json
import threading

import ottla
from ottla.testing import Broker

LIST = {"type": "array", "items": "long"}
SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": LIST}]})


class Registry:
    def schema(self, id, *, subject=None):
        return ottla.RegisteredSchema("AVRO", SCHEMA)


def values(ids, length):
    count = bytes([2 * length & 127 | 128, 2 * length >> 7])
    return [b"\\0" + id.to_bytes(4, "big") + count + b"\\2" * length + b"\\0" for id in ids]


def batches(address, topic, values):
    with ottla.Admin(address) as admin, ottla.Producer(address) as producer, ottla.Consumer(address) as consumer:
        admin.create_topics([topic])
        for value in values:
            producer.send(topic, value)
        producer.flush(20)
        consumer.assign([ottla.TopicPartition(topic, 0, 0)])
        found = []
        while sum(map(len, found)) < len(values):
            found.append(consumer.poll(20))
        return found


def read_long_ones():
    while not done.is_set():
        for batch in long:
            decoder.decode(batch)


with Broker() as broker:
    long = batches(broker.bootstrap_servers, "long", values([1] * 50, 4_000))
    new = batches(broker.bootstrap_servers, "new", values(range(2, 102), 64))
decoder, done = ottla.Decoder(SCHEMA, "avro", registry=Registry()), threading.Event()
reader = threading.Thread(target=read_long_ones)
reader.start()
found = sum(len(decoder.decode(batch[row : row + 1])) for batch in new for row in range(len(batch)))
done.set()
reader.join()
print(found)
"""


def test_schemas_come_while_another_thread_decodes():
    """A lock that is waited for with the GIL would stop this process too: another one tries it."""
    ended = subprocess.run(
        [sys.executable, "-c", SHARED], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert (ended.stdout, ended.stderr) == ("100\n", "")


def test_spans_of_time_are_bytes(batch_of):
    """A logical type without a column leaves what it stands on."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "d", "type": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}}],
    }
    assert batch_of([bytes(range(12))]).decode(json.dumps(schema), "avro").to_arrow().to_pylist() == [
        {"d": bytes(range(12))}
    ]


def avro(value, schema):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def test_the_last_entry_of_a_key_counts_as_in_fastavro(batch_of):
    schema = {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]}
    value = b"\x04\x02a\x02\x02b\x04\x02\x02a\x06\x00"
    theirs = fastavro.schemaless_reader(io.BytesIO(value), schema, None)
    table = batch_of([value]).decode(json.dumps(schema), "avro").to_arrow()
    assert dict(table.column("m")[0].as_py()) == theirs["m"] == {"a": 3, "b": 2}
    assert len(table.column("m")[0].as_py()) == 2


@pytest.mark.parametrize(
    ("base", "logical", "day"), [("int", "time-millis", 86_400_000), ("long", "time-micros", 86_400_000_000)]
)
def test_a_time_outside_of_a_day_is_bad(batch_of, base, logical, day):
    plain = {"type": "record", "name": "R", "fields": [{"name": "t", "type": base}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "t", "type": {"type": base, "logicalType": logical}}]}
    kind = pa.time32("ms") if base == "int" else pa.time64("us")
    for number in (day, -1):
        # Nor is it to Arrow, and to Java's LocalTime.
        with pytest.raises(pa.ArrowInvalid, match="not within the acceptable range"):
            pa.array([number], kind).validate(full=True)
    values = [avro({"t": number}, plain) for number in (0, day - 1, day, -1)]
    decoded = batch_of(values).decode(json.dumps(schema), "avro", mode="drop")
    decoded.to_arrow().validate(full=True)
    theirs = [fastavro.schemaless_reader(io.BytesIO(value), schema, None) for value in values[:2]]
    assert decoded.to_arrow().to_pylist() == theirs
    assert [bad.row for bad in decoded.bad] == [2, 3]


E = {"type": "enum", "name": "E", "symbols": ["P"]}
F = {"type": "fixed", "name": "F", "size": 1}


def record(name, *fields, **more):
    return {"type": "record", "name": name, "fields": [{"name": field, "type": "int"} for field in fields], **more}


# A writer's and a reader's schema, a value, and the member of the reader's union that fastavro and Avro's Java library (1.12.1)
# both read it into; None where both refuse it.
RESOLVED = [
    ([record("A", "x"), record("C", "x")], [record("C", "x"), record("A2", "x", aliases=["A"])], b"\0\x0e", 1),
    ([record("A", "x"), record("C", "x")], [record("C", "x"), record("A2", "x", aliases=["A"])], b"\x02\x0e", 0),
    ([E, E | {"name": "D"}], [E | {"name": "D"}, E | {"name": "E2", "aliases": ["E"]}], b"\0\0", 1),
    ([F, F | {"name": "G"}], [F | {"name": "G"}, F | {"name": "F2", "aliases": ["F"]}], b"\0A", 1),
    ("bytes", [E, "string"], b"\x02P", 1),
    ("string", [E, "bytes"], b"\x02P", 1),
    ("bytes", [F, "string"], b"\x02P", 1),
    ("string", [F, "bytes"], b"\x02P", 1),
    ("bytes", E, b"\x02P", None),
    ("string", E, b"\x02P", None),
    ("bytes", F, b"\x02P", None),
    ("string", F, b"\x02P", None),
    (E, E | {"name": "E2"}, b"\0", None),
    (F, F | {"name": "F2"}, b"A", None),
    (F, F | {"size": 2}, b"A", None),
    (record("B"), [record("A"), record("B", "y")], b"", None),
    (E, [E | {"name": "D"}, E | {"name": "E2"}], b"\0", None),
]


@pytest.mark.parametrize(("writer", "reader", "value", "member"), RESOLVED)
def test_schemas_are_resolved_as_avros_libraries_do(batch_of, writer, reader, value, member):
    def theirs():
        return fastavro.schemaless_reader(io.BytesIO(value), writer, reader)

    def ours():
        table = batch_of([value]).decode(json.dumps(reader), "avro", writer_schema=json.dumps(writer)).to_arrow()
        return table.column("value")[0].as_py()

    if member is None:
        with pytest.raises(Exception, match="ismatch|No default|size is different"):
            theirs()
        with pytest.raises((errors.ArgumentError, errors.DecodeError), match="does not become|no default"):
            ours()
        return
    row = ours()
    assert [at for at in range(len(reader)) if row[f"member{at}"] is not None] == [member]
    assert row[f"member{member}"] in (theirs(), str(theirs()).encode())
