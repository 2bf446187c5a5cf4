"""Protobuf that ours writes from columns, as Google's library reads it, and Confluent's what stands before it."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from google.protobuf import descriptor_pb2, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from ottla import errors
from tests.python.test_decode_protobuf import FILE, POOL, SCALARS, TIME, Whole

Line = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Line"))
SET = descriptor_pb2.FileDescriptorSet(file=[TIME, FILE]).SerializeToString()
COLUMNS = pa.schema(ottla.Decoder(SET, "protobuf", message="Whole"))
SCALAR_ROWS = st.fixed_dictionaries(
    {name: values for name, (_, values) in SCALARS.items()}
    | {f"many_{name}": st.lists(values, max_size=4) for name, (_, values) in SCALARS.items()}
)


def columns(message):
    """A message as a row of the columns that ours reads it as."""
    row = {name: getattr(message, name) for name in SCALARS}
    row |= {f"many_{name}": list(getattr(message, f"many_{name}")) for name in SCALARS}
    row |= {name: getattr(message, name) if message.HasField(name) else None for name in ("a", "maybe")}
    row["b"] = {"sku": message.b.sku} if message.HasField("b") else None
    row["kind"] = FILE.enum_type[0].value[message.kind].name
    row["lines"] = [{"sku": line.sku} for line in message.lines]
    row["at"] = message.at.ToDatetime(UTC) if message.HasField("at") else None
    row["counts"] = sorted(message.counts.items())
    return row


@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=st.lists(SCALAR_ROWS, min_size=1, max_size=5))
def test_googles_library_reads_every_type_as_it_was_given(rows):
    messages = [Whole(**row) for row in rows]
    table = pa.Table.from_pylist([columns(message) for message in messages], COLUMNS)
    encoded = ottla.Encoder(Whole, "protobuf").encode(table)
    assert [Whole.FromString(value) for value in encoded] == messages
    # What has no presence and its default takes no bytes, as theirs.
    assert [len(value) for value in encoded] == [len(message.SerializeToString()) for message in messages]


def test_nested_messages_maps_and_presence():
    at = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    whole = Whole(b=Line(sku="s"), maybe=0, kind="SOME", lines=[Line(sku="x"), Line()], counts={"a": -1, "": 0})
    whole.at.FromDatetime(at)
    messages = [whole, Whole(a=0), Whole(kind=7), Whole()]
    rows = [columns(message) for message in (whole, Whole(a=0), Whole(), Whole())]
    rows[2]["kind"] = "7"
    encoded = ottla.Encoder(SET, "protobuf", message="shop.Whole").encode(pa.Table.from_pylist(rows, COLUMNS))
    assert [Whole.FromString(value) for value in encoded] == messages
    assert encoded[3] == b""


def test_what_does_not_fit_is_named():
    encoder = ottla.Encoder(Whole, "protobuf")
    both = pa.table({"a": [1], "b": pa.array([{"sku": "s"}])})
    with pytest.raises(errors.EncodeError, match="column a: it has a value, and so has b"):
        encoder.encode(both.set_column(0, "a", pa.array([1], pa.int32())))
    for table, why in [
        (pa.table({"uint32": [-1]}), "column uint32: -1 does not fit 32 bits without a sign"),
        (pa.table({"kind": ["OTHER"]}), "column kind: a name of its enum is wanted, not OTHER"),
        (pa.table({"lines": [[None, {"sku": "x"}]]}), r"column lines\[0\]: it is null"),
    ]:
        with pytest.raises(errors.EncodeError, match=why):
            encoder.encode(table)
    with pytest.raises(errors.ArgumentError, match='no field for column "other"'):
        encoder.encode(pa.table({"other": [1]}))
    with pytest.raises(errors.ArgumentError, match="have no message"):
        ottla.Encoder(SET, "protobuf", message="Nothing")


def test_a_registry_has_the_file(registry, batch_of):
    asked = ottla.SchemaRegistry(registry.url)
    counts = pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64()))
    table = pa.table({"int32": pa.array([1, 2], pa.int32()), "counts": counts})
    values = list(ottla.Encoder(Whole, "protobuf", registry=asked).encode(table, topic="orders"))
    found = []
    for value in values:
        front = SchemaId("PROTOBUF")
        found.append(Whole.FromString(front.from_bytes(io.BytesIO(value)).read()))
        # `Whole` is the second message of its file.
        assert (front.id, front.message_indexes) == (1, [1])
    assert found == [Whole(int32=1, counts={"a": 1}), Whole(int32=2)]
    latest = ottla.Encoder(format="protobuf", registry=asked, message="Whole")
    assert list(latest.encode(table, topic="orders")) == values
    decoded = batch_of(values).decode(Whole, "protobuf", registry=asked).to_arrow()
    assert decoded["int32"].to_pylist() == [1, 2]
    lines = ottla.Encoder(SET, "protobuf", registry=asked, auto_register=False)
    assert lines.encode(pa.table({"sku": ["s"]}), topic="orders")[0] == b"\0\0\0\0\x01\0\x0a\x01s"


def test_a_file_that_imports_others_is_not_registered_on_the_way(registry):
    inner = descriptor_pb2.FileDescriptorProto(name="inner.proto", syntax="proto3")
    inner.message_type.add(name="In")
    outer = descriptor_pb2.FileDescriptorProto(name="outer.proto", syntax="proto3", dependency=["inner.proto"])
    outer.message_type.add(name="Out").field.add(name="in", number=1, type=11, type_name=".In", label=1)
    files = descriptor_pb2.FileDescriptorSet(file=[inner, outer]).SerializeToString()
    encoder = ottla.Encoder(files, "protobuf", registry=ottla.SchemaRegistry(registry.url))
    with pytest.raises(errors.ArgumentError, match=r"imports inner.proto, which a registry needs"):
        encoder.encode(pa.table({}), topic="orders")
    assert registry.requests == []
