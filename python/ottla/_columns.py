"""Columns as a caller declares them in Python, and rows of dicts as Arrow data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from ottla.errors import ArgumentError

_PLAIN = {
    bool: "boolean",
    int: "bigint",
    float: "double",
    str: "string",
    bytes: "binary",
    datetime: "timestamp",
    date: "date",
    Decimal: "decimal(38,18)",
}
# What a schema of JSON has, and columns do not: a dict of columns has types as values.
_OF_JSON_SCHEMA = {"$schema", "$ref", "$id", "$defs", "definitions"}


def text_of(schema: object, format: str) -> object:  # noqa: A002 - as `Decoder` names it
    """The text of a schema that is a dict or, for Avro, a list; another schema as it is.

    A dict is the schema of the format, in Avro and of JSON Schema, or it has columns: names and types.

    Raises:
        ArgumentError: A type is not known.
    """
    if format == "avro" and isinstance(schema, list):
        return json.dumps(schema)
    if not isinstance(schema, Mapping):
        return schema
    is_json_schema = schema.get("type") == "object" or not _OF_JSON_SCHEMA.isdisjoint(schema)
    is_avro = isinstance(schema.get("type"), (str, dict, list)) and {"fields", "items", "values", "symbols", "size"} & {
        *schema
    }
    if (format == "avro" and (is_avro or "logicalType" in schema)) or (format == "json" and is_json_schema):
        return json.dumps(schema)
    return _fields(schema, ", ", " ")


def _fields(columns: Mapping[Any, Any], comma: str, colon: str) -> str:
    if not columns:
        raise ArgumentError("a schema of no columns reads nothing: name them, as {'item': 'string'}")
    return comma.join(f"`{str(name).replace('`', '``')}`{colon}{_type(name, kind)}" for name, kind in columns.items())


def _type(name: object, kind: object) -> str:
    if isinstance(kind, str):
        return kind
    if isinstance(kind, type) and kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, Mapping):
        return f"struct<{_fields(kind, ',', ':')}>"
    if isinstance(kind, (list, tuple)) and len(kind) == 1:
        return f"array<{_type(name, kind[0])}>"
    raise ArgumentError(
        f"the type of column {name!r} is a text such as 'decimal(8,2)', a class such as int, a dict of fields or a "
        f"list of one type, not {kind!r}"
    )


def are_rows(data: object) -> bool:
    """Whether data are dicts, and no table."""
    if isinstance(data, Mapping):
        return True
    if not isinstance(data, (list, tuple)) or not data:
        return False
    return all(row is None or isinstance(row, Mapping) for row in data)


def rows_as_arrow(data: Any, schema: Any) -> Any:
    """Dicts as a column of structs, of which None is null.

    Args:
        data: One dict, or several.
        schema: The columns, which speak the PyCapsule interface; None for those that pyarrow infers from all rows.

    Raises:
        ArgumentError: A dict has a name that the schema does not have, or a value of another type.
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError("dicts are encoded by way of pyarrow: pip install 'ottla[arrow]'") from error
    rows = [data] if isinstance(data, Mapping) else list(data)
    kind = None if schema is None else pa.struct(list(pa.schema(schema)))
    try:
        if kind is not None:
            for number, row in enumerate(rows):
                _check(pa, row, kind, f"row {number}", "")
        return pa.array(rows, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise ArgumentError(f"the dicts do not fit the schema: {error}") from error


def _check(pa: Any, value: Any, kind: Any, row: str, path: str) -> None:
    """Refuse names that the schema does not have: Arrow would leave their values out."""
    if isinstance(value, Mapping) and pa.types.is_struct(kind):
        for name, inner in value.items():
            if kind.get_field_index(name) < 0:
                raise ArgumentError(f"{row} has {path + str(name)!r}, and the schema has no such field")
            _check(pa, inner, kind.field(name).type, row, f"{path}{name}.")
    elif isinstance(value, Iterable) and pa.types.is_list(kind):
        for inner in value:
            _check(pa, inner, kind.value_type, row, path)
    elif isinstance(value, Mapping) and pa.types.is_map(kind):
        for inner in value.values():
            _check(pa, inner, kind.item_type, row, path)
