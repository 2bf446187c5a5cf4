"""Whether a reader's Avro schema resolves a writer's, as Avro's Java library decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing._registry.avro_types import Field, Type

# By the reader's type, the types that are promoted to it.
_PROMOTED = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
_DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": (
        "The size of FIXED type field at path '{}' in the %s schema does not match with the %s schema"
    ),
    "TYPE_MISMATCH": "The type (path '{}') of a field in the %s schema does not match with the %s schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{}')",
    "MISSING_ENUM_SYMBOLS": "The %s schema is missing enum symbols at path '{}' in the %s schema",
    "MISSING_UNION_BRANCH": "The %s schema is missing a type inside a union field at path '{}' in the %s schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field '{1}' at path '{0}' in the %s schema has no default value and is missing in the %s schema"
    ),
}


def incompatibilities(reader: Type, writer: Type) -> list[str]:
    """Why data of the writer cannot be read; empty if all of it can."""
    return _Comparison().compare(reader, writer, "")


class _Comparison:
    def __init__(self) -> None:
        # Pairs of types that were compared or are being compared: types may contain themselves.
        self._known: dict[tuple[int, int], list[str]] = {}

    def compare(self, reader: Type, writer: Type, path: str) -> list[str]:
        pair = id(reader), id(writer)
        if pair not in self._known:
            self._known[pair] = []
            self._known[pair] = self._compare(reader, writer, path)
        return self._known[pair]

    def _compare(self, reader: Type, writer: Type, path: str) -> list[str]:
        if writer.kind == "union":
            return self._from_union(reader, writer, path)
        if reader.kind == "union":
            if any(not self.compare(branch, writer, f"{path}/{index}") for index, branch in enumerate(reader.branches)):
                return []
            return [_reason("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.kind.upper()}")]
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTED.get(reader.kind, ()):
                return []
            text = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
            return [_reason("TYPE_MISMATCH", path, text)]
        if reader.inner is not None and writer.inner is not None:
            return self.compare(reader.inner, writer.inner, f"{path}/{'items' if reader.kind == 'array' else 'values'}")
        return self._named(reader, writer, path) if reader.name else []

    def _from_union(self, reader: Type, writer: Type, path: str) -> list[str]:
        found = []
        for index, branch in enumerate(writer.branches):
            inner = self.compare(reader, branch, path)
            if inner and reader.kind == "union":
                text = f"reader union lacking writer type: {branch.kind.upper()}"
                found.append(_reason("MISSING_UNION_BRANCH", f"{path}/{index}", text))
            else:
                found += inner
        return found

    def _named(self, reader: Type, writer: Type, path: str) -> list[str]:
        found = []
        same = reader.name.rpartition(".")[2] == writer.name.rpartition(".")[2] or writer.name in reader.aliases
        if not same:
            found.append(_reason("NAME_MISMATCH", f"{path}/name", f"expected: {writer.name}"))
        if reader.kind == "fixed" and reader.size != writer.size:
            text = f"expected: {writer.size}, found: {reader.size}"
            found.append(_reason("FIXED_SIZE_MISMATCH", f"{path}/size", text))
        if reader.kind == "enum":
            missing = [one for one in writer.symbols if one not in reader.symbols]
            if missing and reader.default is None:
                found.append(_reason("MISSING_ENUM_SYMBOLS", f"{path}/symbols", f"[{', '.join(missing)}]"))
        if reader.kind == "record":
            for index, field in enumerate(reader.fields):
                found += self._field(field, writer, f"{path}/fields/{index}")
        return found

    def _field(self, field: Field, writer: Type, path: str) -> list[str]:
        names = {one.name: one for one in writer.fields}
        written = names.get(field.name) or next((names[one] for one in field.aliases if one in names), None)
        if written is not None:
            return self.compare(field.type, written.type, f"{path}/type")
        # A reader's enum with a default of its own needs none of the field.
        if field.has_default or (field.type.kind == "enum" and field.type.default is not None):
            return []
        return [_reason("READER_FIELD_MISSING_DEFAULT_VALUE", path, field.name)]


def _reason(kind: str, path: str, detail: str) -> str:
    description = _DESCRIPTIONS[kind].format(path or "/", detail)
    return f"{{errorType:'{kind}', description:'{description}', additionalInfo:'{detail}'}}"
