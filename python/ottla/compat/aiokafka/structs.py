"""The values that calls take and return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ottla.compat.aiokafka.errors import KafkaError

__all__ = [
    "BrokerMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "RecordMetadata",
    "TopicPartition",
]
KT = TypeVar("KT")
VT = TypeVar("VT")


class TopicPartition(NamedTuple):
    """A partition of a topic.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
    """

    topic: str
    partition: int


class BrokerMetadata(NamedTuple):
    """A broker.

    Attributes:
        nodeId: Its id.
        host: The host that it advertises.
        port: The port that it advertises.
        rack: Its rack, if it has one.
    """

    nodeId: int | str
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """A partition as the metadata describe it.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        leader: The id of its leader; -1 if it has none.
        replicas: The ids of the brokers with a replica.
        isr: The ids of the brokers whose replica is in sync.
        error: What is wrong with the partition.
    """

    topic: str
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    error: KafkaError | None


class OffsetAndMetadata(NamedTuple):
    """A committed offset.

    Attributes:
        offset: The offset of the next record to read.
        metadata: A text that is stored with it.
    """

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """An offset that was found by its time.

    Attributes:
        offset: The offset.
        timestamp: The record's time in milliseconds since 1970 UTC.
    """

    offset: int
    timestamp: int | None


class RecordMetadata(NamedTuple):
    """Where a record was written.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        topic_partition: Both.
        offset: The record's offset; -1 if the broker does not report it.
        timestamp: The record's time in milliseconds since 1970 UTC.
        timestamp_type: 1 if the broker replaced the time that the record was sent with, else 0.
        log_start_offset: None: ottla does not report it.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None


@dataclass
class ConsumerRecord(Generic[KT, VT]):
    """A record that was read.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The record's offset.
        timestamp: Its time in milliseconds since 1970 UTC.
        timestamp_type: 0 if the producer set the time, 1 if the broker did.
        key: The key, after `key_deserializer`.
        value: The value, after `value_deserializer`.
        checksum: None.
        serialized_key_size: Bytes of the key; -1 without a key.
        serialized_value_size: Bytes of the value; -1 without a value.
        headers: Pairs of a name and a value.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: KT | None
    value: VT | None
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    headers: Sequence[tuple[str, bytes | None]]
