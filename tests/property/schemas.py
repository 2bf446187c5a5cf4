"""Random messages of every schema and version, made from `schemas/` by the rules of the notation alone.

Nothing here knows how ottla encodes: what a message may hold, its JSON form and its defaults are read from the schemas by
this file, which `schemas/README.md` explains.
"""

from __future__ import annotations

import base64
import functools
import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

SCHEMAS = Path(__file__).parents[2] / "schemas"
UNKNOWN = "_unknownTaggedFields"
INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
ENDLESS = 32767

Message = dict[str, Any]


def versions(text: str | None) -> range:
    """The versions of "3", "0-3", "2+" or "none"."""
    if text is None or text == "none":
        return range(0)
    low, _, high = text.rstrip("+").partition("-")
    return range(int(low), (ENDLESS if text.endswith("+") else int(high or low)) + 1)


@dataclass(frozen=True)
class Field:
    """A field at one version."""

    key: str
    base: str
    array: bool
    nullable: bool
    tag: int | None
    default: Any
    fields: tuple[Field, ...]

    @property
    def struct(self) -> bool:
        return self.base[0].isupper()


@functools.cache
def written() -> dict[str, Any]:
    """Every schema as it stands in its file, by name."""
    found = [json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*/*.json"))]
    return {schema["name"]: schema for schema in found}


def pairs() -> list[tuple[str, int]]:
    """Every schema at every version."""
    return [(name, v) for name, schema in written().items() for v in versions(schema["validVersions"])]


def flexible(name: str, version: int) -> bool:
    return version in versions(written()[name]["flexibleVersions"])


def fields(name: str, version: int) -> tuple[Field, ...]:
    """What the message holds at the version, in order."""
    schema = written()[name]
    common = {s["name"]: s["fields"] for s in schema.get("commonStructs", [])}

    def at(all_fields: list[Any]) -> tuple[Field, ...]:
        here = []
        for field in all_fields:
            if version not in versions(field["versions"]):
                continue
            base = field["type"].removeprefix("[]")
            inner = at(field.get("fields") or common[base]) if base[0].isupper() else ()
            tagged = version in versions(field.get("taggedVersions"))
            array = field["type"].startswith("[]")
            nullable = version in versions(field.get("nullableVersions"))
            here.append(
                Field(
                    key=field["name"][0].lower() + field["name"][1:],
                    base=base,
                    array=array,
                    nullable=nullable,
                    tag=field["tag"] if tagged else None,
                    default=default(field, base, array, nullable, inner),
                    fields=inner,
                )
            )
        return tuple(here)

    return at(schema["fields"])


def default(field: Any, base: str, array: bool, nullable: bool, inner: tuple[Field, ...]) -> Any:
    """What a field holds where nothing is given, in the Python form."""
    if "default" in field:
        return field["default"]
    if array:
        return []
    if base[0].isupper():
        return {f.key: f.default for f in inner}
    empty = {"string": "", "bytes": b"", "records": None if nullable else b"", "uuid": uuid.UUID(int=0)}
    return empty.get(base, False if base == "bool" else 0)


# ---------------------------------------------------------------------------------------------------- random messages


def scalar(base: str) -> st.SearchStrategy[Any]:
    if base == "bool":
        return st.booleans()
    if base in INTEGERS:
        bits = INTEGERS[base]
        low, high = (0, 2**bits - 1) if base.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return st.integers(low, high)
    if base == "float64":
        # The JSON form has no others.
        return st.floats(allow_nan=False, allow_infinity=False)
    if base == "uuid":
        return st.uuids()
    if base == "string":
        # 127 and more bytes: compact lengths of two bytes.
        return st.text(max_size=8) | st.integers(126, 129).map("x".__mul__)
    assert base in {"bytes", "records"}, base
    return st.binary(max_size=12) | st.integers(126, 129).map(b"\xff".__mul__)


def unknown_tags(known: tuple[Field, ...]) -> st.SearchStrategy[list[Message]]:
    """Tagged fields that no schema has, in the order of their tags. 2^31 - 1 cannot be written by Kafka."""
    first = max((f.tag for f in known if f.tag is not None), default=-1) + 1
    # Also those that only another version has a meaning for are left alone.
    first = max(first, 100)
    tags = st.integers(first, first + 3) | st.integers(first, 2**31 - 2)
    found = st.dictionaries(tags, st.binary(max_size=8), min_size=1, max_size=2)
    return found.map(lambda d: [{"tag": tag, "bytes": d[tag]} for tag in sorted(d)])


def struct(known: tuple[Field, ...], *, with_tags: bool) -> st.SearchStrategy[Message]:
    shape = {f.key: value(f, with_tags=with_tags) for f in known}
    if not with_tags:
        return st.fixed_dictionaries(shape)
    return st.fixed_dictionaries(shape, optional={UNKNOWN: unknown_tags(known)})


def value(field: Field, *, with_tags: bool) -> st.SearchStrategy[Any]:
    one = struct(field.fields, with_tags=with_tags) if field.struct else scalar(field.base)
    if field.array:
        one = st.lists(one, max_size=2)
    if field.tag is not None:
        one = st.just(field.default) | one
    return st.none() | one if field.nullable else one


def message(name: str, version: int) -> st.SearchStrategy[Message]:
    """Messages in the Python form, with every field of the version."""
    return struct(fields(name, version), with_tags=flexible(name, version))


# ------------------------------------------------------------------------------------------------------ the JSON form


def to_json(known: tuple[Field, ...], given: Message) -> Message:
    """The JSON form of a message in the Python form: what Kafka's JsonConverter classes write."""
    shown = {}
    for field in known:
        held = given[field.key]
        if field.tag is not None and held == field.default:
            continue
        if field.array and held is not None:
            shown[field.key] = [one_to_json(field, element) for element in held]
        else:
            shown[field.key] = one_to_json(field, held)
    if UNKNOWN in given:
        shown[UNKNOWN] = [{"tag": t["tag"], "hex": t["bytes"].hex()} for t in given[UNKNOWN]]
    return shown


def one_to_json(field: Field, held: Any) -> Any:
    if held is None:
        return None
    if field.struct:
        return to_json(field.fields, held)
    if isinstance(held, bytes):
        return base64.b64encode(held).decode()
    if isinstance(held, uuid.UUID):
        return base64.urlsafe_b64encode(held.bytes).decode().rstrip("=")
    return held
