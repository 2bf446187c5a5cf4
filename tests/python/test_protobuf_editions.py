"""Files of Protobuf's editions, and maps, read and written as Google's library does."""

from __future__ import annotations

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

import ottla
from ottla import errors

Field = descriptor_pb2.FieldDescriptorProto
Features = descriptor_pb2.FeatureSet
EDITIONS = [descriptor_pb2.EDITION_2023, descriptor_pb2.EDITION_2024]
PRESENCE = ["EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED"]
TIME = timestamp_pb2.DESCRIPTOR.serialized_pb


def described(edition, of_file=None, of_field=None, in_oneof=False, delimited=None, file_delimited=None):
    """A file with a message of a number, a text, a message and two maps."""
    file = descriptor_pb2.FileDescriptorProto(name="e.proto", package="e", syntax="editions", edition=edition)
    file.dependency.append("google/protobuf/timestamp.proto")
    if of_file is not None:
        file.options.features.field_presence = Features.FieldPresence.Value(of_file)
    if file_delimited:
        file.options.features.message_encoding = Features.DELIMITED
    whole = file.message_type.add(name="M")
    for number, (name, kind) in enumerate([("n", Field.TYPE_INT32), ("t", Field.TYPE_STRING)], start=1):
        field = whole.field.add(name=name, number=number, type=kind, label=Field.LABEL_OPTIONAL)
        if of_field is not None:
            field.options.features.field_presence = Features.FieldPresence.Value(of_field)
    if in_oneof:
        whole.oneof_decl.add(name="o")
        whole.field.add(name="c", number=3, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL, oneof_index=0)
    if delimited is not None:
        field = whole.field.add(name="i", number=4, type=Field.TYPE_MESSAGE, type_name=".e.I", label=1)
        if delimited:
            field.options.features.message_encoding = Features.DELIMITED
    for number, name, key, value in [
        (5, "Kv", Field.TYPE_STRING, ".e.I"),
        (6, "Ts", Field.TYPE_INT32, ".google.protobuf.Timestamp"),
    ]:
        entry = whole.nested_type.add(name=f"{name}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=1)
        entry.field.add(name="value", number=2, type=Field.TYPE_MESSAGE, type_name=value, label=1)
        whole.field.add(
            name=name.lower(), number=number, type=Field.TYPE_MESSAGE, type_name=f".e.M.{name}Entry", label=3
        )
    file.message_type.add(name="I").field.add(name="a", number=1, type=Field.TYPE_INT32, label=1)
    return file


def theirs(file):
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(TIME)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("e.M"))


def row_of(message, names):
    row = {}
    for name in names:
        field = message.DESCRIPTOR.fields_by_name[name]
        is_there = not field.has_presence or message.HasField(name)
        row[name] = getattr(message, name) if is_there else None
    return row


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("of_field", [None, *PRESENCE])
@pytest.mark.parametrize("of_file", [None, "EXPLICIT", "IMPLICIT"])
def test_presence_is_that_of_the_features(batch_of, edition, of_file, of_field):
    file = described(edition, of_file, of_field, in_oneof=True)
    message = theirs(file)
    values = [b"", b"\x08\x00\x12\x00", b"\x08\x05\x12\x01x\x18\x00"]
    table = batch_of(values).decode(message, "protobuf", select=["n", "t", "c"]).to_arrow()
    parsed = [message() for _ in values]
    for target, value in zip(parsed, values, strict=True):
        target.MergeFromString(value)
    assert table.to_pylist() == [row_of(one, ["n", "t", "c"]) for one in parsed]
    # What is written of zeros.
    zeros = message(n=0, t="")
    encoded = ottla.Encoder(message, "protobuf").encode(pa.table({"n": pa.array([0], pa.int32()), "t": [""]}))
    assert encoded[0] == zeros.SerializeToString()
    if of_field == "LEGACY_REQUIRED":
        with pytest.raises(errors.ArgumentError, match='no column "t", which the message e.M requires'):
            ottla.Encoder(message, "protobuf").encode(pa.table({"n": pa.array([0], pa.int32())}))


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_delimited_message_is_refused_by_name(batch_of, edition):
    for file in (described(edition, delimited=True), described(edition, delimited=False, file_delimited=True)):
        message = theirs(file)
        assert message(i={"a": 5}).SerializeToString() == b"\x23\x08\x05\x24"  # A group, which no column is made of.
        with pytest.raises(errors.ArgumentError, match="i: its feature message_encoding is DELIMITED"):
            batch_of([b""]).decode(message, "protobuf")
        structs = pa.table({"i": pa.array([{"a": 5}], pa.struct([("a", pa.int32())]))})
        with pytest.raises(errors.ArgumentError, match="message_encoding is DELIMITED"):
            ottla.Encoder(message, "protobuf").encode(structs)


@pytest.mark.parametrize("is_delimited", [False, True])
def test_maps_have_lengths_defaults_and_each_key_once(batch_of, is_delimited):
    message = theirs(described(descriptor_pb2.EDITION_2023, "IMPLICIT", file_delimited=is_delimited))
    values = [
        message(kv={"a": {"a": 1}, "b": {}}, ts={1: {"seconds": 3}}).SerializeToString(),
        # Entries without a value, without a key, and a key that comes again.
        b"\x2a\x03\x0a\x01a" + b"\x2a\x00" + b"\x32\x02\x08\x05",
        b"\x2a\x07\x0a\x01a\x12\x02\x08\x01" + b"\x2a\x07\x0a\x01b\x12\x02\x08\x02" + b"\x2a\x03\x0a\x01a",
        b"".join(b"\x32\x06\x08%c\x12\x02\x08%c" % (at % 3, at) for at in range(40)),
    ]
    table = batch_of(values).decode(message, "protobuf", select=["kv", "ts"]).to_arrow()
    table.validate(full=True)
    for row, value in zip(table.to_pylist(), values, strict=True):
        parsed = message.FromString(value)
        assert len(row["kv"]) == len(parsed.kv)
        assert {key: inner["a"] for key, inner in row["kv"]} == {key: inner.a for key, inner in parsed.kv.items()}
        assert {key: time.timestamp() for key, time in row["ts"]} == {key: t.seconds for key, t in parsed.ts.items()}
        assert len(row["ts"]) == len(parsed.ts)


def test_a_message_is_found_behind_a_file_that_has_none(batch_of):
    enums = descriptor_pb2.FileDescriptorProto(name="last.proto", package="e", syntax="proto3")
    enums.enum_type.add(name="K").value.add(name="NONE", number=0)
    file = described(descriptor_pb2.EDITION_2023)
    files = descriptor_pb2.FileDescriptorSet(file=[file, enums]).SerializeToString()
    for message in ("M", "e.M", None):
        decoded = batch_of([b"\x08\x05"]).decode(files, "protobuf", message=message, select=["n"])
        assert decoded.to_arrow().to_pylist() == [{"n": 5}]
