"""The plain values that calls take and return. All of them can be pickled."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from ottla._later import uuid

if sys.version_info >= (3, 12):
    from collections.abc import Buffer as Buffer  # noqa: PLC0414 others take it from here
elif TYPE_CHECKING:
    from typing_extensions import Buffer as Buffer  # noqa: PLC0414 others take it from here
else:
    # Python 3.11 has no type for everything that has a buffer.
    Buffer = bytes | bytearray | memoryview

__all__ = [
    "BadRecord",
    "FencedProducer",
    "GroupListing",
    "GroupMetadata",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "ProducerState",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicDescription",
    "TopicPartition",
    "TransactionListing",
]
"""The public ones: `ottla` has them all."""

Data: TypeAlias = Buffer | str
"""A key or a value that is sent."""
Headers: TypeAlias = Mapping[str, Data | None] | Iterable[tuple[str, Data | None]]
"""Headers that are sent with a record."""


class TopicPartition(tuple[str, int]):  # noqa: SLOT001 tuples have no slots for the offset
    """A partition of a topic, with an offset where a call wants one.

    It is the pair `(topic, partition)`: it unpacks, sorts and compares like that pair, whatever its offset. Either one
    finds the entry in a dictionary.

    Attributes:
        topic: The topic's name.
        partition: The partition's number, from 0.
        offset: Where to start, for `Consumer.assign` and `Consumer.seek`.

    Raises:
        TypeError: The topic is not a str, or the partition or the offset not an int.
    """

    __match_args__ = ("topic", "partition", "offset")

    def __new__(cls, topic: str, partition: int, offset: int | None = None) -> Self:
        """Make the pair, after a check of the types."""
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        made = super().__new__(cls, (topic, _int("partition", partition)))
        made.__dict__["offset"] = None if offset is None else _int("offset", offset)
        return made

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self[0]

    @property
    def partition(self) -> int:
        """The partition's number, from 0."""
        return self[1]

    @property
    def offset(self) -> int | None:
        """Where to start."""
        offset: int | None = self.__dict__["offset"]
        return offset

    def __repr__(self) -> str:
        offset = "" if self.offset is None else f", offset={self.offset}"
        return f"TopicPartition(topic={self.topic!r}, partition={self.partition}{offset})"

    def __getnewargs__(self) -> tuple[str, int, int | None]:
        return self.topic, self.partition, self.offset


Partition: TypeAlias = TopicPartition | tuple[str, int]
"""A partition that a call is about."""


def _int(field: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{field} must be an int, not {type(value).__name__}") from None


class RecordMetadata(NamedTuple):
    """Where a record was written.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The record's offset; -1 if the broker did not say, as with `acks=0`.
        timestamp: Milliseconds since 1970 UTC: the record's own, or the broker's where the topic's
            `message.timestamp.type` is LogAppendTime; -1 from brokers before 0.10, which keep none.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class BadRecord(NamedTuple):
    """A record that does not decode.

    Attributes:
        row: Its place in the batch that was decoded: `batch[bad.row]` is the record with its key, time and headers.
        topic: The topic's name.
        partition: The partition's number.
        offset: The record's offset.
        column: Where in the schema, such as `"order.items[3].price"`; empty if it is the value as a whole.
        reason: What is wrong, in one sentence.
        value: The bytes that do not decode; None if a column that cannot be null stands against a missing value.
    """

    row: int
    topic: str
    partition: int
    offset: int
    column: str
    reason: str
    value: bytes | None


class SubscriptionPattern(str):
    """A regular expression to subscribe by, which the group's coordinator matches with names of topics (KIP-848).

    It is one of RE2, which only brokers read, and has to match a topic's whole name. It needs
    `group.protocol=consumer` or `auto`, and brokers since Kafka 4.0; `re.compile(...)` makes a pattern that the
    consumer matches itself, with any brokers.

    Example:
        ```python
        consumer = ottla.Consumer("localhost:9092", group_id="enrichers", group_protocol="consumer")
        consumer.subscribe(ottla.SubscriptionPattern("flights-[a-z]+"))
        ```
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"SubscriptionPattern({super().__repr__()})"


class _Member(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


class GroupMetadata(_Member):
    """The identity of a consumer in its group, from `Consumer.group_metadata`.

    It also keeps which topics the consumer has read so far: so `Producer.send_offsets` commits no offset of a deleted
    topic to another one that was created under its name.

    Attributes:
        group_id: The group.
        generation: The group's generation of the consumer's last assignment; -1 before the first. With the consumer
            protocol (KIP-848) the member's epoch, which grows without a new assignment, too.
        member_id: The id that the group's coordinator gave it, or that it chose; empty before the first assignment.
        group_instance_id: Its `group.instance.id` if it is a static member (KIP-345).
    """

    # Topic, partition, the topic's id, and the offset of the next record. They are no part of who the consumer is.
    _reads: tuple[tuple[str, int, bytes, int], ...] = ()


class OffsetAndMetadata(NamedTuple):
    """An offset of a group, with the metadata that the group stores with it.

    Attributes:
        offset: The offset of the next record to read.
        metadata: Any text.
        leader_epoch: The leader epoch of the record before it; None if it is not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


Offsets: TypeAlias = (
    Mapping[TopicPartition, int]
    | Mapping[TopicPartition, OffsetAndMetadata]
    | Mapping[tuple[str, int], int]
    | Mapping[tuple[str, int], OffsetAndMetadata]
)
"""By partition, the offset of the next record to read."""


class OffsetAndTimestamp(NamedTuple):
    """An offset that was found by its time.

    Attributes:
        offset: The offset.
        timestamp: The record's time, in milliseconds since 1970 UTC.
    """

    offset: int
    timestamp: int


class PartitionInfo(NamedTuple):
    """A partition as brokers describe it.

    Attributes:
        partition: Its number.
        leader: The broker id of its leader; -1 while it has no leader.
        replicas: Ids of the brokers that hold a replica.
        in_sync: Ids of those whose replica is in sync.
    """

    partition: int
    leader: int
    replicas: list[int]
    in_sync: list[int]


class ProducerState(NamedTuple):
    """A producer as the leader of a partition knows it.

    Attributes:
        producer_id: The producer's id.
        producer_epoch: The producer's epoch.
        last_sequence: The sequence number of its last record; -1 if it wrote none.
        last_timestamp: The time of its last batch, in milliseconds since 1970 UTC; -1 if it wrote none.
        coordinator_epoch: The epoch of the coordinator of its last transaction; -1 if it had none.
        current_transaction_start_offset: The first offset of its open transaction; None if none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int | None


class GroupListing(NamedTuple):
    """A group as its coordinator lists it.

    Attributes:
        group_id: Its id.
        protocol_type: What its members do, such as `"consumer"` or `"connect"`; empty if it only has committed offsets.
        state: Its state, such as `"Stable"`; None where brokers do not return it (before Kafka 2.6).
        type: Its type, such as `"classic"` or `"consumer"`; None where brokers do not return it (before Kafka 3.8).
    """

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it.

    Attributes:
        transactional_id: The transactional id.
        producer_id: The producer's id.
        state: The state of its last transaction, such as `"Ongoing"`.
    """

    transactional_id: str
    producer_id: int
    state: str


class FencedProducer(NamedTuple):
    """Who a transactional id's producer would be, after the one before was fenced.

    Attributes:
        producer_id: The producer's id.
        producer_epoch: The producer's epoch.
    """

    producer_id: int
    producer_epoch: int


class TopicDescription(NamedTuple):
    """A topic as brokers describe it.

    Attributes:
        name: Its name.
        id: Its id; None where brokers have none (before Kafka 2.8).
        internal: Whether it is one of Kafka's internal topics.
        partitions: Its partitions, in order.
        authorized_operations: The operations on the topic that the client is authorized for, such as `"READ"`; None if
            the call did not request them.
    """

    name: str
    id: uuid.UUID | None
    internal: bool
    partitions: list[PartitionInfo]
    authorized_operations: frozenset[str] | None = None
