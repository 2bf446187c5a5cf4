"""JSON Schemas: reading them into what the rules of compatibility compare."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import unquote, urldefrag, urljoin

from ottla.testing._registry.errors import SchemaError
from ottla.testing._registry.json_nodes import Node
from ottla.testing._registry.json_rules import LENIENT, STRICT, compare, described

_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
# By type, the keywords of which one makes a schema without a type one of that type, in the order of precedence.
_OF_TYPE = {
    "array": (
        "items",
        "prefixItems",
        "additionalItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "unevaluatedItems",
    ),
    "object": (
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
    ),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format"),
}
_COUNTS = (
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "minContains",
    "maxContains",
)
_NUMBERS = ("minimum", "maximum", "multipleOf")
_NEWER_DRAFTS = ("2019-09", "2020-12")
# Relative references need a base; nothing is ever requested from it.
_DEFAULT_BASE = "https://registry.invalid/root.json"


class JsonSchema:
    """A JSON Schema."""

    def __init__(self, given: Any, node: Node) -> None:
        self._given, self.node = given, node
        self.text = self.identity = json.dumps(given, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> Self:
        """Read a schema."""
        documents = {name: _read(one) for name, one in references.items()}
        given = _read(text)
        return cls(given, _Loader(given, documents).node)

    def normalized(self) -> str:
        """The text with its keywords in alphabetical order."""
        return json.dumps(self._given, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def formatted(self, format: str) -> str:  # noqa: A002, ARG002 - as the query names it
        """The text, which has one format."""
        return self.text

    def problems(self, writer: Self, *, lenient: bool) -> list[str]:
        """Why this schema cannot read what `writer` wrote."""
        allowed = LENIENT if lenient else STRICT
        found = compare(writer.node, self.node, allowed)
        return [described(kind, path) for kind, path in found if kind not in allowed]


def _read(text: str) -> Any:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is not JSON: {error}") from error
    if not isinstance(given, (dict, bool)):
        raise SchemaError(f"a JSON Schema is an object or a boolean, not {json.dumps(given)}")
    return given


class _Loader:
    """Reads a document, and the documents that it refers to when a reference leads there."""

    def __init__(self, given: Any, documents: dict[str, Any]) -> None:
        self._documents = documents
        self._resources: dict[str, Any] = {}
        self._nodes: dict[tuple[str, str], Node] = {}
        draft = str(given.get("$schema", "")) if isinstance(given, dict) else ""
        self._is_newer = any(one in draft for one in _NEWER_DRAFTS)
        self._references: list[Node] = []
        self._index(given, _DEFAULT_BASE)
        for name, document in documents.items():
            self._index(document, urljoin(_DEFAULT_BASE, name))
        self.node = self._load(given, self._base_of(given, _DEFAULT_BASE))
        # Errors of references are those of the schema. Loading what one refers to may find more of them.
        checked = 0
        while checked < len(self._references):
            self._references[checked].values["target"]()
            checked += 1

    def _base_of(self, given: Any, base: str) -> str:
        own = given.get("$id", given.get("id")) if isinstance(given, dict) else None
        return urljoin(base, own) if isinstance(own, str) else base

    def _index(self, given: Any, base: str) -> None:
        """Note the addresses of a document and of the schemas in it."""
        self._resources.setdefault(urldefrag(base)[0], given)
        if isinstance(given, list):
            for one in given:
                if isinstance(one, (dict, list)):
                    self._index_inner(one, base)
        elif isinstance(given, dict):
            self._index_inner(given, base)

    def _index_inner(self, given: Any, base: str) -> None:
        if isinstance(given, dict):
            base = self._base_of(given, base)
            self._resources.setdefault(base.removesuffix("#"), given)
            if isinstance(given.get("$anchor"), str):
                self._resources.setdefault(urljoin(base, "#" + given["$anchor"]), given)
        for one in given.values() if isinstance(given, dict) else given:
            if isinstance(one, (dict, list)):
                self._index_inner(one, base)

    def _resolve(self, reference: str, base: str) -> Node:
        address = urljoin(base, reference)
        known = self._nodes.get((address, ""))
        if known is not None:
            return known
        document, fragment = urldefrag(address)
        if (found := self._resources.get(address)) is None:
            found = self._resources.get(document)
            if found is None:
                found = self._documents.get(urldefrag(reference)[0])
            if found is None:
                raise SchemaError(f"the reference {reference!r} cannot be resolved")
            for part in fragment.split("/")[1:] if fragment.startswith("/") else [fragment] if fragment else []:
                key = unquote(part).replace("~1", "/").replace("~0", "~")
                try:
                    found = found[int(key)] if isinstance(found, list) else found[key]
                except (KeyError, IndexError, ValueError, TypeError) as error:
                    raise SchemaError(f"the reference {reference!r} cannot be resolved") from error
                if isinstance(found, dict):
                    document = self._base_of(found, document)
        # Filled after it is known, because it may contain itself.
        node = self._nodes[address, ""] = Node("empty")
        made = self._load(found, document)
        node.kind, node.values, node.common = made.kind, made.values, made.common
        return node

    def _load(self, given: Any, base: str) -> Node:
        if isinstance(given, bool):
            return Node("true" if given else "false")
        if not isinstance(given, dict):
            raise SchemaError(f"a schema is an object or a boolean, not {json.dumps(given)}")
        base = self._base_of(given, base)
        _check(given)
        common = {
            name: given[name] for name in ("$id", "title", "description", "default", "connect.type") if name in given
        }
        if "id" in given and isinstance(given["id"], str):
            common.setdefault("$id", given["id"])
        if isinstance(given.get("$ref"), str):
            reference = given["$ref"]
            node = Node("ref", {"ref": reference, "target": lambda: self._resolve(reference, base)}, common)
            self._references.append(node)
            return node
        parts = self._parts(given, base)
        if len(parts) == 1:
            parts[0].common = common
            return parts[0]
        return (
            Node("combined", {"criterion": "allOf", "schemas": parts}, common) if parts else Node("empty", {}, common)
        )

    def _parts(self, given: dict[str, Any], base: str) -> list[Node]:
        """The schemas whose conjunction a schema is."""
        parts = []
        if "enum" in given:
            parts.append(Node("enum", {"enum": [json.dumps(one, sort_keys=True) for one in given["enum"]]}))
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in given:
                inner = [self._load(one, base) for one in given[criterion]]
                parts.append(Node("combined", {"criterion": criterion, "schemas": inner}))
        if "not" in given:
            parts.append(Node("not", {"not": self._load(given["not"], base)}))
        if "const" in given:
            parts.append(Node("const", {"const": json.dumps(given["const"], sort_keys=True)}))
        if "if" in given:
            names = [name for name in ("if", "then", "else") if name in given]
            parts.append(Node("conditional", {name: self._load(given[name], base) for name in names}))
        kinds = given.get("type")
        if isinstance(kinds, list):
            typed = [self._typed(one, given, base) for one in kinds]
            parts.append(Node("combined", {"criterion": "anyOf", "schemas": typed}))
        elif kinds is not None:
            parts.append(self._typed(kinds, given, base))
        else:
            sniffed = next((kind for kind, names in _OF_TYPE.items() if any(name in given for name in names)), None)
            if sniffed is not None:
                parts.append(self._typed(sniffed, given, base))
        return parts

    def _typed(self, kind: str, given: dict[str, Any], base: str) -> Node:
        if kind in {"number", "integer"}:
            return Node("number", _limits(given) | {"integer": kind == "integer"})
        if kind == "string":
            return Node("string", {name: given[name] for name in _OF_TYPE["string"] if name in given})
        if kind == "array":
            return Node("array", self._array(given, base))
        return Node(kind, self._object(given, base) if kind == "object" else {})

    def _array(self, given: dict[str, Any], base: str) -> dict[str, Any]:
        counts = ("minItems", "maxItems", "minContains", "maxContains")
        values: dict[str, Any] = {name: given[name] for name in counts if name in given}
        values["uniqueItems"] = given.get("uniqueItems") is True
        items = given.get("items")
        first, rest = given.get("prefixItems"), items if "prefixItems" in given else given.get("additionalItems")
        if isinstance(items, list):
            first = items
        elif self._is_newer and isinstance(items, bool):
            # The newer drafts have no `additionalItems`.
            rest = items
        elif items is not None and "prefixItems" not in given:
            values["items"] = self._load(items, base)
        values["first"] = [self._load(one, base) for one in first or ()]
        values |= self._rest(rest, base)
        if self._is_newer and "unevaluatedItems" in given:
            values["unevaluated"] = self._load(given["unevaluatedItems"], base)
        return values

    def _rest(self, given: Any, base: str) -> dict[str, Any]:
        """Whether more items or properties are allowed, and the schema that they have."""
        if given is None or given is True:
            return {"more": True, "rest": None}
        return {"more": given is not False, "rest": None if given is False else self._load(given, base)}

    def _object(self, given: dict[str, Any], base: str) -> dict[str, Any]:
        values: dict[str, Any] = {name: given[name] for name in ("minProperties", "maxProperties") if name in given}
        for name in ("properties", "patternProperties"):
            values[name] = {key: self._load(one, base) for key, one in given.get(name, {}).items()}
        required = given.get("required")
        values["required"] = set(required) if isinstance(required, list) else set()
        needed: dict[str, set[str]] = {name: set(one) for name, one in given.get("dependentRequired", {}).items()}
        schemas = {name: self._load(one, base) for name, one in given.get("dependentSchemas", {}).items()}
        for name, one in given.get("dependencies", {}).items():
            if isinstance(one, list):
                needed[name] = set(one)
            else:
                schemas[name] = self._load(one, base)
        values |= {"needed": needed, "schemas": schemas, **self._rest(given.get("additionalProperties"), base)}
        if self._is_newer and "unevaluatedProperties" in given:
            values["unevaluated"] = self._load(given["unevaluatedProperties"], base)
        return values


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    """The limits of numbers; draft 4 has a flag that makes a limit exclusive."""
    values = {name: given[name] for name in _NUMBERS if name in given}
    for name, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        value = given.get(name)
        if value is True and limit in values:
            values[name] = values.pop(limit)
        elif value is not None and not isinstance(value, bool):
            values[name] = value
    return values


def _check(given: dict[str, Any]) -> None:  # noqa: C901 - one branch a keyword
    """Reject keywords whose value can never be right.

    Raises:
        SchemaError: A keyword has a value of another type.
    """

    def expect(name: str, fits: bool, wanted: str) -> None:
        if name in given and not fits:
            raise SchemaError(f"{name} must be {wanted}, not {json.dumps(given[name])}")

    kinds = given.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    expect("type", bool(listed) and all(one in _TYPES for one in listed), f"one or several of {', '.join(_TYPES)}")
    for name in _COUNTS:
        value = given.get(name)
        is_count = (
            isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 and value == int(value)
        )
        expect(name, is_count, "a whole number from 0 up")
    for name in _NUMBERS:
        value = given.get(name)
        expect(name, isinstance(value, (int, float)) and not isinstance(value, bool), "a number")
    for name in ("allOf", "anyOf", "oneOf"):
        expect(name, isinstance(given.get(name), list) and bool(given[name]), "a list of schemas")
    for name in ("properties", "patternProperties", "dependencies", "definitions", "$defs", "dependentRequired"):
        expect(name, isinstance(given.get(name), dict), "an object")
    expect("enum", isinstance(given.get("enum"), list), "a list")
    required = given.get("required")
    is_names = isinstance(required, list) and all(isinstance(one, str) for one in required)
    expect("required", is_names or isinstance(required, bool), "a list of names")
    for name in ("title", "description", "$schema", "format", "pattern"):
        expect(name, isinstance(given.get(name), str), "a text")
    for pattern in (given.get("pattern", ""), *given.get("patternProperties", {})):
        if "\\p" in pattern:
            continue
        try:
            re.compile(pattern)
        except re.error as error:
            raise SchemaError(f"the pattern {pattern!r} is invalid: {error}") from error
