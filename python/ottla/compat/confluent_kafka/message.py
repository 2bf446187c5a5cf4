"""`Message`: a record that was consumed or whose delivery ended, or an error of a consumer."""

from __future__ import annotations

from typing import Any, Self

from ottla._ottla import Record
from ottla.compat.confluent_kafka.constants import OFFSET_INVALID, TIMESTAMP_NOT_AVAILABLE
from ottla.compat.confluent_kafka.errors import KafkaError

_MOST_DELIVERIES = 2**15


class Message:
    """A record: consumed, or produced with its delivery's result; or the error of a consumer.

    The type of its timestamp is TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME.

    Args:
        topic: The topic's name.
        partition: The partition's number.
        offset: The offset.
        key: The key.
        value: The value.
        headers: The headers.
        error: The error, if the message is one.
        timestamp: The timestamp's type and the timestamp in milliseconds.
        latency: Seconds from the call of produce to the delivery.
        leader_epoch: The epoch of the leader that wrote the record.
        delivery_count: How often a share group delivered the record.
    """

    __fields: tuple[Any, ...]

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Make a message that is usable before its __init__."""
        made = super().__new__(cls)
        made.__fields = (None, 0, 0, None, None, None, None, (0, 0), 0.0, 0, 0)
        return made

    def __init__(
        self,
        topic: Any = None,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        key: Any = None,
        value: Any = None,
        headers: Any = None,
        error: Any = None,
        timestamp: tuple[int, int] | None = None,
        latency: float = -1.0,
        leader_epoch: int = -1,
        delivery_count: int = -1,
    ) -> None:
        if not -_MOST_DELIVERIES <= delivery_count < _MOST_DELIVERIES:
            raise OverflowError("delivery_count does not fit into 16 bits")
        _of(self).__fields = (
            topic,
            -1 if partition < 0 else partition,
            OFFSET_INVALID if offset < 0 else offset,
            key,
            value,
            headers,
            error,
            (0, 0) if timestamp is None else timestamp,
            -1.0 if latency < 0 else latency,
            -1 if leader_epoch < 0 else leader_epoch,
            -1 if delivery_count <= 0 else delivery_count,
        )

    def topic(self) -> Any:
        """Return the topic.

        Returns: The topic's name, or None.
        """
        return _of(self).__fields[0]

    def partition(self) -> int | None:
        """Return the partition.

        Returns: The partition's number, or None.
        """
        partition: int = _of(self).__fields[1]
        return None if partition < 0 else partition

    def offset(self) -> int | None:
        """Return the offset.

        Returns: The offset, or None.
        """
        offset: int = _of(self).__fields[2]
        return None if offset < 0 else offset

    def key(self) -> Any:
        """Return the key.

        Returns: The key, or None.
        """
        return _of(self).__fields[3]

    def value(self) -> Any:
        """Return the value, or the text of an error.

        Returns: The value, or None.
        """
        return _of(self).__fields[4]

    def deserialized_key(self) -> Any:
        """Return the key as a deserializing consumer left it.

        Returns: The key, or None.
        """
        return _of(self).__fields[3]

    def deserialized_value(self) -> Any:
        """Return the value as a deserializing consumer left it.

        Returns: The value, or None.
        """
        return _of(self).__fields[4]

    def headers(self) -> Any:
        """Return the headers.

        Returns: A list of names and values, or None.
        """
        return _of(self).__fields[5]

    def error(self) -> Any:
        """Return the error.

        Returns: A KafkaError, or None for a record.
        """
        return _of(self).__fields[6]

    def timestamp(self) -> tuple[int, int]:
        """Return the type of the timestamp and the timestamp.

        Returns: The type, and milliseconds since 1970 UTC.
        """
        timestamp: tuple[int, int] = _of(self).__fields[7]
        return timestamp

    def latency(self) -> float | None:
        """Return the latency of a produced record.

        Returns: Seconds, or None.
        """
        latency: float = _of(self).__fields[8]
        return None if latency < 0 else latency

    def leader_epoch(self) -> int | None:
        """Return the leader epoch.

        Returns: The epoch, or None.
        """
        epoch: int = _of(self).__fields[9]
        return None if epoch < 0 else epoch

    def delivery_count(self) -> int | None:
        """Return how often a share group delivered the record.

        Returns: The count, or None.
        """
        count: int = _of(self).__fields[10]
        return None if count <= 0 else count

    def set_topic(self, topic: Any) -> None:
        """Set the topic.

        Args:
            topic: The topic's name.
        """
        _of(self).__set(0, topic)

    def set_key(self, key: Any) -> None:
        """Set the key.

        Args:
            key: Any value.
        """
        _of(self).__set(3, key)

    def set_value(self, value: Any) -> None:
        """Set the value.

        Args:
            value: Any value.
        """
        _of(self).__set(4, value)

    def set_headers(self, headers: Any) -> None:
        """Set the headers.

        Args:
            headers: A list of names and values.
        """
        _of(self).__set(5, headers)

    def set_error(self, error: Any) -> None:
        """Set the error.

        Args:
            error: A KafkaError.
        """
        _of(self).__set(6, error)

    def __set(self, at: int, value: Any) -> None:
        """Replace a field.

        Args:
            at: The field's place.
            value: The new value.
        """
        fields = self.__fields
        self.__fields = (*fields[:at], value, *fields[at + 1 :])

    def __len__(self) -> int:
        value = self.__fields[4]
        return 0 if value is None else len(value)

    def __eq__(self, other: object) -> bool:
        return self.__fields == other.__fields if isinstance(other, Message) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Message], tuple[Any, ...]]:
        return Message, self.__fields


Message.__module__ = "confluent_kafka.cimpl"


def _of(message: Message) -> Message:
    if not isinstance(message, Message):
        raise TypeError(f"descriptor requires a Message, not {type(message).__name__}")
    return message


def of_record(record: Record) -> Message:
    """The message of a consumed record."""
    kind, epoch, count = record.timestamp_type, record.leader_epoch, record.delivery_count
    return of_fields(
        (
            record.topic,
            record.partition,
            record.offset,
            record.key,
            record.value,
            record.headers or None,
            None,
            (kind + 1, record.timestamp) if kind >= 0 else (TIMESTAMP_NOT_AVAILABLE, -1),
            -1.0,
            -1 if epoch is None else epoch,
            -1 if count is None else count,
        )
    )


def of_fields(fields: tuple[Any, ...]) -> Message:
    """A message of all its fields, unchecked: each record of a program is made so."""
    made = _new(Message)
    made._Message__fields = fields  # type: ignore[attr-defined]
    return made


_new = object.__new__


def of_error(error: KafkaError, topic: str | None = None, partition: int = -1, offset: int = OFFSET_INVALID) -> Message:
    """The message of an error that a consumer's poll returns."""
    text = error.str().encode()
    return Message(topic, partition, offset, None, text, None, error, (TIMESTAMP_NOT_AVAILABLE, -1))
