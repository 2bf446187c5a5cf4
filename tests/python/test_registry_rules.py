"""The embedded registry's rules of compatibility, compared with Avro's library, and by examples."""

from __future__ import annotations

import itertools
import json

import avro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from ottla.testing._registry.avro import AvroSchema
from ottla.testing._registry.json_schema import JsonSchema
from ottla.testing._registry.protobuf import ProtobufSchema


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


LIST = record(field("value", "int"), field("next", ["null", "R"]))
LONGER = record(field("value", "long"), field("next", ["null", "R"]))
AVRO = [
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
    {"type": "array", "items": "int"},
    {"type": "array", "items": "long"},
    {"type": "map", "values": "int"},
    {"type": "map", "values": "string"},
    {"type": "fixed", "name": "F", "size": 4},
    {"type": "fixed", "name": "F", "size": 8},
    {"type": "fixed", "name": "G", "size": 4},
    enum("A", "B"),
    enum("A"),
    enum("A", default="A"),
    ["null", "int"],
    ["null", "long", "string"],
    ["int"],
    record(),
    record(field("a", "int")),
    record(field("a", "long")),
    record(field("a", "int"), field("b", "string", default="")),
    record(field("a", "int"), field("b", "string")),
    record(field("c", "int", aliases=["a"])),
    record(field("a", "int"), name="S"),
    record(field("a", "int"), name="n.R"),
    record(field("a", ["null", "int"], default=None)),
    record(field("a", record(field("x", "int"), name="Inner"))),
    record(field("a", record(field("x", "string"), name="Inner"))),
    LIST,
    LONGER,
]


def test_avro_agrees_with_avros_library():
    parsed = [(one, AvroSchema.parse(json.dumps(one), {}), avro.schema.parse(json.dumps(one))) for one in AVRO]
    verdicts = set()
    for (_, reader, their_reader), (_, writer, their_writer) in itertools.product(parsed, repeat=2):
        theirs = ReaderWriterCompatibilityChecker().get_compatibility(their_reader, their_writer).compatibility
        found = reader.problems(writer, lenient=False)
        assert (not found) == (theirs is SchemaCompatibilityType.compatible), (reader.text, writer.text, found)
        verdicts.add(not found)
    assert verdicts == {True, False}


OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}
STRINGS = {**OPEN, "additionalProperties": {"type": "string"}}


def with_b(schema, kind="string", **more):
    return {**schema, "properties": {**schema["properties"], "b": {"type": kind, **more}}}


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (OPEN, with_b(OPEN), "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
        (CLOSED, with_b(CLOSED), None),
        (CLOSED, {**with_b(CLOSED), "required": ["b"]}, "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"),
        (CLOSED, {**with_b(CLOSED, default=""), "required": ["b"]}, None),
        (with_b(OPEN), OPEN, None),
        (with_b(CLOSED), CLOSED, "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
        (STRINGS, with_b(STRINGS), None),
        (STRINGS, with_b(STRINGS, "number"), "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"),
        (OPEN, CLOSED, "ADDITIONAL_PROPERTIES_REMOVED"),
        ({"type": "integer"}, {"type": "number"}, None),
        ({"type": "number"}, {"type": "integer"}, "TYPE_NARROWED"),
        ({"type": "number"}, {"type": "string"}, "TYPE_CHANGED"),
        ({"type": "string"}, {"type": ["string", "null"]}, None),
        ({"type": ["string", "null"]}, {"type": "string"}, "TYPE_CHANGED"),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, None),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 4}, "MAX_LENGTH_DECREASED"),
        ({"type": "array", "maxItems": 4}, {"type": "array", "maxItems": 5}, None),
        ({"oneOf": [{"type": "string"}]}, {"oneOf": [{"type": "number"}, {"type": "string"}]}, None),
        ({"not": {"type": "string"}}, {"not": {"type": "number"}}, "NOT_TYPE_EXTENDED"),
    ],
)
def test_json_schemas(old, new, wanted):
    problems = JsonSchema.parse(json.dumps(new), {}).problems(JsonSchema.parse(json.dumps(old), {}), lenient=False)
    assert (wanted is None) == (not problems)
    assert wanted is None or any(wanted in problem for problem in problems)


def test_the_lenient_policy_accepts_added_properties():
    old, new = (JsonSchema.parse(json.dumps(one), {}) for one in (OPEN, with_b(OPEN)))
    assert new.problems(old, lenient=False)
    assert not new.problems(old, lenient=True)


def test_json_schemas_that_contain_themselves():
    def tree(kind):
        nodes = {"value": {"type": kind}, "children": {"type": "array", "items": {"$ref": "#"}}}
        return JsonSchema.parse(json.dumps({"type": "object", "properties": nodes}), {})

    assert not tree("string").problems(tree("string"), lenient=False)
    assert any("TYPE_CHANGED" in one for one in tree("number").problems(tree("string"), lenient=False))


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("int32 a = 1;", "int64 a = 1;", None),
        ("int32 a = 1;", "sint32 a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        ("int32 a = 1;", "int32 b = 1;", None),
        ("int32 a = 1;", "", None),
        ("int32 a = 1;", "repeated int32 a = 1;", None),
        ("optional int32 a = 1;", "repeated int32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("string a = 1;", "bytes a = 1;", None),
        ("int32 a = 1;", "M a = 1;", "FIELD_KIND_CHANGED"),
        ("map<string, int32> a = 1;", "map<string, string> a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        ("int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }", "MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
        ("int32 a = 1;", "oneof o { int32 a = 1; int32 b = 2; }", None),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }", "ONEOF_FIELD_REMOVED"),
        ("message N {}", "", "MESSAGE_REMOVED"),
        ("enum N { Z = 0; }", "", None),
    ],
)
def test_protobuf(old, new, wanted):
    parsed = [ProtobufSchema.parse(f'syntax = "proto3"; message M {{ {one} }}', {}) for one in (old, new)]
    problems = parsed[1].problems(parsed[0], lenient=False)
    assert (wanted is None) == (not problems)
    assert wanted is None or any(wanted in problem for problem in problems)
