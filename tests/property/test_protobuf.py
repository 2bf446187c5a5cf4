"""Random Protobuf descriptors, and messages that were merged or changed on the wire: read as Google's library reads them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tests.property import typed

if TYPE_CHECKING:
    import random

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    Field.TYPE_DOUBLE: lambda rng: rng.choice([0.0, -0.0, 0.1, math.inf, -1e300]),
    Field.TYPE_FLOAT: lambda rng: rng.choice([0.0, 0.5, -math.inf, 1.25]),
    Field.TYPE_INT32: lambda rng: rng.choice([0, -1, 2**31 - 1, -(2**31), rng.randrange(-99, 99)]),
    Field.TYPE_INT64: lambda rng: rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(-99, 99)]),
    Field.TYPE_UINT32: lambda rng: rng.choice([0, 1, 2**32 - 1, rng.randrange(2**32)]),
    Field.TYPE_UINT64: lambda rng: rng.choice([0, 1, 2**64 - 1, rng.randrange(2**64)]),
    Field.TYPE_SINT32: lambda rng: rng.choice([0, -1, 2**31 - 1, -(2**31)]),
    Field.TYPE_SINT64: lambda rng: rng.choice([0, -1, 2**63 - 1, -(2**63)]),
    Field.TYPE_FIXED32: lambda rng: rng.choice([0, 2**32 - 1]),
    Field.TYPE_FIXED64: lambda rng: rng.choice([0, 2**64 - 1]),
    Field.TYPE_SFIXED32: lambda rng: rng.choice([0, -(2**31)]),
    Field.TYPE_SFIXED64: lambda rng: rng.choice([0, -(2**63)]),
    Field.TYPE_BOOL: lambda rng: rng.random() < 0.5,
    Field.TYPE_STRING: lambda rng: "".join(rng.choice("ab é😀\0") for _ in range(rng.randrange(6))),
    Field.TYPE_BYTES: lambda rng: rng.randbytes(rng.randrange(6)),
}
KEYS = [kind for kind in SCALARS if kind not in {Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_BYTES}]
DEEPEST = 3


class Case(NamedTuple):
    kind: Any
    data: bytes


class Files:
    """Makes a file with one message type and what it needs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.syntax = rng.choice(["proto2", "proto3"])
        self.file = descriptor_pb2.FileDescriptorProto(name="case.proto", package="case", syntax=self.syntax)
        enum = self.file.enum_type.add(name="E")
        for number, name in enumerate(["ZERO", "ONE", "TWO"]):
            enum.value.add(name=name, number=number)
        self.count = 0
        self.message(self.file.message_type.add(name="Root"), ".case.Root", 0)

    def message(self, message: Any, path: str, depth: int) -> None:
        rng = self.rng
        oneof = None
        for number in rng.sample([*range(1, 30), 1000, 536870911], rng.randrange(1, 7)):
            field = message.field.add(name=f"f{number}", number=number, label=Field.LABEL_OPTIONAL)
            shape = rng.randrange(8)
            if shape == 0 and depth < DEEPEST:
                self.map(message, field, path, depth)
                continue
            self.type(message, field, path, depth)
            if shape == 1 or shape == 2:
                field.label = Field.LABEL_REPEATED
            elif shape == 3:
                if oneof is None:
                    oneof = len(message.oneof_decl)
                    message.oneof_decl.add(name="choice")
                field.oneof_index = oneof
        if self.syntax == "proto3":
            # The oneofs of optional fields stand behind the others.
            for field in message.field:
                is_single = field.label == Field.LABEL_OPTIONAL and not field.HasField("oneof_index")
                if is_single and rng.random() < 0.3:
                    field.proto3_optional = True
                    field.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{field.name}")

    def type(self, message: Any, field: Any, path: str, depth: int) -> None:
        kind = self.rng.randrange(8)
        if kind == 0:
            field.type, field.type_name = Field.TYPE_ENUM, ".case.E"
        elif kind == 1 and depth < DEEPEST:
            name = self.name()
            self.message(message.nested_type.add(name=name), f"{path}.{name}", depth + 1)
            field.type, field.type_name = Field.TYPE_MESSAGE, f"{path}.{name}"
        else:
            field.type = self.rng.choice(list(SCALARS))

    def map(self, message: Any, field: Any, path: str, depth: int) -> None:
        name = f"{field.name.capitalize()}Entry"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=self.rng.choice(KEYS))
        value = entry.field.add(name="value", number=2, label=1)
        self.type(message, value, path, depth)
        field.type, field.type_name, field.label = Field.TYPE_MESSAGE, f"{path}.{name}", Field.LABEL_REPEATED

    def name(self) -> str:
        self.count += 1
        return f"M{self.count}"

    def made(self) -> Any:
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self.file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName("case.Root"))


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def scalar(rng: random.Random, field: Any) -> Any:
    if field.type == Field.TYPE_ENUM:
        # In proto3 a number that the enum does not name is a value, too.
        return rng.randrange(3 if field.enum_type.is_closed else 5)
    return SCALARS[field.type](rng)


def fill(rng: random.Random, message: Any) -> Any:
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.3:
            continue
        if is_map(field):
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            entries = getattr(message, field.name)
            for _ in range(rng.randrange(3)):
                name = scalar(rng, key)
                if value.message_type is not None:
                    fill(rng, entries[name])
                else:
                    entries[name] = scalar(rng, value)
        elif field.is_repeated:
            for _ in range(rng.randrange(4)):
                if field.message_type is not None:
                    fill(rng, getattr(message, field.name).add())
                else:
                    getattr(message, field.name).append(scalar(rng, field))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(rng, getattr(message, field.name))
        else:
            setattr(message, field.name, scalar(rng, field))
    return message


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def odd_field(rng: random.Random, kind: Any) -> bytes:
    """A field of the message with any wire type, or one that it does not have."""
    field = rng.choice([*kind.DESCRIPTOR.fields, None])
    number = 31 if field is None else field.number
    wire = rng.choice([0, 1, 2, 5, 3])
    tag = varint(number << 3 | wire)
    body = {0: varint(rng.randrange(3)), 1: bytes(8), 2: b"\x02\x08\x01", 5: bytes(4), 3: varint(number << 3 | 4)}
    # An entry of a map with an unknown field is none to Google's Python, and one without it to Google's Java and ours.
    if field is not None and is_map(field):
        body[2] = b"\x00"
    # Of a closed enum a number without a name is unknown to Google's libraries, and its text to ours.
    if field is not None and field.enum_type is not None and field.enum_type.is_closed:
        body[2] = b"\x02\x00\x01"
    return tag + body[wire]


def data_of(rng: random.Random, kind: Any) -> bytes:
    data = fill(rng, kind()).SerializeToString()
    if rng.random() < 0.3:
        # Two in a row are one message: the parts are merged.
        data += fill(rng, kind()).SerializeToString()
    if rng.random() < 0.3:
        odd = odd_field(rng, kind)
        data = data + odd if rng.random() < 0.5 else odd + data
    return data


def row(message: Any) -> dict[str, Any]:
    """A message as the row that ours makes of it."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = {plain(key): one(inner, value[key]) for key in value}
        elif field.is_repeated:
            found[field.name] = [one(field, item) for item in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = one(field, value)
    return found


def one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return row(value)
    if field.type == Field.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return plain(value)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return repr(value) if isinstance(value, (float, bool)) else value


def of_ours(kind: Any, value: dict[str, Any]) -> dict[str, Any]:
    """A row of ours with maps as dicts, which nothing but the descriptor tells from lists."""
    found: dict[str, Any] = {}
    for field in kind.fields:
        inner = value[field.name]
        if inner is None:
            found[field.name] = None
        elif is_map(field):
            item = field.message_type.fields_by_name["value"]
            found[field.name] = {plain(key): of_one(item, of) for key, of in inner}
        elif field.is_repeated:
            found[field.name] = [of_one(field, item) for item in inner]
        else:
            found[field.name] = of_one(field, inner)
    return found


def of_one(field: Any, value: Any) -> Any:
    return plain(value) if field.message_type is None else of_ours(field.message_type, value)


@pytest.mark.timeout(2400)
def test_random_descriptors_are_read_as_by_googles_library() -> None:
    rng = typed.rng("protobuf")
    cases = []
    for _ in range(typed.CASES):
        kind = Files(rng).made()
        cases.append(Case(kind, data_of(rng, kind)))
    batch = typed.batch_of([case.data for case in cases])

    def check(number: int, case: Case) -> str | None:
        def read() -> Any:
            table = batch[number : number + 1].decode(case.kind, "protobuf").to_arrow()
            return of_ours(case.kind.DESCRIPTOR, table.to_pylist()[0])

        ours = typed.outcome(read)
        try:
            theirs: tuple[str, Any] = ("read", row(case.kind.FromString(case.data)))
        except DecodeError as error:
            theirs = ("refused", repr(error))
        if ours == theirs or ours[0] == theirs[0] == "refused":
            return None
        return f"\n{case.kind.DESCRIPTOR.file.name} {case.data!r}\n{describe(case.kind)}\nours {ours}\ntheirs {theirs}"

    typed.differences(cases, check)


def describe(kind: Any) -> str:
    made = descriptor_pb2.DescriptorProto()
    kind.DESCRIPTOR.CopyToProto(made)
    return f"{kind.DESCRIPTOR.file.serialized_pb[-10:]!r} {made}"
