"""Records of internal topics, and control records."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from ottla import _ottla
from ottla._types import Buffer
from ottla.errors import ArgumentError
from ottla.protocol._messages import Form, decode

INTERNAL_TOPICS: tuple[str, ...] = tuple(_ottla.internal_topics())
"""The topics that `decode_internal` knows."""


@dataclass(frozen=True)
class InternalPart:
    """The key or the value of a record in an internal topic.

    Attributes:
        name: The message, such as `"OffsetCommitValue"`; None if ottla does not know the type, or this version of it.
        version: Its version.
        data: Its fields; without a name, the bytes that follow type and version (as base64 in form `"json"`).
    """

    name: str | None
    version: int
    data: dict[str, Any] | bytes | str


@dataclass(frozen=True)
class InternalRecord:
    """A record of an internal topic, or a control record.

    Attributes:
        type: Its type on the wire: the key's, or that of a metadata record; None for a metadata record without a value.
        name: The type's name, such as `"OffsetCommit"` or `"TopicRecord"`; None if ottla does not know it.
        key: The key; None for metadata records, which have none.
        value: The value; None if the record removes what its key names.
    """

    type: int | None
    name: str | None
    key: InternalPart | None
    value: InternalPart | None


def decode_internal(topic: str, key: Buffer | None, value: Buffer | None, *, form: Form = "python") -> InternalRecord:
    """Read a record of one of the `INTERNAL_TOPICS`.

    Types and versions that ottla does not know, because a newer broker wrote them, are no errors.

    Args:
        topic: The topic's name.
        key: The record's key.
        value: The record's value.
        form: As for `decode`.

    Returns:
        The messages of the key and the value.

    Raises:
        ArgumentError: The topic does not exist, or its records have no schema.
        ProtocolError: The bytes are no record of this topic; the text names the field.

    ```python
    >>> from ottla.protocol import decode_internal
    >>> record = decode_internal("__transaction_state", bytes.fromhex("0000 0002 7478"), None)
    >>> record.name, record.key.data, record.value
    ('TransactionLog', {'transactionalId': 'tx'}, None)

    ```
    """
    if topic not in INTERNAL_TOPICS:
        known = ", ".join(INTERNAL_TOPICS)
        raise ArgumentError(f"records of {topic!r} have no schema; those of these topics do: {known}")
    key, value = _bytes(key), _bytes(value)
    return _decoded(_ottla.identify_record(topic, key, value), key, value, form)


def decode_control(key: Buffer | None, value: Buffer | None, *, form: Form = "python") -> InternalRecord:
    """Read a record of a control batch of any topic.

    It is the end marker of a transaction (KIP-98), or a control record of KRaft (KIP-595, KIP-630, KIP-853).

    Args:
        key: The record's key.
        value: The record's value.
        form: As for `decode`.

    Returns:
        The messages of the key and the value; the name is `"Abort"`, `"Commit"`, `"LeaderChange"`, ...

    Raises:
        ProtocolError: The bytes are no control record; the text names the field.
    """
    key, value = _bytes(key), _bytes(value)
    return _decoded(_ottla.identify_control(key, value), key, value, form)


def _bytes(data: Buffer | None) -> bytes | None:
    # Not bytes(data), which makes zeros of a number.
    return None if data is None else memoryview(data).tobytes()


def _decoded(
    identified: tuple[int | None, str | None, _ottla.RecordPart | None, _ottla.RecordPart | None],
    key: bytes | None,
    value: bytes | None,
    form: Form,
) -> InternalRecord:
    number, name, key_part, value_part = identified
    return InternalRecord(number, name, _part(key_part, key, form), _part(value_part, value, form))


def _part(part: _ottla.RecordPart | None, data: bytes | None, form: Form) -> InternalPart | None:
    if part is None or data is None:
        return None
    name, version, start = part
    body = data[start:]
    if name is None:
        return InternalPart(None, version, base64.b64encode(body).decode() if form == "json" else body)
    return InternalPart(name, version, decode(name, version, body, form=form))
