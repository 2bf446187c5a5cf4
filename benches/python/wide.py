"""Records of 100 columns, as JSON and Avro, and the ways of Python to turn them into typed columns.

A quarter of the columns each are strings, ints, longs and doubles. The names have no order that would help a decoder.
"""

from __future__ import annotations

import io
import json
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenarios import Content

COLUMNS = 100
SAMPLES = 2_000
"""Different values."""
KINDS = (
    ("string", pa.string(), "string"),
    ("int", pa.int32(), "int"),
    ("long", pa.int64(), "bigint"),
    ("double", pa.float64(), "double"),
)
NAMES = [f"{KINDS[n % len(KINDS)][0]}_{n:02}" for n in range(COLUMNS)]
SCHEMA = pa.schema([(name, KINDS[n % len(KINDS)][1]) for n, name in enumerate(NAMES)])
AVRO = {
    "type": "record",
    "name": "Wide",
    "fields": [{"name": name, "type": KINDS[n % len(KINDS)][0]} for n, name in enumerate(NAMES)],
}
DDL = ", ".join(f"{name} {KINDS[n % len(KINDS)][2]}" for n, name in enumerate(NAMES))


def records() -> Iterator[dict[str, Any]]:
    """Always the same records."""
    dice = random.Random(COLUMNS)
    for _ in range(SAMPLES):
        cells: list[Any] = []
        for _ in range(COLUMNS // len(KINDS)):
            cells += [f"name-{dice.randrange(100_000)}", dice.randrange(1_000_000), dice.randrange(2**40)]
            cells.append(dice.randrange(100_000) / 100)
        yield dict(zip(NAMES, cells, strict=True))


def values(content: Content) -> list[bytes]:
    """The records as JSON, or as Avro without a frame."""
    if content == "json":
        return [json.dumps(record, separators=(",", ":")).encode() for record in records()]
    import fastavro

    schema, out = fastavro.parse_schema(AVRO), []
    for record in records():
        into = io.BytesIO()
        fastavro.schemaless_writer(into, schema, record)
        out.append(into.getvalue())
    return out


def decoder(content: Content) -> Any:
    """Our decoder."""
    import ottla

    return ottla.Decoder(SCHEMA) if content == "json" else ottla.Decoder(json.dumps(AVRO), "avro")


def json_by_pyarrow(some: list[bytes]) -> int:
    """The number of columns of a table of these values."""
    from pyarrow import json as arrow_json

    parse = arrow_json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
    # A block holds whole lines: with the default of 1 MiB each would be parsed by itself.
    read = arrow_json.ReadOptions(use_threads=False, block_size=64 << 20)
    return int(arrow_json.read_json(io.BytesIO(b"\n".join(some)), read, parse).num_columns)


def json_by_polars(some: list[bytes]) -> int:
    """The number of columns of a table of these values."""
    import polars as pl

    return pl.read_ndjson(io.BytesIO(b"\n".join(some)), schema=_polars_schema()).width


def avro_by_polars(some: list[bytes]) -> int:
    """The number of columns of a table of these values, which become the only block of an object container file."""
    import polars as pl

    block = b"".join(some)
    return pl.read_avro(io.BytesIO(_head() + _zigzag(len(some)) + _zigzag(len(block)) + block + SYNC)).width


def avro_by_fastavro(some: list[bytes]) -> int:
    """The number of columns of a table of these values."""
    import fastavro

    schema = _parsed()
    rows = [fastavro.schemaless_reader(io.BytesIO(value), schema, None) for value in some]
    return pa.Table.from_pylist(rows, SCHEMA).num_columns


SYNC = bytes(16)


@cache
def _head() -> bytes:
    """The head of an object container file that is not compressed."""
    schema = json.dumps(AVRO).encode()
    pairs = ((b"avro.schema", schema), (b"avro.codec", b"null"))
    entries = b"".join(_zigzag(len(part)) + part for pair in pairs for part in pair)
    return b"Obj\x01" + _zigzag(len(pairs)) + entries + _zigzag(0) + SYNC


def _zigzag(number: int) -> bytes:
    """Avro's form of a number that is not negative."""
    number, out = number * 2, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@cache
def _parsed() -> Any:
    import fastavro

    return fastavro.parse_schema(AVRO)


@cache
def _polars_schema() -> dict[str, Any]:
    import polars as pl

    types = {"string": pl.String, "int": pl.Int32, "long": pl.Int64, "double": pl.Float64}
    return {name: types[name.split("_")[0]] for name in NAMES}
