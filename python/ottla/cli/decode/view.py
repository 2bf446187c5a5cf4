"""Views of decoded messages: their fields, and the content of fields whose bytes have a format of their own.

A view is made of dictionaries, lists, `None`, bool, numbers, `str` and `bytes`, and of the classes below. `text` and
`objects` print it.
"""

from __future__ import annotations

import base64
import io
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla import protocol
from ottla.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

# The fields whose type is `records`.
RECORDS = {"records", "unalignedRecords"}
# What classic consumer groups put into fields of type bytes, behind an int16 version.
CONSUMER_PROTOCOL = {
    "metadata": "ConsumerProtocolSubscription",
    "memberMetadata": "ConsumerProtocolSubscription",
    "subscription": "ConsumerProtocolSubscription",
    "assignment": "ConsumerProtocolAssignment",
    "memberAssignment": "ConsumerProtocolAssignment",
}


@dataclass(frozen=True)
class Message:
    """A message inside of something else."""

    name: str
    version: int
    fields: Any


@dataclass(frozen=True)
class Unread:
    """Bytes that do not decode, and why."""

    data: bytes
    reason: str


@dataclass(frozen=True)
class RecordView:
    """A record, with its key and value as messages where they are known."""

    offset: int | None
    timestamp: int
    kind: str | None
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class BatchView:
    """A batch of records, or a message of magic 0 or 1."""

    position: int
    batch: protocol.RecordBatch
    records: list[RecordView]


@dataclass(frozen=True)
class Batches:
    """What is in a field of type `records`."""

    size: int
    batches: list[BatchView]
    unread: Unread | None


def uuid(value: UUID) -> str:
    """A uuid as Kafka's own tools print it."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def message(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The view of a message in Python form."""
    shown: dict[str, Any] = _within(fields, fields.get("protocolType") == "consumer")
    return shown


def _within(value: Any, consumer: bool) -> Any:
    if isinstance(value, list):
        return [_within(element, consumer) for element in value]
    if not isinstance(value, dict):
        return value
    consumer = value.get("protocolType") == "consumer" if "protocolType" in value else consumer
    shown: dict[str, Any] = {}
    for name, field in value.items():
        if isinstance(field, bytes) and name in RECORDS:
            shown[name] = records(field)
        elif isinstance(field, bytes) and consumer and name in CONSUMER_PROTOCOL:
            shown[name] = _prefixed(CONSUMER_PROTOCOL[name], field)
        else:
            shown[name] = _within(field, consumer)
    return shown


def _prefixed(name: str, data: bytes) -> Message | bytes:
    """A message after its version. Applications may put other bytes there, which are shown as they are."""
    version = int.from_bytes(data[:2], "big")
    if len(data) < 2 or version not in protocol.MESSAGES[name]:
        return data
    try:
        return Message(name, version, protocol.decode(name, version, data[2:]))
    except ProtocolError:
        return data


def records(data: bytes) -> Batches:
    """The view of a field of record batches, up to what is damaged in it."""
    try:
        # A batch that a fetch cut short at the end is no damage.
        decoded, reason = protocol.decode_records(data), "cut short, as a fetch may"
    except ProtocolError as error:
        decoded, reason = _before_damage(data), str(error)
    rest = data[sum(found.size for found in decoded) :]
    shown = [batch(found, found.position, None) for found in decoded]
    return Batches(len(data), shown, Unread(rest, reason) if rest else None)


def _before_damage(data: bytes) -> list[protocol.RecordBatch]:
    end = 0
    with suppress(ProtocolError):
        for found in protocol.read_segment(io.BytesIO(data)):
            end = found.position + found.size
    try:
        return protocol.decode_records(data[:end])
    except ProtocolError:
        # Each is whole, and together they decompress to more than the limit.
        return []


def batch(decoded: protocol.RecordBatch, position: int, topic: str | None) -> BatchView:
    """The view of a batch.

    Args:
        decoded: The batch.
        position: The byte it begins at.
        topic: The internal topic it is of; None for any other.
    """
    return BatchView(position, decoded, list(_records(decoded, topic)))


def _records(decoded: protocol.RecordBatch, topic: str | None) -> Iterator[RecordView]:
    for record in decoded.records:
        kind, key, value = None, record.key, record.value
        if decoded.control or topic is not None:
            kind, key, value = _known(decoded.control, topic, key, value)
        yield RecordView(record.offset, record.timestamp, kind, key, value, list(record.headers))


def _known(control: bool, topic: str | None, key: bytes | None, value: bytes | None) -> tuple[str | None, Any, Any]:
    """The kind of a record, its key and its value."""
    try:
        known = protocol.decode_control(key, value) if control else protocol.decode_internal(str(topic), key, value)
    except ProtocolError as error:
        return "undecoded", key, Unread(value or b"", str(error))
    if control:
        # The key has only the type.
        return f"control {known.name or known.type}", None, _part(known.value)
    return known.name or f"type {known.type}", _part(known.key), _part(known.value)


def internal(record: protocol.InternalRecord) -> tuple[str, Any, Any]:
    """The kind, the key and the value of a record that stands alone."""
    return record.name or f"type {record.type}", _part(record.key), _part(record.value)


def _part(part: protocol.InternalPart | None) -> Any:
    if part is None:
        return None
    if part.name is None:
        return Message("unknown", part.version, part.data)
    return Message(part.name, part.version, _within(part.data, False))
