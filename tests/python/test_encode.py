"""Typed columns to keys and values: what other implementations read, what a registry is asked, and what is refused."""

from __future__ import annotations

import asyncio
import io
import json
import pickle
from datetime import UTC, datetime, time
from decimal import Decimal

import fastavro
import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from ottla import errors
from tests.python.test_decode_avro import NESTED, ORDERS

RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
}
TABLE = pa.table({"a": [1, 2], "b": ["x", None]})
# The columns that ours reads NESTED as.
COLUMNS = pa.schema(ottla.Decoder(json.dumps(NESTED), "avro"))


def read(value, schema):
    return fastavro.schemaless_reader(io.BytesIO(value), schema, None)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=st.lists(ORDERS, min_size=1, max_size=20))
def test_fastavro_reads_every_type_as_it_was_given(rows):
    given_ = [row | {"tags": list(row["tags"].items())} for row in rows]
    encoded = ottla.Encoder(json.dumps(NESTED), "avro").encode(pa.Table.from_pylist(given_, COLUMNS))
    assert [read(value, NESTED) for value in encoded] == rows


def test_a_byte_order_mark_is_no_part_of_a_schema(registry):
    """Editors on Windows begin a file with one."""
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})
    marked = "\ufeff" + text
    rows = pa.table({"a": [1, 2]})
    assert list(ottla.Encoder(marked, "avro").encode(rows)) == list(ottla.Encoder(text, "avro").encode(rows))
    decoder = ottla.Decoder(marked, "avro", writer_schema=marked)
    assert pa.schema(decoder) == pa.schema(ottla.Decoder(text, "avro"))
    client = ottla.SchemaRegistry(registry.url)
    assert client.register("s-value", marked) == client.register("s-value", text) == client.lookup("s-value", marked)


def test_a_decoder_and_a_producer_take_what_was_encoded(batch_of):
    encoded = ottla.Encoder().encode(TABLE)
    assert len(encoded) == 2
    assert [encoded[0], encoded[-1]] == pa.array(encoded).to_pylist() == [b'{"a":1,"b":"x"}', b'{"a":2}']
    with pytest.raises(IndexError, match="row 2 is not one of 2"):
        encoded[2]
    assert batch_of(list(encoded)).decode(TABLE.schema).to_arrow().equals(TABLE)
    producer = batch_of.producer
    assert producer.send_many("encoded", encoded).result(20) is not None


def test_any_arrow_data_is_encoded():
    encoder = ottla.Encoder()
    wanted = list(encoder.encode(TABLE))
    assert list(encoder.encode(pl.DataFrame(TABLE.to_pydict()))) == wanted
    chunks = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(0, 0), TABLE.slice(1)])
    assert list(encoder.encode(chunks)) == wanted
    rows = pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int8())]))
    assert list(encoder.encode(rows)) == [b'{"a":1}', None, b"{}"]
    assert list(encoder.encode(pa.chunked_array([rows, rows[1:]]))) == [b'{"a":1}', None, b"{}", None, b"{}"]
    assert list(encoder.encode(pa.table({"t": pa.array([time(9, 52, 20, 5)])}))) == [b'{"t":"09:52:20.000005"}']
    assert len(encoder.encode(TABLE.slice(0, 0))) == 0
    with pytest.raises(errors.ArgumentError, match='two columns are named "a"'):
        encoder.encode(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(errors.ArgumentError, match="not a column of Int64"):
        encoder.encode(pa.array([1]))
    with pytest.raises(TypeError, match="is not Arrow data"):
        encoder.encode([1])


# A struct in a struct, beside and in a list and a map, in each of which some are null.
SLICED = pa.table(
    {
        "s": pa.array([{"i": {"n": n, "t": str(n)} if n % 3 else None} if n % 4 else None for n in range(12)]),
        "l": pa.array([[{"i": {"n": n}}] * (n % 3) for n in range(12)]),
        "m": pa.array(
            [[(str(n), {"i": {"n": n}})] for n in range(12)],
            pa.map_(pa.string(), pa.struct([("i", pa.struct([("n", pa.int64())]))])),
        ),
    }
)
INNER = {"type": "record", "name": "In", "fields": [{"name": "n", "type": ["null", "long"]}]}


def nested(name, kind):
    return {"name": name, "type": kind}


SLICED_AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        nested(
            "s",
            [
                "null",
                {
                    "type": "record",
                    "name": "S",
                    "fields": [
                        nested(
                            "i",
                            [
                                "null",
                                {
                                    "type": "record",
                                    "name": "I",
                                    "fields": [nested("n", ["null", "long"]), nested("t", ["null", "string"])],
                                },
                            ],
                        )
                    ],
                },
            ],
        ),
        nested(
            "l",
            {"type": "array", "items": {"type": "record", "name": "L", "fields": [nested("i", INNER)]}},
        ),
        nested("m", {"type": "map", "values": "L"}),
    ],
}


@pytest.mark.parametrize(("start", "length"), [(0, 12), (0, 5), (3, 4), (11, 1), (5, 0)])
def test_a_slice_is_encoded_as_its_rows(start, length):
    for encoder in (ottla.Encoder(), ottla.Encoder(json.dumps(SLICED_AVRO), "avro")):
        wanted = list(encoder.encode(SLICED))[start : start + length]
        some = SLICED.slice(start, length)
        assert list(encoder.encode(some)) == wanted
        assert list(encoder.encode(some.to_struct_array())) == wanted
        by_chunks = pa.Table.from_batches(SLICED.to_batches(max_chunksize=5), SLICED.schema)
        assert list(encoder.encode(by_chunks))[start : start + length] == wanted
        # A slice of a slice, whose columns are slices already.
        assert list(encoder.encode(SLICED.slice(start).slice(0, length))) == wanted
        for at, row in enumerate(SLICED.to_batches(max_chunksize=1)):
            if start <= at < start + length:
                assert list(encoder.encode(row)) == [wanted[at - start]]


def test_a_row_that_does_not_fit_is_counted_over_chunks():
    encoder = ottla.Encoder(json.dumps(RECORD), "avro")
    chunks = pa.concat_tables([TABLE.slice(0, 1), pa.table({"a": pa.array([None], pa.int64()), "b": ["x"]})])
    with pytest.raises(errors.EncodeError, match="row 1 does not fit the schema: column a: it is null") as raised:
        encoder.encode(chunks)
    assert (raised.value.row, raised.value.column) == (1, "a")
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.row, str(again)) == (1, str(raised.value))
    # Text that is no UTF-8 would be a value that nobody can read.
    broken = pa.table({"a": pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())})
    with pytest.raises(errors.EncodeError, match="column a: its text is not UTF-8"):
        ottla.Encoder().encode(broken)


def test_confluents_deserializer_reads_what_was_registered(registry):
    asked = ottla.SchemaRegistry(registry.url)
    text = json.dumps(RECORD)
    with pytest.raises(errors.NotFoundError, match="subject 'orders-value' does not have this schema"):
        ottla.Encoder(text, "avro", registry=asked, auto_register=False).encode(TABLE, topic="orders")
    encoder = ottla.Encoder(text, "avro", registry=asked)
    values = [*encoder.encode(TABLE, topic="orders"), *encoder.encode(TABLE, topic="orders")]
    assert registry.requests == ["/subjects/orders-value", "/subjects/orders-value/versions"]
    assert registry.seen["content-type"] == "application/vnd.schemaregistry.v1+json"
    client = SchemaRegistryClient({"url": registry.url})
    deserializer = AvroDeserializer(client, text)
    context = SerializationContext("orders", MessageField.VALUE)
    assert [deserializer(value, context) for value in values] == TABLE.to_pylist() * 2
    # By the latest of the subject, by what the registry gave, for keys, and after a pickle.
    latest = ottla.Encoder(format="avro", registry=asked, subject="orders-value")
    by_schema = ottla.Encoder(asked.latest("orders-value"), "avro", registry=asked)
    for other in (latest, by_schema, pickle.loads(pickle.dumps(encoder))):
        assert list(other.encode(TABLE, topic="orders")) == values[:2]
    key = ottla.Encoder(text, "avro", registry=asked, column="key").encode(TABLE, topic="orders")
    assert key[0] == b"\0\0\0\0\x02" + values[0][5:]
    assert registry.requests[-1] == "/subjects/orders-key/versions"
    # JSON has the id of its schema, and the text of its columns.
    values = ottla.Encoder('{"type":"object"}', registry=asked).encode(TABLE, topic="j")
    assert values[0] == b'\0\0\0\0\x03{"a":1,"b":"x"}'
    assert asked.latest("j-value").type == "JSON"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", ["a", "bc"]),
        ("long", [1, -1]),
        ("bytes", [b"abc", b"\x06abc"]),
        (["null", "string"], [None, "x"]),
        ({"type": "array", "items": "int"}, [[1, 2], []]),
    ],
)
def test_keys_of_one_type_are_written_as_confluents_library_does(registry, batch_of, kind, values):
    asked = ottla.SchemaRegistry(registry.url)
    client = SchemaRegistryClient({"url": registry.url})
    text = json.dumps(kind)
    context = SerializationContext("orders", MessageField.KEY)
    encoder = ottla.Encoder(text, "avro", column="key", registry=asked)
    encoded = list(encoder.encode(pa.table({"key": values}), topic="orders"))
    serializer = AvroSerializer(client, text)
    # It registers another text of the same schema, so that ids differ; and it makes no value of None.
    assert [bytes(serializer(value, context))[5:] for value in values if value is not None] == [
        written[5:] for written, value in zip(encoded, values, strict=True) if value is not None
    ]
    deserializer = AvroDeserializer(client, text)
    assert [deserializer(value, context) for value in encoded] == values
    decoded = batch_of(encoded).decode(text, "avro", registry=asked).to_arrow()
    assert decoded.column("value").to_pylist() == values


def test_what_a_registry_does_not_take(registry):
    asked = ottla.SchemaRegistry(registry.url)
    body = b'{"error_code":409,"message":"Schema being registered is incompatible with an earlier schema"}'
    registry.fault = lambda path: (409, body)
    encoder = ottla.Encoder(json.dumps(RECORD), "avro", registry=asked)
    with pytest.raises(errors.ArgumentError, match="status 409: Schema being registered is incompatible"):
        encoder.encode(TABLE, topic="orders")
    registry.fault = lambda path: None
    assert encoder.encode(TABLE, topic="orders")[0][:5] == b"\0\0\0\0\x01"
    # One that cannot be written is not registered.
    with pytest.raises(errors.ArgumentError, match="is not JSON"):
        ottla.Encoder("{", "avro", registry=asked).encode(TABLE, topic="other")
    assert "/subjects/other-value/versions" not in registry.requests


def test_columns_are_seen_before_a_schema_is_registered(registry):
    asked = ottla.SchemaRegistry(registry.url)
    encoder = ottla.Encoder(json.dumps(RECORD), "avro", registry=asked)
    texts = TABLE.set_column(0, "a", pa.array(["x", "y"]))
    for wrong, why in ((TABLE.drop_columns(["a"]), 'no column "a"'), (texts, "does not become Avro's long")):
        with pytest.raises(errors.ArgumentError, match=why):
            encoder.encode(wrong, topic="orders")
    assert registry.requests == []
    # What can be read once is encoded, too; and a row that does not fit comes after the columns.
    assert list(encoder.encode(TABLE.to_reader(), topic="orders")) == list(encoder.encode(TABLE, topic="orders"))
    with pytest.raises(errors.EncodeError, match="row 0"):
        encoder.encode(pa.table({"a": pa.array([None], pa.int64()), "b": ["x"]}), topic="others")
    assert registry.requests == ["/subjects/orders-value/versions", "/subjects/others-value/versions"]


def test_what_encodes_is_checked_once_whoever_has_the_schema(registry):
    asked = ottla.SchemaRegistry(registry.url)
    text = json.dumps(RECORD)
    asked.register("orders-value", text, "AVRO")
    for encoder in (
        ottla.Encoder(text, "avro"),
        ottla.Encoder(text, "avro", registry=asked),
        ottla.Encoder(text, "avro", registry=asked, auto_register=False),
        ottla.Encoder(format="avro", registry=asked),
        ottla.Encoder(asked.latest("orders-value"), "avro", registry=asked),
    ):
        checked = []
        encoder.resolve("orders", lambda encode, checked=checked: checked.append(len(encode(TABLE))))
        assert checked == [2]


@pytest.mark.parametrize(
    ("schema", "options", "why"),
    [
        (None, {"format": "csv"}, "format must be one of 'json', 'avro'"),
        (None, {"format": "avro"}, "needs a schema, or a registry"),
        ("{}", {}, "written as JSON without a schema"),
        (None, {"subject": "s"}, "subject needs a registry"),
        (None, {"column": "headers"}, 'column must be "key" or "value"'),
        (b"", {"format": "avro"}, "not bytes"),
        ("{", {"format": "avro"}, "is not JSON"),
        (ottla.RegisteredSchema("JSON", "{}"), {"format": "avro"}, "of type JSON, but the format is 'avro'"),
        (
            ottla.RegisteredSchema("AVRO", '"int"'),
            {"format": "avro", "registry": ottla.SchemaRegistry("http://r")},
            "has no id",
        ),
        (None, {"registry": ottla.SchemaRegistry("http://r")}, "pass topic, or make the encoder with subject"),
    ],
)
def test_what_can_never_work(schema, options, why):
    with pytest.raises(errors.ArgumentError) as raised:
        ottla.Encoder(schema, **options).encode(TABLE)
    assert why in str(raised.value)


def test_decimals_and_times_of_other_units():
    fields = [
        {
            "name": "d",
            "type": {"type": "fixed", "name": "F", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 4},
        },
        {"name": "t", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "n", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    at = datetime(2026, 11, 23, 9, 52, 20, 123456)  # noqa: DTZ001
    table = pa.table(
        {
            "d": pa.array([Decimal("-1234.5")], pa.decimal128(10, 1)),
            "t": pa.array([time(9, 52, 20)], pa.time32("s")),
            "at": pa.array([at], pa.timestamp("us")),
            "n": pa.array([at.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")),
        }
    )
    [value] = ottla.Encoder(json.dumps(schema), "avro").encode(table)
    found = read(value, schema)
    assert (found["d"], found["t"], found["at"]) == (
        Decimal("-1234.5"),
        time(9, 52, 20),
        at.replace(microsecond=123000),
    )
    assert found["n"] == int(at.replace(tzinfo=UTC).timestamp()) * 10**9 + 123_456_000


@pytest.mark.parametrize("facade", ["sync", "aio"])
def test_encoded_keys_stand_beside_encoded_values(address, facade):
    values, keys = ottla.Encoder().encode(TABLE), ottla.Encoder().encode(TABLE.select(["a"]))
    text = pa.array(["x", None])

    async def send(topic, *columns, **more):
        async with ottla.aio.Producer(address) as producer:
            await (await producer.send_many(topic, *columns, **more))

    for number, (columns, more, wanted) in enumerate(
        [
            ((values,), {"keys": keys}, [(keys[0], values[0]), (keys[1], values[1])]),
            ((values,), {"keys": [b"k", None], "headers": {"h": b"1"}}, [(b"k", values[0]), (None, values[1])]),
            (([b"1", b"2"],), {"keys": text, "partitions": 0}, [(b"x", b"1"), (None, b"2")]),
            ((text,), {"timestamps": [1, 2]}, [(None, b"x"), (None, None)]),
        ]
    ):
        topic = f"beside-{facade}-{number}"
        with ottla.Admin(address) as admin:
            admin.create_topics([topic])
        if facade == "aio":
            asyncio.run(send(topic, *columns, **more))
        else:
            with ottla.Producer(address) as producer:
                producer.send_many(topic, *columns, **more).result(20)
        assert [(record.key, record.value) for record in ottla.read(address, topic)] == wanted
    with ottla.Producer(address) as producer:
        with pytest.raises(errors.ArgumentError, match="1 keys for 2 values"):
            producer.send_many(topic, values, keys=keys_of_one())
        with pytest.raises(TypeError, match="keys are a table"):
            producer.send_many(topic, values, keys=TABLE)


def keys_of_one():
    return ottla.Encoder().encode(TABLE.slice(0, 1))


def test_a_registry_may_be_its_url_and_nothing_else(registry):
    encoder = ottla.Encoder(json.dumps(RECORD), "avro", registry=registry.url)
    assert encoder.encode(TABLE, topic="orders")[0][:5] == b"\0\0\0\0\x01"
    for wrong in (5, {"url": registry.url}):
        for make in (ottla.Encoder, ottla.Decoder):
            with pytest.raises(errors.ArgumentError, match="registry is a SchemaRegistry or its URL, not"):
                make(json.dumps(RECORD), "avro", registry=wrong)
    with pytest.raises(errors.ConfigError, match="begin with http"):
        ottla.Encoder(json.dumps(RECORD), "avro", registry="localhost:8081")


ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
COLUMN_FORMS = [
    {"a": int, "b": str},
    {"a": "bigint not null", "b": "string"},
    "a bigint, b string",
    TABLE.schema,
    "infer",
]


@pytest.mark.parametrize("schema", [RECORD, *COLUMN_FORMS])
def test_avro_of_columns_and_of_dicts(registry, schema):
    for data in (TABLE, ROWS, TABLE.to_batches()[0], pa.array(ROWS), pl.DataFrame(ROWS)):
        encoder = ottla.Encoder(schema, "avro")
        values = list(encoder.encode(data))
        assert [read(value, json.loads(encoder.schema)) for value in values] == ROWS
        assert list(pickle.loads(pickle.dumps(encoder)).encode(ROWS)) == values
    framed = ottla.Encoder(schema, "avro", registry=registry.url, subject="s").encode(ROWS)
    assert [bytes(value[5:]) for value in framed] == values
    latest = ottla.Encoder(format="avro", registry=registry.url, subject="s")
    assert list(latest.encode(ROWS)) == list(latest.encode(TABLE)) == list(framed)


def test_dicts_are_rows_in_the_types_of_the_schema():
    at = datetime(2026, 11, 23, 9, 52, 20, tzinfo=UTC)
    columns = {
        "at": datetime,
        "sum": "decimal(8,2)",
        "tags": [str],
        "m": "map<string,int>",
        "in": {"x": float, "y": [int]},
    }
    rows = [
        {"at": at, "sum": Decimal("1.5"), "tags": ["a"], "m": {"k": 1}, "in": {"x": 1, "y": [2]}},
        {"tags": None},
        {"in": {"x": None}},
    ]
    encoder = ottla.Encoder(columns, "avro")
    found = [read(value, json.loads(encoder.schema)) for value in encoder.encode(rows)]
    assert found[0] == {"at": at, "sum": Decimal("1.50"), "tags": ["a"], "m": {"k": 1}, "in": {"x": 1.0, "y": [2]}}
    assert found[1] == dict.fromkeys(columns)
    assert found[2]["in"] == {"x": None, "y": None}
    assert list(ottla.Encoder().encode([{"a": 1}, None, {"b": [1.5]}])) == [b'{"a":1}', None, b'{"b":[1.5]}']
    assert list(ottla.Encoder().encode({"a": 1})) == [b'{"a":1}']
    for row, why in [
        ({"att": at}, "row 0 has 'att', and the schema has no such field"),
        ({"in": {"z": 1}}, r"row 0 has 'in.z'"),
        ({"sum": "x"}, "the dicts do not fit the schema"),
    ]:
        with pytest.raises(errors.ArgumentError, match=why):
            encoder.encode([row])


def test_columns_that_can_never_be_declared():
    for schema, why in [
        ({}, "of no columns"),
        ({"a": complex}, "the type of column 'a' is a text"),
        ({"a": "long long"}, "a comma is wanted"),
        ("a int, b", "a type, such as boolean"),
        ("a decimal(40,2)", "at most 38 digits"),
        ("a array<int", "> is wanted"),
        ("a-b int", "letters, digits and underscores"),
    ]:
        with pytest.raises(errors.ArgumentError, match=why):
            ottla.Encoder(schema, "avro")
    with pytest.raises(errors.ArgumentError, match="only Avro schemas can be inferred"):
        ottla.Encoder("infer", "protobuf", message="M")
