"""Protobuf that Google's library writes, read as it reads it."""

from __future__ import annotations

import base64
import struct

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from ottla import errors

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "double": (Field.TYPE_DOUBLE, st.floats(allow_nan=False)),
    "float": (Field.TYPE_FLOAT, st.floats(width=32, allow_nan=False)),
    "int32": (Field.TYPE_INT32, st.integers(-(2**31), 2**31 - 1)),
    "int64": (Field.TYPE_INT64, st.integers(-(2**63), 2**63 - 1)),
    "uint32": (Field.TYPE_UINT32, st.integers(0, 2**32 - 1)),
    "uint64": (Field.TYPE_UINT64, st.integers(0, 2**64 - 1)),
    "sint32": (Field.TYPE_SINT32, st.integers(-(2**31), 2**31 - 1)),
    "sint64": (Field.TYPE_SINT64, st.integers(-(2**63), 2**63 - 1)),
    "fixed32": (Field.TYPE_FIXED32, st.integers(0, 2**32 - 1)),
    "fixed64": (Field.TYPE_FIXED64, st.integers(0, 2**64 - 1)),
    "sfixed32": (Field.TYPE_SFIXED32, st.integers(-(2**31), 2**31 - 1)),
    "sfixed64": (Field.TYPE_SFIXED64, st.integers(-(2**63), 2**63 - 1)),
    "bool": (Field.TYPE_BOOL, st.booleans()),
    "string": (Field.TYPE_STRING, st.text()),
    "bytes": (Field.TYPE_BYTES, st.binary()),
}


def described():
    """A file with every scalar alone, repeated and optional, an enum, a oneof, a map, nested messages and a timestamp."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(["NONE", "SOME"]):
        kind.value.add(name=name, number=number)
    line = file.message_type.add(name="Line")
    line.field.add(name="sku", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    whole = file.message_type.add(name="Whole")
    number = 0
    for name, (kind_of, _) in SCALARS.items():
        for prefix, label in (("", Field.LABEL_OPTIONAL), ("many_", Field.LABEL_REPEATED)):
            number += 1
            whole.field.add(name=prefix + name, number=number, type=kind_of, label=label)
    for at, (name, kind_of, type_name) in enumerate(
        [("a", Field.TYPE_INT32, None), ("b", Field.TYPE_MESSAGE, ".shop.Line")], start=50
    ):
        whole.field.add(name=name, number=at, type=kind_of, type_name=type_name, label=1, oneof_index=0)
    whole.oneof_decl.add(name="choice")
    whole.field.add(name="maybe", number=60, type=Field.TYPE_INT32, label=1, oneof_index=1, proto3_optional=True)
    whole.oneof_decl.add(name="_maybe")
    whole.field.add(name="kind", number=61, type=Field.TYPE_ENUM, type_name=".shop.Kind", label=1)
    whole.field.add(
        name="lines", number=62, type=Field.TYPE_MESSAGE, type_name=".shop.Line", label=Field.LABEL_REPEATED
    )
    whole.field.add(name="at", number=63, type=Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1)
    entry = whole.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=Field.TYPE_SINT64, label=1)
    whole.field.add(name="counts", number=64, type=Field.TYPE_MESSAGE, type_name=".shop.Whole.CountsEntry", label=3)
    return file


FILE = described()
POOL = descriptor_pool.DescriptorPool()
TIME = descriptor_pb2.FileDescriptorProto()
timestamp_pb2.DESCRIPTOR.CopyToProto(TIME)
POOL.Add(TIME)
POOL.Add(FILE)
Whole = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Whole"))
VALUES = {name: values for name, (_, values) in SCALARS.items()}
VALUES |= {f"many_{name}": st.lists(values, max_size=4) for name, (_, values) in SCALARS.items()}
VALUES |= {
    "maybe": st.integers(-5, 5),
    "kind": st.sampled_from([0, 1, 7]),
    "lines": st.lists(st.fixed_dictionaries({}, optional={"sku": st.text()}), max_size=3),
    "counts": st.dictionaries(st.text(), st.integers(-5, 5), max_size=3),
    "at": st.fixed_dictionaries({"seconds": st.integers(-(10**9), 10**10), "nanos": st.integers(0, 999_999_999)}),
}
CHOICES = (
    st.just({}) | st.builds(lambda a: {"a": a}, st.integers(0, 9)) | st.builds(lambda b: {"b": {"sku": b}}, st.text())
)
MESSAGES = st.builds(lambda one, other: Whole(**one, **other), st.fixed_dictionaries({}, optional=VALUES), CHOICES)


def expected(message):
    row = {}
    for field in Whole.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        elif field.name == "kind":
            row[field.name] = {0: "NONE", 1: "SOME"}.get(value, str(value))
        elif field.name == "lines":
            row[field.name] = [{"sku": line.sku} for line in value]
        elif field.name == "b":
            row[field.name] = {"sku": value.sku}
        elif field.name == "counts":
            row[field.name] = dict(value)
        elif field.name == "at":
            row[field.name] = value.seconds * 10**6 + value.nanos // 1000
        elif field.name.startswith("many_"):
            row[field.name] = list(value)
        else:
            row[field.name] = value
    return row


@settings(max_examples=15, deadline=None, derandomize=True)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=10))
def test_every_type_is_read_as_it_was_written(batch_of, messages):
    table = batch_of([message.SerializeToString() for message in messages]).decode(Whole, "protobuf").to_arrow()
    table.validate(full=True)
    table = table.set_column(table.column_names.index("at"), "at", table.column("at").cast("int64"))
    rows = [row | {"counts": dict(row["counts"])} for row in table.to_pylist()]
    assert rows == [expected(message) for message in messages]


def test_the_last_of_a_oneof_counts(batch_of):
    value = Whole(b={"sku": "x"}).SerializeToString() + Whole(a=3).SerializeToString()
    theirs = MessageToDict(Whole.FromString(value))
    row = batch_of([value]).decode(Whole, "protobuf").to_arrow().to_pylist()[0]
    assert (row["a"], row["b"]) == (theirs["a"], theirs.get("b")) == (3, None)


def test_descriptors_as_bytes_and_the_message_by_name(batch_of):
    files = descriptor_pb2.FileDescriptorSet(file=[TIME, FILE]).SerializeToString()
    batch = batch_of([b"\x0a\x01x"])
    assert batch.decode(files, "protobuf").to_arrow().to_pylist() == [{"sku": "x"}]
    assert batch.decode(files, "protobuf", message="shop.Line").to_arrow().to_pylist() == [{"sku": "x"}]
    with pytest.raises(errors.ArgumentError, match="have no message"):
        batch.decode(files, "protobuf", message="shop.Missing")
    # A field with another wire type than the descriptor's is unknown, as for Google's library.
    row = batch.decode(files, "protobuf", message="Whole").to_arrow().to_pylist()[0]
    assert row["double"] == Whole.FromString(batch[0].value).double == 0


def test_a_registry_has_descriptors_and_values_have_indexes(batch_of, registry):
    def register(subject, file, references=()):
        serialized = base64.b64encode(file.SerializeToString()).decode()
        return registry.add(subject, "syntax", kind="PROTOBUF", serialized=serialized, references=references)

    register("time", TIME)
    reference = {"name": "google/protobuf/timestamp.proto", "subject": "time", "version": 1}
    number = register("whole", FILE, [reference])
    payload = Whole(int32=5, at={"seconds": 1}).SerializeToString()
    framed = struct.pack(">bI", 0, number)
    asked = ottla.SchemaRegistry(registry.url)
    # One index, 1, in zigzag; and none, which stands for the first message, Line.
    batch = batch_of([framed + b"\x02\x02" + payload, framed + b"\x00" + b"\x0a\x01x"])
    decoded = batch.decode(asked.latest("whole"), "protobuf", message="shop.Whole", registry=asked, mode="drop")
    assert [row["int32"] for row in decoded.to_arrow().to_pylist()] == [5]
    assert [bad.reason for bad in decoded.bad] == ["message shop.Whole is wanted, not shop.Line"]


def struct_file():
    """A message with a `Struct`, a group and itself, each in a field and in a oneof, beside a number."""
    file = descriptor_pb2.FileDescriptorProto(name="loose.proto", package="shop", syntax="proto2")
    file.dependency.append("google/protobuf/struct.proto")
    loose = file.message_type.add(name="Loose")
    loose.field.add(name="n", number=1, type=Field.TYPE_INT32, label=1)
    loose.field.add(name="more", number=2, type=Field.TYPE_MESSAGE, type_name=".google.protobuf.Struct", label=1)
    loose.field.add(name="group", number=3, type=Field.TYPE_GROUP, type_name=".shop.Loose.Group", label=1)
    loose.field.add(name="parent", number=4, type=Field.TYPE_MESSAGE, type_name=".shop.Loose", label=1)
    loose.nested_type.add(name="Group").field.add(name="g", number=1, type=Field.TYPE_INT32, label=1)
    loose.oneof_decl.add(name="choice")
    loose.field.add(name="one", number=5, type=Field.TYPE_INT32, label=1, oneof_index=0)
    struct = ".google.protobuf.Struct"
    loose.field.add(name="other", number=6, type=Field.TYPE_MESSAGE, type_name=struct, label=1, oneof_index=0)
    return file


@pytest.mark.parametrize("facade", ["select", "decoder"])
def test_what_has_no_columns_may_be_in_fields_that_are_not_selected(batch_of, facade):
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(struct_file())
    loose = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Loose"))
    first = loose(n=5, more={"a": 1}, group={"g": 7}, parent={"n": 6}, one=3)
    second = loose(n=6, other={"b": 2}).SerializeToString()
    batch = batch_of([first.SerializeToString(), loose(one=4).SerializeToString() + second, second])
    options = {"format": "protobuf", "select": ["one", "n"]}
    decoded = batch.decode(loose, **options) if facade == "select" else batch.decode(ottla.Decoder(loose, **options))
    # The last of a oneof counts, and it is not selected.
    assert decoded.to_arrow().to_pylist() == [{"one": 3, "n": 5}, {"one": None, "n": 6}, {"one": None, "n": 6}]
    for name, why in [("more", "contains itself"), ("group", "group"), ("parent", "contains itself")]:
        with pytest.raises(errors.ArgumentError, match=why):
            batch.decode(loose, "protobuf", select=[name])
    with pytest.raises(errors.ArgumentError, match="the schema has n, more, group, parent, one, other"):
        batch.decode(loose, "protobuf", select=["x"])


@pytest.mark.parametrize("refusal", [None, 422, 404])
def test_a_registry_without_descriptors_is_no_matter_for_who_has_them(batch_of, registry, refusal):
    """`format=serialized` is Confluent's: other registries ignore it, or refuse it. The index of the message is enough."""
    text = 'syntax = "proto3"; package shop; message Line {}'
    number = registry.add("whole", text, kind="PROTOBUF", serialized=text)
    refused = (refusal, b'{"error_code":422,"message":"Invalid schema format"}')
    registry.fault = lambda path: refused if refusal and "format=serialized" in path else None
    framed = struct.pack(">bI", 0, number)
    payload = Whole(int32=5).SerializeToString()
    batch = batch_of([framed + b"\x02\x02" + payload, framed + b"\x00" + b"\x0a\x01x"])
    asked = ottla.SchemaRegistry(registry.url)
    decoded = batch.decode(Whole, "protobuf", registry=asked, mode="drop")
    assert [row["int32"] for row in decoded.to_arrow().to_pylist()] == [5]
    assert [bad.reason for bad in decoded.bad] == ["message shop.Whole is wanted, not shop.Line"]
    with pytest.raises(errors.ProtocolError, match="pass the descriptors as schema"):
        batch.decode(asked.latest("whole"), "protobuf", registry=asked)


def test_the_last_of_a_oneof_counts_also_if_it_is_not_selected(batch_of):
    first, second = Whole(a=5).SerializeToString(), Whole(b={"sku": "x"}).SerializeToString()
    batch = batch_of([first, second, first + second, second + first])
    whole = batch.decode(Whole, "protobuf").to_arrow()
    for name in ("a", "b"):
        some = batch.decode(Whole, "protobuf", select=[name]).to_arrow()
        assert some.column(name).to_pylist() == whole.column(name).to_pylist()
    assert whole.column("a").to_pylist() == [5, None, None, 5]
