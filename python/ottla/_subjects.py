"""Subjects of a registry's schemas, by the strategies of Confluent's serializers."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

from ottla._registry import subject_of
from ottla.errors import ArgumentError

Strategy: TypeAlias = Literal["topic", "record", "topic_record"]
STRATEGIES = ("topic", "record", "topic_record")


def subject_by(strategy: Strategy, topic: str | None, column: str, record: str | None) -> str:
    """The subject of a schema.

    Args:
        strategy: "topic" for `TOPIC-value` or `TOPIC-key`, "record" for the record's name, "topic_record" for both with
            a dash between them.
        topic: The topic.
        column: "key" or "value".
        record: The full name of the record.

    Raises:
        ArgumentError: The strategy needs a topic or a name that there is not.
    """
    if strategy != "record" and topic is None:
        raise ArgumentError("the subject of the schema is unknown: pass topic, or make the encoder with subject")
    if strategy == "topic":
        return subject_of(str(topic), column)
    if record is None:
        raise ArgumentError(
            f"the schema has no name, which the strategy {strategy!r} needs: a record in Avro, a title in JSON Schema, "
            "a message in Protobuf"
        )
    return record if strategy == "record" else f"{topic}-{record}"


def record_name(format: str, text: str | None) -> str | None:  # noqa: A002 - as `Encoder` names it
    """The full name of the record that a schema describes; None without one."""
    try:
        given: Any = json.loads(text or "null")
    except ValueError:
        # A primitive type in Avro, which needs no quotes.
        given = text
    if format == "json":
        return given.get("title") if isinstance(given, dict) else None
    if not isinstance(given, dict):
        return given if isinstance(given, str) else None
    name, space = given.get("name"), given.get("namespace")
    if name is None:
        return str(given["type"]) if isinstance(given.get("type"), str) else None
    return name if "." in name or not space else f"{space}.{name}"


def file_name(descriptor: bytes) -> str:
    """The name of a serialized `FileDescriptorProto`, which is its first field."""
    if descriptor[:1] != b"\x0a":
        return ""
    length, shift, at = 0, 0, 1
    while True:
        length |= (descriptor[at] & 0x7F) << shift
        at += 1
        if descriptor[at - 1] < 0x80:
            return descriptor[at : at + length].decode()
        shift += 7
