"""A second codec for Kafka's messages, made of the schemas and the rules alone: the one that ours is compared with.

It is slow and plain on purpose, shares no code with the Rust crates, and reads the same schemas. As a program it answers
questions line by line, or checks the corpora of this folder:

    python tests/conformance/reference.py serve      # "NAME VERSION HEX" in; "ok LEFT HEX" or "no REASON" out
    python tests/conformance/reference.py check      # every sample of both corpora; prints what differs

Rules: https://kafka.apache.org/protocol, KIP-482. What it takes and Kafka does not, and the reverse, is in README.md.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
import sys
import uuid
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
UNKNOWN = "_unknownTaggedFields"
FORMATS = {
    "bool": ">b",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
MAX_STRING = 0x7FFF


class MalformedError(Exception):
    """The bytes are no message of the version."""


class UnwritableError(Exception):
    """The value cannot be said in the version."""


@dataclass(frozen=True)
class Versions:
    """A closed range; empty where the first is above the last."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if text in (None, "", "none"):
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), 0x7FFF)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


class Field:
    """A field of a struct, for all versions."""

    def __init__(self, schema: dict[str, Any], shared: dict[str, Any]) -> None:
        name: str = schema["name"]
        self.name = name[0].lower() + name[1:]
        kind: str = schema["type"]
        self.is_array = kind.startswith("[]")
        self.kind = kind.removeprefix("[]")
        self.is_struct = self.kind[0].isupper()
        self.tagged = Versions.parse(schema.get("taggedVersions"))
        # Where a field is only ever tagged, the one range stands for both.
        self.versions = Versions.parse(schema["versions"]) if schema.get("versions") else self.tagged
        self.nullable = Versions.parse(schema.get("nullableVersions"))
        self.tag: int | None = schema.get("tag")
        self.never_compact = schema.get("flexibleVersions") == "none"
        self.default = schema.get("default", "")
        self.null_by_default = "default" in schema and self.default in (None, "null")
        members = (schema.get("fields") or shared[self.kind]["fields"]) if self.is_struct else []
        self.fields = [Field(member, shared) for member in members]

    def zero(self) -> Any:
        """The value where nothing was written; it keeps a tagged field off the wire."""
        if self.null_by_default:
            return None
        if self.is_array:
            return []
        if self.is_struct:
            return {member.name: member.zero() for member in self.fields}
        match self.kind:
            case "bool":
                return str(self.default).lower() == "true"
            case "string":
                return self.default
            case "bytes":
                return b""
            case "records":
                return None
            case "uuid":
                return unbase64_uuid(self.default) if self.default else uuid.UUID(int=0)
            case "float64":
                return float(self.default or 0)
        return int(str(self.default or 0), 0)

    def is_default(self, value: Any) -> bool:
        """A struct is, when each of its fields is and it carries no unknown tags."""
        zero = self.zero()
        if self.is_struct and not self.is_array and value is not None and zero is not None:
            return not value.get(UNKNOWN) and all(
                member.name not in value or member.is_default(value[member.name]) for member in self.fields
            )
        return bool(value == zero)


class Message:
    """A message, for all its versions."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.name: str = schema["name"]
        self.versions = Versions.parse(schema["validVersions"])
        self.flexible = Versions.parse(schema.get("flexibleVersions"))
        shared = {common["name"]: common for common in schema.get("commonStructs", [])}
        self.fields = [Field(field, shared) for field in schema.get("fields", [])]

    def decode(self, version: int, data: bytes) -> tuple[dict[str, Any], int]:
        """The message that `data` begins with, and how many bytes follow it."""
        reader = Reader(data)
        value = read_struct(reader, self.fields, version, flexible=version in self.flexible)
        return value, reader.left()

    def encode(self, version: int, value: dict[str, Any]) -> bytes:
        return write_struct(self.fields, value, version, flexible=version in self.flexible)


@cache
def messages() -> dict[str, Message]:
    """Every message of `schemas/`, by name."""
    loaded = (Message(json.loads(path.read_text())) for path in sorted((ROOT / "schemas").glob("*/*.json")))
    return {message.name: message for message in loaded}


class Reader:
    """Bytes and a position in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left():
            raise MalformedError(f"{count} bytes wanted, {self.left()} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def fixed(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 32:
                    break
                return value
        raise MalformedError("a varint of more than 32 bits")


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_struct(reader: Reader, fields: list[Field], version: int, *, flexible: bool) -> dict[str, Any]:
    value = {
        field.name: read_field(reader, field, version, flexible=flexible)
        for field in fields
        if version in field.versions and version not in field.tagged
    }
    if flexible:
        read_tags(reader, fields, version, value)
    return value


def read_tags(reader: Reader, fields: list[Field], version: int, value: dict[str, Any]) -> None:
    known = {field.tag: field for field in fields if field.tag is not None}
    previous = -1
    unknown = []
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        if tag <= previous:
            raise MalformedError(f"tag {tag} after tag {previous}")
        previous = tag
        body = Reader(reader.take(size))
        field = known.get(tag)
        if field is None:
            unknown.append((tag, body.data))
            continue
        if version not in field.tagged:
            raise MalformedError(f"tag {tag} is not in version {version}")
        value[field.name] = read_field(body, field, version, flexible=True, in_tag=True)
        if body.left():
            raise MalformedError(f"tag {tag}: {body.left()} bytes left over")
    if unknown:
        value[UNKNOWN] = unknown


def read_length(reader: Reader, layout: str, *, compact: bool) -> int | None:
    """`None` is null. As in Kafka, every length below zero is."""
    length: int = reader.uvarint() - 1 if compact else reader.fixed(layout)
    return None if length < 0 else length


def read_field(reader: Reader, field: Field, version: int, *, flexible: bool, in_tag: bool = False) -> Any:
    nullable = version in field.nullable
    if field.is_array:
        count = read_length(reader, ">i", compact=flexible)
        if count is None:
            return null(field, nullable)
        if count > reader.left():
            raise MalformedError(f"{field.name}: {count} elements in {reader.left()} bytes")
        return [read_value(reader, field, version, flexible=flexible, nullable=False) for _ in range(count)]
    if field.is_struct and nullable:
        is_null = reader.uvarint() == 0 if in_tag else reader.fixed(">b") < 0
        if is_null:
            return None
    return read_value(reader, field, version, flexible=flexible, nullable=nullable)


def read_value(reader: Reader, field: Field, version: int, *, flexible: bool, nullable: bool) -> Any:
    if field.is_struct:
        return read_struct(reader, field.fields, version, flexible=flexible)
    if layout := FORMATS.get(field.kind):
        value = reader.fixed(layout)
        return value != 0 if field.kind == "bool" else value
    if field.kind == "uuid":
        return uuid.UUID(bytes=reader.take(16))
    is_string = field.kind == "string"
    length = read_length(reader, ">h" if is_string else ">i", compact=flexible and not field.never_compact)
    if length is None:
        return null(field, nullable)
    if is_string and length > MAX_STRING:
        raise MalformedError(f"{field.name}: a string of {length} bytes")
    raw = reader.take(length)
    if not is_string:
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError as cause:
        raise MalformedError(f"{field.name}: not UTF-8") from cause


def null(field: Field, nullable: bool) -> None:
    if not nullable:
        raise MalformedError(f"{field.name} is null")


def write_struct(fields: list[Field], value: dict[str, Any], version: int, *, flexible: bool) -> bytes:
    out = []
    tags: list[tuple[int, bytes]] = []
    for field in fields:
        if version not in field.versions:
            continue
        if version not in field.tagged:
            out.append(write_field(field, value[field.name], version, flexible=flexible))
        elif field.name in value and not field.is_default(value[field.name]):
            assert field.tag is not None
            tags.append((field.tag, write_field(field, value[field.name], version, flexible=True)))
    unknown = value.get(UNKNOWN, [])
    if flexible:
        tags = sorted([*tags, *unknown])
        out.append(uvarint(len(tags)))
        for tag, body in tags:
            out += [uvarint(tag), uvarint(len(body)), body]
    elif unknown:
        raise UnwritableError("tagged fields in a version without them")
    return b"".join(out)


def write_length(length: int | None, layout: str, *, compact: bool) -> bytes:
    if compact:
        return uvarint(0 if length is None else length + 1)
    return struct.pack(layout, -1 if length is None else length)


def write_field(field: Field, value: Any, version: int, *, flexible: bool) -> bytes:
    nullable = version in field.nullable
    if value is None and not nullable:
        raise UnwritableError(f"{field.name} may not be null")
    if field.is_array:
        head = write_length(None if value is None else len(value), ">i", compact=flexible)
        elements = (write_value(field, element, version, flexible=flexible) for element in value or [])
        return head + b"".join(elements)
    if field.is_struct and nullable:
        if value is None:
            # In a tagged field the varint 0, else the byte -1; present is 1 in both.
            return b"\x00" if version in field.tagged else b"\xff"
        return b"\x01" + write_value(field, value, version, flexible=flexible)
    return write_value(field, value, version, flexible=flexible)


def write_value(field: Field, value: Any, version: int, *, flexible: bool) -> bytes:
    if field.is_struct:
        return write_struct(field.fields, value, version, flexible=flexible)
    if layout := FORMATS.get(field.kind):
        return struct.pack(layout, value)
    if field.kind == "uuid":
        return bytes(value.bytes)
    is_string = field.kind == "string"
    raw = value.encode() if is_string and value is not None else value
    if is_string and raw is not None and len(raw) > MAX_STRING:
        raise UnwritableError(f"{field.name}: a string of {len(raw)} bytes")
    compact = flexible and not field.never_compact
    return write_length(None if raw is None else len(raw), ">h" if is_string else ">i", compact=compact) + (raw or b"")


def unbase64_uuid(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def from_json(fields: list[Field], value: dict[str, Any], version: int) -> dict[str, Any]:
    """The value that the corpus' JSON stands for, without tagged fields that hold their default."""
    out = {}
    for field in fields:
        if field.name in value and version in field.versions:
            given = value[field.name]
            if field.is_array and given is not None:
                plain = [element_from_json(field, element, version) for element in given]
            else:
                plain = element_from_json(field, given, version)
            if version not in field.tagged or not field.is_default(plain):
                out[field.name] = plain
    if UNKNOWN in value:
        out[UNKNOWN] = [(tag["tag"], bytes.fromhex(tag["hex"])) for tag in value[UNKNOWN]]
    return out


def element_from_json(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_struct:
        return from_json(field.fields, value, version)
    if field.kind in ("bytes", "records"):
        return base64.b64decode(value)
    if field.kind == "uuid":
        return unbase64_uuid(value)
    return value


def answer(line: str) -> str:
    name, version, data = line.split(" ")
    message = messages().get(name)
    if message is None or int(version) not in message.versions:
        return "no such message or version"
    try:
        value, left = message.decode(int(version), bytes.fromhex(data))
        return f"ok {left} {message.encode(int(version), value).hex()}"
    except MalformedError as cause:
        return f"no {cause}"


def serve() -> None:
    """Answers until its input ends."""
    messages()
    for line in sys.stdin:
        print(answer(line.removesuffix("\n")), flush=True)


def check() -> int:
    """Holds every sample of the corpora against this codec; the number that differ."""
    verdicts: Counter[str] = Counter()
    different = 0
    for path in sorted(Path(__file__).parent.glob("schemas-*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in map(json.loads, lines):
                message = messages().get(line["name"])
                # Names that a later release changed are not among the schemas.
                if message is None or line["v"] not in message.versions or line["kind"].startswith("enc-"):
                    verdicts[f"{line['kind']}, not compared"] += 1
                elif line["kind"] == "mut":
                    verdicts[f"damaged: Kafka {line['verdict']}, here {answered(message, line)}"] += 1
                elif (problem := compared(message, line)) is None:
                    verdicts[line["kind"]] += 1
                else:
                    different += 1
                    print(line["name"], line["v"], line["kind"], line["i"], problem)
    for what, count in sorted(verdicts.items()):
        print(f"{count:>7} {what}")
    print(f"{different:>7} different")
    return different


def answered(message: Message, line: dict[str, Any]) -> str:
    return answer(f"{message.name} {line['v']} {line['hex']}").partition(" ")[0]


def compared(message: Message, line: dict[str, Any]) -> str | None:
    """What is wrong, if anything is."""
    version, data = line["v"], bytes.fromhex(line["hex"])
    value = from_json(message.fields, line["json"], version)
    decoded, left = message.decode(version, data)
    if left or decoded != value:
        return "decodes to something else"
    if message.encode(version, value) != data or message.encode(version, decoded) != data:
        return "encodes to something else"
    return None


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    elif sys.argv[1:] == ["check"]:
        sys.exit(check() != 0)
    else:
        sys.exit(__doc__)
