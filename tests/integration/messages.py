"""The messages that every client must carry unharmed, and how two sides are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Compression codecs by Kafka's names, and their ids in a record batch's attributes."""


@dataclass(frozen=True)
class Message:
    """One record, in the terms that all clients share.

    Attributes:
        key: The key's bytes, or None for a null key.
        value: The value's bytes, or None for a null value (a tombstone).
        headers: Names and values in order; names may repeat, values may be null.
        timestamp: Milliseconds since the epoch; None where the writer cannot set it.
        partition: The partition; None where the writer cannot choose it.
        offset: The offset read at; -1 for a message that was not read.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int | None = None
    offset: int = -1


def _awkward() -> list[Message]:
    every_byte = bytes(range(256))
    bodies = [
        Message(b"key", b"value"),
        Message(None, b"null key"),
        Message(b"null value", None),
        Message(None, None),
        Message(b"", b"empty key"),
        Message(b"empty value", b""),
        Message(b"", b""),
        Message("ключ 鍵 🔑".encode(), "значение 値 📦".encode()),
        Message(every_byte, every_byte[::-1]),
        Message(b"one header", b"v", (("name", b"header value"),)),
        Message(b"same name thrice", b"v", (("n", b"1"), ("n", b"2"), ("m", b"3"), ("n", b"1"))),
        Message(b"null header", b"v", (("null", None), ("empty", b""), ("last", b"x"))),
        Message(b"odd headers", b"v", (("имя 名 🏷", every_byte), ("", b"no name"))),
        Message(b"long", b"a long value that compresses well; " * 700, (("long", b"h" * 5000),)),
        Message(b"k" * 200, b"v" * 129),  # lengths on both sides of one varint byte
    ]
    start = 1_700_000_000_000
    # Timestamps go up and down, so that deltas of both signs are written; partitions alternate.
    return [replace(m, timestamp=start + (i * 7919) % 1000, partition=i % 2) for i, m in enumerate(bodies)]


PARTITIONS = 2
MESSAGES = _awkward()


def unordered(messages: Iterable[Message], like: Iterable[Message] | None = None) -> list[str]:
    """The messages as sorted texts, for comparison without offsets and across partitions.

    Args:
        messages: What was read.
        like: What was written. Where this names no timestamp (no partition) at all, these are left out of the
            comparison, as the writer had no say in them.
    """
    model = list(like or ())
    unknown: dict[str, int | None] = {"offset": -1}
    for field in ("timestamp", "partition"):
        if model and all(getattr(m, field) is None for m in model):
            unknown[field] = None
    return sorted(repr(replace(m, **unknown)) for m in messages)
