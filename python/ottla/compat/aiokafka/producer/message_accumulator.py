"""`BatchBuilder`: records that are sent together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["BatchBuilder"]
# Kafka's record format 2: the bytes before the first record of a batch.
_BATCH_HEADER: Final = 61


class _Appended(NamedTuple):
    offset: int
    crc: int | None
    size: int
    timestamp: int


class BatchBuilder:
    """Collects records up to `max_batch_size` bytes before compression. `AIOKafkaProducer.create_batch` makes it.

    Args:
        batch_size: The most bytes. The first record may be larger.
        key_serializer: Makes bytes of keys.
        value_serializer: Makes bytes of values.
    """

    def __init__(
        self,
        batch_size: int,
        *,
        key_serializer: Callable[[Any], bytes] | None = None,
        value_serializer: Callable[[Any], bytes] | None = None,
    ) -> None:
        self._most = batch_size
        self._key_serializer, self._value_serializer = key_serializer, value_serializer
        self._closed = False
        self._size = _BATCH_HEADER
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.headers: list[list[tuple[str, bytes | None]]] = []

    def append(
        self, *, timestamp: int | None, key: Any, value: Any, headers: Sequence[tuple[str, bytes | None]] | None = ()
    ) -> _Appended | None:
        """Add a record.

        Args:
            timestamp: Milliseconds since 1970 UTC; None takes the current time.
            key: The key.
            value: The value.
            headers: Pairs of a name and a value.

        Returns: The record's place in the batch and its size in bytes; None if the batch is full or closed.

        Raises:
            TypeError: The key or the value is not bytes after serialization.
        """
        if self._closed:
            return None
        key_bytes = checked("key", key if self._key_serializer is None else self._key_serializer(key))
        value_bytes = checked("value", value if self._value_serializer is None else self._value_serializer(value))
        listed = list(headers or ())
        size = size_of(key_bytes, value_bytes, listed)
        if self.keys and self._size + size > self._most:
            self.close()
            return None
        self._size += size
        self.keys.append(key_bytes)
        self.values.append(value_bytes)
        at = int(time.time() * 1000) if timestamp is None else timestamp
        self.timestamps.append(at)
        self.headers.append(listed)
        return _Appended(len(self.keys) - 1, None, size, at)

    def close(self) -> None:
        """Take no further record."""
        self._closed = True

    def closed(self) -> bool:
        """Whether no further record is taken."""
        return self._closed

    def size(self) -> int:
        """Bytes of the batch before compression."""
        return self._size

    def record_count(self) -> int:
        """The number of records."""
        return len(self.keys)


def checked(field: str, data: Any) -> bytes | bytearray | memoryview | None:
    """A key or a value.

    Raises:
        TypeError: It is not bytes.
    """
    if data is None or isinstance(data, bytes | bytearray | memoryview):
        return data
    raise TypeError(f"{field} must be bytes or None after serialization, not {type(data).__name__}")


def size_of(key: Any, value: Any, headers: Sequence[tuple[str, Any]]) -> int:
    """An upper bound for the bytes of a record in Kafka's format 2."""
    size = 21 + (0 if key is None else len(key)) + (0 if value is None else len(value))
    for name, data in headers:
        size += 10 + len(name.encode()) + (0 if data is None else len(data))
    return size
