"""Keys and values as typed columns: what other decoders make of the same bytes is what ours has to make."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.json
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from ottla import errors

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("id", pa.int32()),
        ("total", pa.int64()),
        ("price", pa.float64()),
        ("ok", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("where", pa.struct([("x", pa.float64()), ("y", pa.int8())])),
    ]
)


def test_json_is_what_pyarrow_makes_of_it(batch_of):
    rows = [
        {
            "name": "N1",
            "id": 1,
            "total": 5_000_000_000,
            "price": 0.1,
            "ok": True,
            "tags": ["a", "ü"],
            "where": {"x": 1, "y": -5},
        },
        {"ok": False, "name": 'q"\\\n', "id": -2, "extra": {"a": [1]}, "tags": [], "where": None},
        {},
        {"price": 1e300, "where": {"y": 7}, "tags": [None, "b"]},
    ]
    lines = [json.dumps(row).encode() for row in rows]
    options = pa.json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
    theirs = pa.json.read_json(io.BytesIO(b"\n".join(lines)), parse_options=options)
    ours = batch_of(lines).decode(SCHEMA).to_arrow()
    ours.validate(full=True)
    assert ours.schema == SCHEMA
    assert ours.to_pylist() == theirs.select(SCHEMA.names).to_pylist()


LEAVES = {
    "name": st.text(),
    "id": st.integers(-(2**31), 2**31 - 1),
    "total": st.integers(-(2**63), 2**63 - 1),
    "price": st.floats(allow_nan=False, width=64),
    "ok": st.booleans(),
    "tags": st.lists(st.none() | st.text(), max_size=4),
    "where": st.none()
    | st.fixed_dictionaries({"x": st.none() | st.floats(allow_nan=False), "y": st.integers(-128, 127)}),
}
ROWS = st.lists(
    st.fixed_dictionaries({}, optional={k: st.none() | v for k, v in LEAVES.items()}), min_size=1, max_size=30
)


@settings(max_examples=25, deadline=None, derandomize="OTTLA_SEED" not in os.environ)
@given(rows=ROWS, ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
def test_json_that_python_writes_is_read_as_it_was(batch_of, rows, ascii_only, indent):
    values = [json.dumps(row, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace") for row in rows]
    wanted = [{name: json.loads(value).get(name) for name in SCHEMA.names} for value in values]
    table = batch_of(values).decode(SCHEMA, mode="permissive").to_arrow()
    corrupt = table.column("_corrupt").to_pylist()
    for row, (value, bad) in enumerate(zip(values, corrupt, strict=True)):
        if b"\\ud" in value:  # a surrogate that stands alone is no text; Python writes it all the same
            continue
        assert bad is None, value
        assert table.slice(row, 1).select(SCHEMA.names).to_pylist() == [wanted[row]]


def test_times_and_decimals(batch_of):
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("sum", pa.decimal128(10, 2)),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    value = b'{"at":"2026-11-23T10:52:20.123456+01:00","day":"2026-11-23","sum":12.345,"m":{"a":1}}'
    row = batch_of([value]).decode(schema).to_arrow().to_pylist()[0]
    assert row == {
        "at": datetime(2026, 11, 23, 9, 52, 20, 123456, tzinfo=UTC),
        "day": date(2026, 11, 23),
        "sum": Decimal("12.35"),
        "m": [("a", 1)],
    }


BAD = [b'{"id":1}', b'{"id":"x"}', None, b"{", b'{"id":5}']


def test_fail_names_the_record_the_column_and_the_reason(batch_of):
    batch = batch_of(BAD)
    with pytest.raises(errors.DecodeError, match=r"offset 1 of partition 0 .*column id: int32 is wanted") as caught:
        batch.decode(SCHEMA)
    error = caught.value
    assert (error.kind, error.topic, error.partition, error.offset, error.column) == (
        "decode",
        batch[0].topic,
        0,
        1,
        "id",
    )
    assert isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.offset, str(again)) == (errors.DecodeError, 1, str(error))


def test_drop_puts_bad_records_apart_and_keeps_columns_of_the_others(batch_of):
    batch = batch_of(BAD)
    decoded = batch.decode(SCHEMA, mode="drop", keep=["offset", "topic"])
    table = decoded.to_arrow()
    assert table.column_names == ["offset", "topic", *SCHEMA.names]
    assert table.column("offset").to_pylist() == [0, 2, 4]
    assert table.column("id").to_pylist() == [1, None, 5]
    assert len(decoded) == 3
    assert [(bad.row, bad.offset, bad.column, bad.value) for bad in decoded.bad] == [
        (1, 1, "id", BAD[1]),
        (3, 3, "", BAD[3]),
    ]
    assert "it is not JSON" in decoded.bad[1].reason
    assert batch[decoded.bad[1].row].value == BAD[3]
    # A slice counts its own rows.
    assert [bad.row for bad in batch[2:].decode(SCHEMA, mode="drop").bad] == [1]


def test_permissive_keeps_all_rows(batch_of):
    decoded = batch_of(BAD).decode(SCHEMA, mode="permissive", corrupt_column="broken", keep="offset")
    table = decoded.to_arrow()
    assert table.column("offset").to_pylist() == [0, 1, 2, 3, 4]
    assert table.column("id").to_pylist() == [1, None, None, None, 5]
    assert table.column("broken").to_pylist() == [None, BAD[1], None, BAD[3], None]
    assert len(decoded.bad) == 2


def test_keys_csv_text_and_bytes(batch_of):
    batch = batch_of([b"1;x", b'2;"y;z"'], key=b'{"id":7}')
    assert batch.decode(SCHEMA, column="key").to_arrow().column("id").to_pylist() == [7, 7]
    lines = pa.schema([("n", pa.int64()), ("s", pa.string())])
    assert batch.decode(lines, "csv", delimiter=";").to_arrow().to_pylist() == [
        {"n": 1, "s": "x"},
        {"n": 2, "s": "y;z"},
    ]
    assert batch.decode(format="string").to_arrow().to_pylist() == [{"value": "1;x"}, {"value": '2;"y;z"'}]
    assert batch.decode(format="raw", column="key").to_arrow().schema == pa.schema([("key", pa.binary())])


def test_a_decoder_is_made_once_and_asyncio_decodes_on_another_thread(batch_of):
    decoder = ottla.Decoder(json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}}))
    batch = batch_of([b'{"id":1}'])
    assert batch.decode(decoder).to_arrow().to_pylist() == [{"id": 1}]
    assert pickle.loads(pickle.dumps(decoder)).decode(batch).to_arrow().to_pylist() == [{"id": 1}]
    decoded = asyncio.run(asyncio.to_thread(batch.decode, decoder, mode="drop"))
    assert pa.table(decoded).to_pylist() == [{"id": 1}]
    assert decoder.decode(batch[:0]).to_arrow().num_rows == 0


def test_options_beside_a_decoder_are_refused(batch_of):
    decoder = ottla.Decoder(pa.schema([("n", pa.int64()), ("s", pa.string())]), "csv", delimiter=";")
    batch = batch_of([b"1;x"])
    for options in [
        {"format": "avro"},
        {"column": "key"},
        {"registry": ottla.SchemaRegistry("http://localhost")},
        {"writer_schema": '"int"'},
        {"message": "M"},
        {"framed": True},
        {"delimiter": "|"},
    ]:
        with pytest.raises(errors.ArgumentError, match=f"its own {next(iter(options))}: pass it to ottla.Decoder"):
            batch.decode(decoder, **options)
    batch.decode(decoder, "csv", delimiter=";", framed=False, mode="drop", keep="offset")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"schema": SCHEMA, "format": "xml"}, "format must be one of 'json'"),
        ({"schema": SCHEMA, "column": "headers"}, 'column is "key" or "value"'),
        ({"schema": SCHEMA, "mode": "ignore"}, 'mode is "fail", "permissive" or "drop"'),
        ({"schema": SCHEMA, "keep": ["id"]}, 'there is no column "id"'),
        ({"schema": pa.schema([("offset", pa.int64())]), "keep": ["offset"]}, "two columns would be named"),
        ({"schema": pa.schema([("a", pa.int64()), ("a", pa.int64())])}, "two fields named"),
        ({"schema": pa.schema([("a", pa.month_day_nano_interval())])}, "which no format decodes to"),
        ({"schema": pa.schema([("_corrupt", pa.int64())]), "mode": "permissive"}, "choose another name"),
        ({}, "needs a schema"),
        ({"schema": 5}, "not int"),
        ({"schema": SCHEMA, "format": "avro"}, "does not contain its schema"),
        ({"schema": "{", "format": "avro"}, "is not JSON"),
        ({"schema": SCHEMA, "format": "avro", "framed": True}, "pass registry="),
        ({"schema": SCHEMA, "format": "raw"}, "has no schema"),
        ({"schema": pa.schema([("b", pa.binary())]), "format": "csv"}, "which no field of CSV holds"),
        ({"schema": SCHEMA, "writer_schema": "x"}, "writer_schema needs format 'avro'"),
        ({"schema": b"\x0a", "format": "protobuf"}, "descriptors"),
        ({"schema": SCHEMA, "format": "protobuf"}, "FileDescriptorSet"),
    ],
)
def test_what_can_never_work_is_refused(batch_of, arguments, text):
    batch = batch_of([b"{}"])
    with pytest.raises(errors.ArgumentError, match=text):
        batch.decode(**arguments)


def test_bad_bytes_leave_memory_alone(batch_of):
    """A short value that asks for endless elements is bad, and costs nothing."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
    decoded = batch_of([b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"]).decode(json.dumps(schema), "avro", mode="drop")
    assert "take no bytes" in decoded.bad[0].reason


def test_selected_columns_alone_are_read(batch_of):
    batch = batch_of([b'{"name":"a","id":1,"total":"no number"}'])
    table = batch.decode(SCHEMA, select=["id", "name"]).to_arrow()
    assert table.schema == pa.schema([SCHEMA.field("id"), SCHEMA.field("name")])
    assert table.to_pylist() == [{"id": 1, "name": "a"}]
    decoder = ottla.Decoder(SCHEMA, select=(name for name in ["id"]))
    again = pickle.loads(pickle.dumps(decoder))
    assert batch.decode(again).to_arrow().to_pylist() == [{"id": 1}]
    with pytest.raises(errors.ArgumentError, match='column "ID" is selected, and the schema has name, id, total'):
        ottla.Decoder(SCHEMA, select=["ID"])
    with pytest.raises(errors.ArgumentError, match="the decoder has its own select"):
        batch.decode(decoder, select=["name"])


def test_a_decoder_tells_its_columns():
    assert pa.schema(ottla.Decoder(SCHEMA)) == SCHEMA
    assert pa.schema(ottla.Decoder(SCHEMA, "avro", registry=ottla.SchemaRegistry("http://h"), select=["id"])).names == [
        "id"
    ]
    with pytest.raises(errors.ArgumentError, match="a decoder without a schema uses that of each topic"):
        pa.schema(ottla.Decoder(format="avro", registry=ottla.SchemaRegistry("http://h")))


ITEM = {"item": "pen", "n": 2, "price": 1.5, "tags": ["a"], "where": {"x": 0.5}}
ITEM_FORMS = [
    {"item": str, "n": int, "price": float, "tags": [str], "where": {"x": float}},
    {"item": "string", "n": "bigint", "price": "double", "tags": "array<string>", "where": "struct<x:double>"},
    "item string, n bigint not null, price double comment 'each', `tags` array<string>, where: struct<x: double>",
    "infer",
    {
        "type": "object",
        "properties": {
            "item": {"type": "string"},
            "n": {"type": "integer"},
            "price": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "where": {"type": "object", "properties": {"x": {"type": "number"}}},
        },
    },
]


@pytest.mark.parametrize("schema", ITEM_FORMS)
def test_columns_are_declared_in_many_ways(batch_of, schema):
    batch = batch_of([json.dumps(ITEM).encode()])
    decoder = ottla.Decoder(schema)
    for decoded in (batch.decode(schema), batch.decode(decoder), batch.decode(pickle.loads(pickle.dumps(decoder)))):
        assert decoded.to_arrow().to_pylist() == [ITEM]
    some = batch.decode(schema, select=["price", "item"]).to_arrow()
    assert some.to_pylist() == [{"price": 1.5, "item": "pen"}]


def test_what_is_inferred_has_room_for_all_first_records(batch_of):
    rows = [
        {"a": 1, "b": None},
        {"a": 1.5, "c": {"x": 1}},
        {"a": None, "c": {"y": []}, "d": 1},
        {"d": "x"},
        {"e": 2**63},
    ]
    batch = batch_of([json.dumps(row).encode() for row in rows] + [b"bad", None])
    decoder = ottla.Decoder("infer")
    with pytest.raises(errors.ArgumentError, match="has none before the first batch"):
        pa.schema(decoder)
    table = batch.decode(decoder, mode="drop").to_arrow()
    inner = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.field("element", pa.string())))])
    kinds = [("a", pa.float64()), ("b", pa.string()), ("c", inner), ("d", pa.string()), ("e", pa.float64())]
    assert table.schema == pa.schema(kinds) == pa.schema(decoder)
    assert table.column("d").to_pylist() == [None, None, "1", "x", None, None]
    # Later batches have the same columns.
    later = batch_of([b'{"a":2,"new":1}']).decode(decoder).to_arrow()
    assert later.schema == table.schema
    for empty in (batch[:0], batch[5:]):
        with pytest.raises(errors.ArgumentError, match="no record is a JSON object"):
            empty.decode("infer")
    with pytest.raises(errors.ArgumentError, match="inferred only from JSON"):
        batch.decode("infer", "csv")


def test_csv_and_avro_take_declared_columns(batch_of):
    assert batch_of([b"1,x"]).decode("a int, b string", "csv").to_arrow().to_pylist() == [{"a": 1, "b": "x"}]
    assert batch_of([b"1,x"]).decode({"a": int, "b": str}, "csv").to_arrow().to_pylist() == [{"a": 1, "b": "x"}]
    written = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}
    batch = batch_of([b"\x02\x02x"])
    for schema in ({"b": str, "a": float}, "b string, a double"):
        rows = batch.decode(schema, "avro", writer_schema=json.dumps(written)).to_arrow().to_pylist()
        assert rows == [{"b": "x", "a": 1.0}]
    assert batch.decode(written, "avro").to_arrow().to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(errors.ArgumentError, match="a comma is wanted at character 6"):
        batch.decode("a int 5", "csv")


def test_what_is_decoded_is_a_frame_and_a_table_in_notebooks(batch_of):
    rows = [{"item": f"<{n}>", "raw": "x" * n * 10} for n in range(12)]
    decoded = batch_of([json.dumps(row).encode() for row in rows] + [b"{"]).decode(
        "item string, raw string", mode="drop"
    )
    assert (
        decoded.to_pandas()["item"].tolist() == decoded.to_polars()["item"].to_list() == [row["item"] for row in rows]
    )
    page = decoded._repr_html_()
    assert "Decoded: 12 rows, 1 bad record" in page
    assert "… 2 rows …" in page
    assert "&lt;0&gt;" in page
    assert "<0>" not in page
    assert "x" * 60 + "…" in page
    assert "x" * 61 not in page
