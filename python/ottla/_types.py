"""The plain values that calls take and return. All of them can be pickled."""

from __future__ import annotations

import base64
import operator
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias

from ottla._later import uuid

if sys.version_info >= (3, 12):
    from collections.abc import Buffer as Buffer  # noqa: PLC0414 others take it from here
elif TYPE_CHECKING:
    from typing_extensions import Buffer as Buffer  # noqa: PLC0414 others take it from here
else:
    # Python 3.11 has no type for everything that has a buffer.
    Buffer = bytes | bytearray | memoryview

__all__ = [
    "Acknowledgement",
    "BadRecord",
    "ClusterDescription",
    "DelegationToken",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "MemberDescription",
    "NewRecord",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "PreparedTransaction",
    "ProducerState",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicDescription",
    "TopicPartition",
    "TransactionDescription",
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


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """How the acknowledgement of some records of a share group ended.

    Attributes:
        partition: Their partition.
        offsets: Their offsets.
        kind: Their acknowledgement: "accept", "release", "reject" or "renew".
        error: A `KafkaError` with the reason why it failed, or may have failed; None if it succeeded.
    """

    partition: TopicPartition
    offsets: range
    kind: str
    error: Exception | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: Its name.
        partitions: Its number of partitions; -1 takes the broker's default.
        replication: Replicas of each partition; -1 takes the broker's default.
        config: Properties of the topic by Kafka's names, such as `{"retention.ms": 3600000}`.
        assignments: The ids of the brokers of each partition, the preferred leader first; None lets the controller
            choose. With it, `partitions` and `replication` are left out.
    """

    name: str
    partitions: int = 1
    replication: int = -1
    config: Mapping[str, str | int | bool] | None = field(default=None, hash=False)
    assignments: Sequence[Sequence[int]] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write, as the function of `transform` gives it.

    Attributes:
        value: Bytes, a str, or None for a tombstone, as `Producer.send` takes it.
        key: The same of the key, which chooses the partition.
        topic: The topic; None is that of `transform`.
        partition: The partition; None leaves it to the partitioner.
        timestamp: Milliseconds since 1970 UTC, or a datetime with a time zone; None is the time of sending.
        headers: A dict, or a list of pairs.
    """

    value: Data | None
    key: Data | None = None
    topic: str | None = None
    partition: int | None = None
    timestamp: int | datetime | None = None
    headers: Headers | None = None


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


@dataclass(frozen=True, slots=True)
class Node:
    """A broker of a cluster.

    Attributes:
        id: Its id.
        host: The host that it advertises.
        port: The port that it advertises.
        rack: Its `broker.rack`, if it has one.
        is_fenced: Whether it is fenced: registered with the controller, but not in service (KIP-1073).
    """

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster as one of its brokers describes it.

    Attributes:
        cluster_id: Its id; None if the brokers are older than Kafka 0.10.1.
        controller: Its controller; None if there is no controller at the moment. In KRaft mode it is any broker,
            which forwards requests to the controller.
        nodes: Its brokers, by their ids.
        authorized_operations: The operations on the cluster that the client is authorized for, such as `"DESCRIBE"`
            and `"ALTER_CONFIGS"`; None if the call did not request them, or the broker is too old to return them.
    """

    cluster_id: str | None
    controller: Node | None
    nodes: list[Node]
    authorized_operations: frozenset[str] | None = None


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


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group.

    Attributes:
        member_id: The id that the coordinator gave it.
        group_instance_id: Its `group.instance.id` if it is a static member (KIP-345).
        client_id: Its `client.id`.
        client_host: Where it connects from, such as `"/127.0.0.1"`.
        assignment: The partitions that it was assigned, sorted, in a group of consumers; None if the group has another
            protocol, or if the assignment does not decode.
        metadata: The metadata that it sent when it joined, in the form of the group's protocol. `ottla.protocol`
            decodes it: for consumers a `ConsumerProtocolSubscription` behind two bytes of its version. Empty in a group
            of the consumer protocol.
        assignment_data: What it was assigned, in the form of the group's protocol: for consumers a
            `ConsumerProtocolAssignment` behind two bytes of its version. Empty in a group of the consumer protocol.
        subscribed_topics: The topics that it subscribes to by name, sorted, in a group of consumers; None if its
            metadata does not decode.
        subscribed_pattern: The regular expression that it has the coordinator match, if there is one (KIP-848).
        rack: Its `client.rack`.
        epoch: Its epoch, in a group of the consumer protocol (KIP-848).
        target_assignment: The partitions that it is to have, sorted, in a group of the consumer protocol. Those that
            it does not have yet are still to be revoked by other members, or come with its next heartbeat.
        is_upgraded: Whether it speaks the consumer protocol itself, in a group of that protocol; None where brokers do
            not return it (before Kafka 4.0, KIP-1099).
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: list[TopicPartition] | None
    metadata: bytes = field(repr=False)
    assignment_data: bytes = field(repr=False)
    subscribed_topics: list[str] | None = None
    subscribed_pattern: str | None = None
    rack: str | None = None
    epoch: int | None = None
    target_assignment: list[TopicPartition] | None = None
    is_upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group of the classic or of the consumer protocol (KIP-848) as its coordinator describes it.

    Attributes:
        group_id: Its id.
        state: Its state: `"Empty"`, `"PreparingRebalance"`, `"CompletingRebalance"`, `"Stable"` or `"Dead"`; with the
            consumer protocol `"Empty"`, `"Assigning"`, `"Reconciling"`, `"Stable"` or `"Dead"`.
        protocol_type: What its members do, such as `"consumer"`; empty if it only has committed offsets.
        protocol: The protocol that its members agreed on, for consumers the assignor, such as `"range"`; empty until
            they did.
        members: Its members, by their ids.
        epoch: Grows with each change of the members or of their topics; None in a group of the classic protocol.
        assignment_epoch: The epoch that the target assignment is for; None in a group of the classic protocol.
        coordinator: The id of the broker that coordinates it.
        authorized_operations: The operations on the group that the client is authorized for, such as `"DELETE"`; None
            if the call did not request them, or the broker is too old to return them.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: list[MemberDescription]
    epoch: int | None = None
    assignment_epoch: int | None = None
    coordinator: int | None = None
    authorized_operations: frozenset[str] | None = None

    @property
    def type(self) -> Literal["classic", "consumer", "share"]:
        """The group's protocol: a member assigns, or the coordinator (KIP-848), also to several members (KIP-932)."""
        if self.protocol_type == "share":
            return "share"
        return "classic" if self.epoch is None else "consumer"


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


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """The name of a prepared transaction (KIP-939), to be kept by whoever decides how the transaction ends.

    `str()` of it is the text of Java's `PreparedTxnState`, `producerId:epoch`, and `parse` reads that. It pickles.

    Attributes:
        producer_id: The id of the producer whose records are in the transaction.
        epoch: That producer's epoch.

    Raises:
        ValueError: The id or the epoch is negative, or too large.
    """

    producer_id: int
    epoch: int

    def __post_init__(self) -> None:
        if not (0 <= self.producer_id < 2**63 and 0 <= self.epoch < 2**15):
            raise ValueError(f"{self.producer_id}:{self.epoch} is no prepared transaction: both are 0 or more")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `producerId:epoch`.

        Args:
            text: What `str()` of a `PreparedTransaction`, or of Java's `PreparedTxnState`, gave.

        Returns:
            The name of the transaction.

        Raises:
            ValueError: The text is something else.
        """
        found = re.fullmatch(r"(\d+):(\d+)", text, re.ASCII)
        if found is None:
            raise ValueError(f"a prepared transaction is written as producerId:epoch, as in 42:7, not as {text!r}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator describes it.

    Attributes:
        transactional_id: The transactional id.
        state: The state of its last transaction: `"Empty"`, `"Ongoing"`, `"PrepareCommit"`, `"PrepareAbort"`,
            `"CompleteCommit"`, `"CompleteAbort"`, `"PrepareEpochFence"` or `"Dead"`.
        producer_id: The producer's id.
        producer_epoch: The producer's epoch.
        timeout: How long a transaction may stay open, in milliseconds.
        started: When the open transaction began, in milliseconds since 1970 UTC; None if none is open.
        partitions: The partitions of the open transaction, sorted.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout: int
    started: int | None
    partitions: list[TopicPartition]


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token (KIP-48): a name and a password for SCRAM that stand for its owner.

    A client that authenticates with it has `sasl_mechanism="SCRAM-SHA-256"` (or 512) and
    `sasl_jaas_config=token.login()`.

    Attributes:
        id: Its id: the user name of who authenticates with it.
        hmac: Its HMAC, a secret, which no repr shows.
        owner: Type and name of whom it stands for, such as `("User", "alice")`.
        requester: Type and name of who asked for it; None where brokers do not return it (before Kafka 3.3).
        renewers: Types and names of who may renew it, besides its owner.
        issued: When it was made, in milliseconds since 1970 UTC.
        expires: When it ends unless it is renewed, in milliseconds since 1970 UTC.
        ends: When it ends at the latest, in milliseconds since 1970 UTC.
    """

    id: str
    hmac: bytes = field(repr=False)
    owner: tuple[str, str]
    requester: tuple[str, str] | None
    renewers: list[tuple[str, str]]
    issued: int
    expires: int
    ends: int

    def login(self) -> str:
        """Make the `sasl.jaas.config` of a client that authenticates with this token.

        Returns:
            The value, which holds the secret.
        """
        password = base64.b64encode(self.hmac).decode()
        return f'ScramLoginModule required username="{self.id}" password="{password}" tokenauth="true";'


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
