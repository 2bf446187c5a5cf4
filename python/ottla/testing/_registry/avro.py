"""Avro schemas: parsing, Java's text of a schema, its normal form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Self

from ottla.testing._registry.avro_rules import incompatibilities
from ottla.testing._registry.avro_types import MISSING, Field, Type
from ottla.testing._registry.errors import SchemaError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Attributes that are parts of a type or of a field; all others are properties.
_PARTS = {
    "record": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "error": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "enum": {"type", "name", "namespace", "doc", "aliases", "symbols", "default"},
    "fixed": {"type", "name", "namespace", "doc", "aliases", "size"},
    "array": {"type", "items"},
    "map": {"type", "values"},
    "field": {"type", "name", "doc", "default", "order", "aliases"},
}


class AvroSchema:
    """An Avro schema."""

    def __init__(self, type: Type, outside: frozenset[str]) -> None:  # noqa: A002
        self.type, self._outside = type, outside
        self.text = self.identity = _compact(_as_json(type, "", set(outside)))

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> Self:
        """Read a schema."""
        parser = Parser()
        for reference in references.values():
            parser.read(reference)
        outside = frozenset(parser.names)
        return cls(parser.read(text), outside)

    def normalized(self) -> str:
        """The text with full names and the attributes in one order."""
        return _compact(_normal(self.type, set(self._outside)))

    def formatted(self, format: str) -> str:  # noqa: A002 - as the query names it
        """The text; with `resolved`, the types of references are written where they are first used."""
        return _compact(_as_json(self.type, "", set())) if format == "resolved" else self.text

    def problems(self, writer: Self, *, lenient: bool) -> list[str]:  # noqa: ARG002 - a policy of JSON Schema
        """Why this schema cannot read what `writer` wrote."""
        return incompatibilities(self.type, writer.type)


class Parser:
    """Reads schemas, of which later ones may name the types of earlier ones.

    Attributes:
        names: The named types so far.
    """

    def __init__(self) -> None:
        self.names: dict[str, Type] = {}

    def read(self, text: str) -> Type:
        """Read a schema.

        Raises:
            SchemaError: It is invalid.
        """
        try:
            given = json.loads(text)
        except ValueError as error:
            # A primitive type needs no quotes, as in Java.
            if text not in PRIMITIVES:
                raise SchemaError(f"the schema is not JSON: {error}") from error
            given = text
        except RecursionError as error:
            raise SchemaError("the schema is nested too deeply") from error
        return self._type(given, "")

    def _type(self, given: Any, space: str) -> Type:
        if isinstance(given, str):
            return self._named(given, space)
        if isinstance(given, list):
            return self._union(given, space)
        if not isinstance(given, dict):
            raise SchemaError(f"No type: {json.dumps(given)}")
        kind = given.get("type")
        if isinstance(kind, (dict, list)):
            # A type within a type: the outer attributes are left out, as in Java.
            return self._type(kind, space)
        if not isinstance(kind, str):
            raise SchemaError(f"No type: {json.dumps(given)}")
        if kind in PRIMITIVES:
            return Type(kind, properties={name: value for name, value in given.items() if name != "type"})
        if kind in {"record", "error", "enum", "fixed"}:
            return self._definition(kind, given, space)
        if kind in {"array", "map"}:
            part = "items" if kind == "array" else "values"
            if part not in given:
                raise SchemaError(f"No {part} type: {json.dumps(given)}")
            return Type(kind, inner=self._type(given[part], space), properties=_properties(kind, given))
        return self._named(kind, space)

    def _named(self, name: str, space: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        found = self.names.get(_full(name, space)) or self.names.get(name)
        if found is None:
            raise SchemaError(f'Undefined name: "{name}"')
        return found

    def _union(self, given: list[Any], space: str) -> Type:
        branches = [self._type(one, space) for one in given]
        seen = set()
        for one in branches:
            if one.kind == "union":
                raise SchemaError(f"Nested union: {json.dumps(given)}")
            if (what := one.name or one.kind) in seen:
                raise SchemaError(f"Duplicate in union:{what}")
            seen.add(what)
        return Type("union", branches=branches)

    def _definition(self, kind: str, given: dict[str, Any], space: str) -> Type:
        name = given.get("name")
        if not isinstance(name, str):
            raise SchemaError(f"No name in schema: {json.dumps(given)}")
        full = _full(name, given["namespace"] if isinstance(given.get("namespace"), str) else space)
        space = full.rpartition(".")[0]
        if any(not _NAME.fullmatch(part) for part in full.split(".")):
            raise SchemaError(f"Illegal character in: {full}")
        if full in PRIMITIVES:
            raise SchemaError(f"Schemas may not be named after primitives: {full}")
        if full in self.names:
            raise SchemaError(f"Can't redefine: {full}")
        made = Type(
            "record" if kind == "error" else kind,
            name=full,
            aliases=tuple(_full(one, space) for one in _texts(given, "aliases")),
            doc=given.get("doc") if isinstance(given.get("doc"), str) else None,
            properties=_properties(kind, given),
        )
        self.names[full] = made
        if kind == "fixed":
            if not isinstance(given.get("size"), int) or isinstance(given["size"], bool) or given["size"] < 0:
                raise SchemaError(f"Invalid or no size: {json.dumps(given)}")
            made.size = given["size"]
        elif kind == "enum":
            self._symbols(made, given)
        else:
            made.fields = self._fields(given, space)
        return made

    @staticmethod
    def _symbols(made: Type, given: dict[str, Any]) -> None:
        if not isinstance(given.get("symbols"), list):
            raise SchemaError(f"Enum has no symbols: {json.dumps(given)}")
        made.symbols = _texts(given, "symbols")
        for one in made.symbols:
            if not _NAME.fullmatch(one):
                raise SchemaError(f"Illegal initial character: {one}")
        if len(set(made.symbols)) < len(made.symbols):
            raise SchemaError(f"Duplicate enum symbol: {json.dumps(given['symbols'])}")
        made.default = given.get("default")
        if made.default is not None and made.default not in made.symbols:
            raise SchemaError(f"The Enum Default: {made.default} is not in the enum symbol set: {list(made.symbols)}")

    def _fields(self, given: dict[str, Any], space: str) -> list[Field]:
        if not isinstance(given.get("fields"), list):
            raise SchemaError(f"Record has no fields: {json.dumps(given)}")
        made: list[Field] = []
        for one in given["fields"]:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise SchemaError(f"No field name: {json.dumps(one)}")
            if not _NAME.fullmatch(one["name"]):
                raise SchemaError(f"Illegal character in: {one['name']}")
            if one["name"] in {other.name for other in made}:
                raise SchemaError(f"Duplicate field {one['name']} in record {given['name']}")
            if "type" not in one:
                raise SchemaError(f"No field type: {json.dumps(one)}")
            order = one.get("order", "ascending")
            if order not in {"ascending", "descending", "ignore"}:
                raise SchemaError(f"No enum constant for the order {order!r} of field {one['name']}")
            made.append(
                Field(
                    name=one["name"],
                    type=self._type(one["type"], space),
                    doc=one.get("doc") if isinstance(one.get("doc"), str) else None,
                    default=one.get("default", MISSING),
                    order=order,
                    aliases=_texts(one, "aliases"),
                    properties=_properties("field", one),
                )
            )
            if made[-1].has_default and not _fits(made[-1].default, made[-1].type):
                raise SchemaError(
                    f"Invalid default for field {one['name']}: {json.dumps(one['default'])} "
                    f"not a {_compact(_as_json(made[-1].type, space, set()))}"
                )
        return made


def _texts(given: dict[str, Any], name: str) -> tuple[str, ...]:
    found = given.get(name) or ()
    if not isinstance(found, (list, tuple)) or not all(isinstance(one, str) for one in found):
        raise SchemaError(f"{name} not a list of names: {json.dumps(given)}")
    return tuple(found)


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _properties(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in _PARTS[kind]}


def _fits(value: Any, type: Type) -> bool:  # noqa: A002 - one answer a type
    """Whether a default is of a type; that of a union is of one of its branches."""
    kind = type.kind
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "union":
        return any(_fits(value, branch) for branch in type.branches)
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in {"int", "long"}:
        bits = 31 if kind == "int" else 63
        return isinstance(value, int) and is_number and -(2**bits) <= value < 2**bits
    if kind in {"float", "double"}:
        return is_number
    if kind in {"string", "bytes", "fixed", "enum"}:
        return isinstance(value, str)
    if kind == "array":
        return isinstance(value, list) and type.inner is not None and all(_fits(one, type.inner) for one in value)
    if kind == "map":
        return (
            isinstance(value, dict) and type.inner is not None and all(_fits(one, type.inner) for one in value.values())
        )
    return isinstance(value, dict) and all(
        _fits(value[one.name], one.type) if one.name in value else one.has_default for one in type.fields
    )


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _as_json(type: Type, space: str, written: set[str]) -> Any:  # noqa: A002, C901 - one branch a type
    """A type as Java's `Schema.toString` writes it; a named type that is written already is its name."""
    if type.kind == "union":
        return [_as_json(one, space, written) for one in type.branches]
    if type.kind in PRIMITIVES:
        return {"type": type.kind, **type.properties} if type.properties else type.kind
    if type.inner is not None:
        part = "items" if type.kind == "array" else "values"
        return {"type": type.kind, part: _as_json(type.inner, space, written), **type.properties}
    own, _, short = type.name.rpartition(".")
    if type.name in written:
        return short if own == space else type.name
    written.add(type.name)
    made: dict[str, Any] = {"type": type.kind, "name": short}
    if own != space:
        made["namespace"] = own
    if type.doc is not None:
        made["doc"] = type.doc
    if type.kind == "fixed":
        made["size"] = type.size
    elif type.kind == "enum":
        made["symbols"] = list(type.symbols)
        if type.default is not None:
            made["default"] = type.default
    else:
        made["fields"] = [_field_as_json(one, own, written) for one in type.fields]
    made |= type.properties
    if type.aliases:
        made["aliases"] = [one.rpartition(".")[2] if one.rpartition(".")[0] == own else one for one in type.aliases]
    return made


def _field_as_json(one: Field, space: str, written: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": one.name, "type": _as_json(one.type, space, written)}
    if one.doc is not None:
        made["doc"] = one.doc
    if one.has_default:
        made["default"] = one.default
    if one.order != "ascending":
        made["order"] = one.order
    if one.aliases:
        made["aliases"] = list(one.aliases)
    return made | one.properties


def _normal(type: Type, written: set[str]) -> Any:  # noqa: A002
    """A type in the normal form: the order of Avro's canonical form, then the rest in alphabetical order."""
    rest = dict(sorted(type.properties.items()))
    if type.kind == "union":
        return [_normal(one, written) for one in type.branches]
    if type.kind in PRIMITIVES:
        return {"type": type.kind, **rest} if rest else type.kind
    if type.inner is not None:
        return {"type": type.kind, "items" if type.kind == "array" else "values": _normal(type.inner, written), **rest}
    if type.name in written:
        return type.name
    written.add(type.name)
    made: dict[str, Any] = {"name": type.name, "type": type.kind}
    if type.kind == "fixed":
        made["size"] = type.size
    elif type.kind == "enum":
        made["symbols"] = list(type.symbols)
    else:
        made["fields"] = [_normal_field(one, written) for one in type.fields]
    if type.aliases:
        made["aliases"] = sorted(type.aliases)
    if type.default is not None:
        made["default"] = type.default
    if type.doc is not None:
        made["doc"] = type.doc
    return made | rest


def _normal_field(one: Field, written: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": one.name, "type": _normal(one.type, written)}
    if one.aliases:
        made["aliases"] = sorted(one.aliases)
    if one.has_default:
        made["default"] = one.default
    if one.doc is not None:
        made["doc"] = one.doc
    if one.order != "ascending":
        made["order"] = one.order
    return made | dict(sorted(one.properties.items()))
