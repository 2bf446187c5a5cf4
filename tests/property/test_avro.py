"""Random schemas of Avro, and schemas that evolved from them: fastavro, Avro's Java library and ottla read the same values."""

from __future__ import annotations

import base64
import io
import json
import math
import os
import subprocess
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro
import pytest

import ottla
from tests.brokers.jars import class_path, libs, resolve, sh
from tests.property import typed

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

PRIMITIVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
]
PROMOTED = {
    "int": ["long", "double"],
    "long": ["double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}
DEEPEST = 3
# Avro's Java library: 1.12.0 reads arrays of doubles as floats, and 1.12.2 counts the bytes of a promoted array by the reader's type.
JAVA = "1.12.1"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>avro</groupId><artifactId>jars</artifactId><version>{JAVA}</version><dependencies><dependency>
<groupId>org.apache.avro</groupId><artifactId>avro</artifactId><version>{JAVA}</version>
</dependency></dependencies></project>
"""


class Case(NamedTuple):
    writer: Any
    reader: Any
    value: Any


class Schemas:
    """Makes types with names of their own."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = 0

    def name(self, start: str) -> str:
        self.names += 1
        return f"{start}{self.names}"

    def record(self, depth: int = 0) -> dict[str, Any]:
        count = self.rng.randrange(1 if depth else 2, 6)
        fields = [{"name": self.name("f"), "type": self.any(depth + 1)} for _ in range(count)]
        return {"type": "record", "name": self.name("R"), "fields": fields}

    def any(self, depth: int) -> Any:
        rng = self.rng
        kind = rng.randrange(14 if depth < DEEPEST else 9)
        if kind < 4:
            return rng.choice(PRIMITIVES)
        if kind == 4:
            return dict(rng.choice(LOGICAL))
        if kind == 5:
            symbols = [self.name("S") for _ in range(rng.randrange(1, 5))]
            return {"type": "enum", "name": self.name("E"), "symbols": symbols}
        if kind == 6:
            return {"type": "fixed", "name": self.name("X"), "size": rng.randrange(1, 6)}
        if kind == 7:
            return ["null", self.plain(depth)] if rng.random() < 0.5 else [self.plain(depth), "null"]
        if kind == 8:
            return self.union()
        if kind == 9:
            return {"type": "array", "items": self.any(depth + 1)}
        if kind == 10:
            return {"type": "map", "values": self.any(depth + 1)}
        return self.record(depth)

    def plain(self, depth: int) -> Any:
        """A type that is no union."""
        while isinstance(found := self.any(depth), list):
            pass
        return found

    def union(self) -> list[Any]:
        """Several types, of which a value tells its own."""
        others: list[Any] = [
            "boolean",
            "long",
            "string",
            "bytes",
            {"type": "array", "items": "long"},
            {"type": "map", "values": "string"},
        ]
        chosen = self.rng.sample(others, self.rng.randrange(2, 4))
        return ["null", *chosen] if self.rng.random() < 0.5 else chosen

    def evolved(self, schema: Any) -> Any:
        """A reader's schema for what another one wrote."""
        rng = self.rng
        if isinstance(schema, str):
            return rng.choice(PROMOTED[schema]) if schema in PROMOTED and rng.random() < 0.15 else schema
        if isinstance(schema, list):
            return schema
        kind = schema["type"]
        if kind == "array":
            return {**schema, "items": self.evolved(schema["items"])}
        if kind == "map":
            return {**schema, "values": self.evolved(schema["values"])}
        if kind == "enum" and rng.random() < 0.3:
            kept = rng.sample(schema["symbols"], rng.randrange(1, len(schema["symbols"]) + 1))
            more = [*kept, self.name("S")]
            return {**schema, "symbols": more, **({"default": more[-1]} if rng.random() < 0.7 else {})}
        if kind == "record":
            return self.evolved_record(schema)
        if "logicalType" not in schema and kind != "fixed" and rng.random() < 0.1:
            return ["null", schema]
        return schema

    def evolved_record(self, schema: dict[str, Any]) -> dict[str, Any]:
        rng = self.rng
        fields = []
        for field in schema["fields"]:
            if rng.random() < 0.15:
                continue
            made = {**field, "type": self.evolved(field["type"])}
            if rng.random() < 0.1:
                made |= {"name": self.name("g"), "aliases": [field["name"]]}
            fields.append(made)
        for _ in range(rng.randrange(2)):
            kind, default = rng.choice(
                [("long", 7), (["null", "string"], None), ("string", "é"), ({"type": "array", "items": "int"}, [1, 2])]
            )
            fields.append({"name": self.name("n"), "type": kind, "default": default})
        rng.shuffle(fields)
        return {**schema, "fields": fields or schema["fields"]}


def text(rng: random.Random) -> str:
    return "".join(rng.choice("abc é\n😀\0") for _ in range(rng.randrange(9)))


PRIMITIVE_VALUES: dict[str, Callable[[random.Random], Any]] = {
    "null": lambda rng: None,
    "boolean": lambda rng: rng.random() < 0.5,
    "int": lambda rng: rng.choice([0, -1, 2**31 - 1, -(2**31), rng.randrange(-(2**31), 2**31)]),
    "long": lambda rng: rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(-(2**63), 2**63), rng.randrange(99)]),
    "float": lambda rng: rng.choice([0.0, -0.0, 0.5, math.inf, -1.25e10, float(rng.randrange(-(2**20), 2**20))]),
    "double": lambda rng: rng.choice([0.0, -0.0, 0.1, -math.inf, 1e-300, rng.uniform(-1e300, 1e300)]),
    # Text, since a reader may take it for that.
    "bytes": lambda rng: text(rng).encode(),
    "string": text,
}


def value_of(rng: random.Random, schema: Any) -> Any:
    """A random value of a type, as fastavro writes it."""
    if isinstance(schema, list):
        return value_of(rng, rng.choice(schema))
    if isinstance(schema, str):
        return PRIMITIVE_VALUES[schema](rng)
    if "logicalType" in schema:
        return logical_value(rng, schema["logicalType"])
    match schema["type"]:
        case "enum":
            return rng.choice(schema["symbols"])
        case "fixed":
            return rng.randbytes(schema["size"])
        case "array":
            return [value_of(rng, schema["items"]) for _ in range(rng.randrange(4))]
        case "map":
            return {text(rng): value_of(rng, schema["values"]) for _ in range(rng.randrange(4))}
    return {field["name"]: value_of(rng, field["type"]) for field in schema["fields"]}


def logical_value(rng: random.Random, logical: str) -> Any:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(-(10**16), 10**16))
    clock = at.time().replace(microsecond=at.microsecond // 1000 * 1000)
    match logical:
        case "date":
            return date(1970, 1, 1) + timedelta(days=rng.randrange(-90_000, 90_000))
        case "time-millis":
            return clock
        case "time-micros":
            return at.time()
        case "timestamp-millis":
            return at.replace(microsecond=at.microsecond // 1000 * 1000)
        case "local-timestamp-micros":
            return at.replace(tzinfo=None)
        case "decimal":
            return Decimal(rng.randrange(-(10**12) + 1, 10**12)).scaleb(-3)
    return at


def plain(value: Any) -> Any:
    """Comparable with what ours makes, by text: -0.0 is 0.0, and NaN is not itself."""
    if isinstance(value, dict):
        members = [name for name in value if name.startswith("member")]
        if members and len(members) == len(value):
            return plain(next((inner for inner in value.values() if inner is not None), None))
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(entry, tuple) for entry in value):
            return plain(dict(value))
        return [plain(inner) for inner in value] or None
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat()
    if isinstance(value, str):
        return value.encode()
    return repr(value) if isinstance(value, float) else value


def rows_of(value: Any) -> Any:
    """As `plain`, of what fastavro returns: an empty map is an empty list to ours."""
    if isinstance(value, dict):
        return {name: rows_of(inner) for name, inner in value.items()} or None
    if isinstance(value, list):
        return [rows_of(inner) for inner in value] or None
    return plain(value)


def written(case: Case) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(case.writer), case.value)
    return out.getvalue()


def theirs(case: Case, data: bytes) -> tuple[str, Any]:
    try:
        return "read", fastavro.schemaless_reader(io.BytesIO(data), case.writer, case.reader)
    except Exception as error:
        return "refused", repr(error)


def javas(cases: Sequence[Case], values: Sequence[bytes]) -> list[tuple[str, Any]]:
    """What Avro's Java library reads, which writes it again by the reader's schema; fastavro then reads that schema alone."""
    lines = (
        " ".join(base64.b64encode(part).decode() for part in (*(json.dumps(s).encode() for s in case[:2]), value))
        for case, value in zip(cases, values, strict=True)
    )
    done = subprocess.run(
        ["java", "-cp", java_classes(), "AvroReader"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[tuple[str, Any]] = []
    for case, line in zip(cases, done.stdout.split("\n")[:-1], strict=True):
        said, _, what = line.partition(" ")
        read = io.BytesIO(base64.b64decode(what)) if said == "read" else None
        found.append((said, fastavro.schemaless_reader(read, case.reader, None) if read else what))
    return found


def java_classes() -> str:
    """Avro's jars and the program, compiled."""
    jars = class_path(resolve(libs(f"avro-{JAVA}"), POM))
    into = Path(__file__).parents[2] / "target" / "conformance" / f"avro-{JAVA}"
    into.mkdir(parents=True, exist_ok=True)
    sh("javac", "-nowarn", "-cp", jars, "-d", into, Path(__file__).parent / "AvroReader.java")
    return f"{jars}{os.pathsep}{into}"


def cases_of(seed: str) -> list[Case]:
    rng = typed.rng(seed)
    cases = []
    for _ in range(typed.CASES):
        made = Schemas(rng)
        writer = made.record()
        reader = made.evolved_record(writer) if rng.random() < 0.6 else writer
        cases.append(Case(writer, reader, value_of(rng, writer)))
    return cases


def compare(cases: Sequence[Case], values: Sequence[bytes], others: Callable[[int], tuple[str, Any]]) -> None:
    batch = typed.batch_of(values)

    def check(number: int, case: Case) -> str | None:
        def read() -> Any:
            decoder = ottla.Decoder(json.dumps(case.reader), "avro", writer_schema=json.dumps(case.writer))
            return batch[number : number + 1].decode(decoder).to_arrow().to_pylist()[0]

        ours, theirs = typed.outcome(read), others(number)
        if ours[0] == theirs[0] == "refused":
            return None
        if ours[0] == theirs[0] and plain(ours[1]) == rows_of(theirs[1]):
            return None
        return f"\nwriter {json.dumps(case.writer)}\nreader {json.dumps(case.reader)}\nours {ours}\ntheirs {theirs}"

    typed.differences(cases, check)


@pytest.mark.timeout(2400)
def test_random_schemas_are_read_as_by_fastavro() -> None:
    cases = cases_of("avro")
    values = [written(case) for case in cases]
    compare(cases, values, lambda number: theirs(cases[number], values[number]))


@pytest.mark.timeout(2400)
@pytest.mark.needs("java", "javac", "mvn")
def test_random_schemas_are_read_as_by_avros_java_library() -> None:
    cases = cases_of("avro in Java")
    values = [written(case) for case in cases]
    found = javas(cases, values)
    compare(cases, values, found.__getitem__)
