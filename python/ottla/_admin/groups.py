"""Groups and their members, how far they are behind, where share groups begin, and groups of Kafka Streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ottla._types import TopicPartition

__all__ = [
    "GroupDescription",
    "GroupLag",
    "MemberDescription",
    "OffsetReset",
    "ShareGroupOffset",
    "StreamsGroupDescription",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTasks",
    "StreamsTopic",
]


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


@dataclass(frozen=True)
class GroupLag:
    """How far a group is behind in a partition.

    Attributes:
        group: The group.
        topic: The topic.
        partition: The partition.
        committed: The offset of the next record that the group reads; None if it committed none.
        start_offset: The first offset of the log.
        end_offset: The offset after the last record.
        lag: How many offsets are between `committed` and `end_offset`; None if it committed none.
        member_id: The member that reads the partition, if one does.
        client_id: That member's `client.id`.
        client_host: Where that member connects from.
    """

    group: str
    topic: str
    partition: int
    committed: int | None
    start_offset: int
    end_offset: int
    lag: int | None
    member_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None


@dataclass(frozen=True)
class OffsetReset:
    """An offset of a group that moves.

    Attributes:
        topic: The topic.
        partition: The partition.
        old_offset: The offset before; None if there was none.
        new_offset: The offset after.
    """

    topic: str
    partition: int
    old_offset: int | None
    new_offset: int


@dataclass(frozen=True)
class ShareGroupOffset:
    """Where a share group begins to read a partition.

    Attributes:
        start_offset: The first offset that is not done with; None if the group has not begun.
        leader_epoch: The leader epoch of the partition; None if it is not known.
        lag: How many records are not done with; None where brokers do not return it (before Kafka 4.2).
    """

    start_offset: int | None
    leader_epoch: int | None = None
    lag: int | None = None


@dataclass(frozen=True)
class StreamsTopic:
    """A topic that a subtopology has for itself.

    Attributes:
        name: Its name.
        partitions: Its number of partitions; 0 leaves it to the brokers.
        replication: Replicas of each partition; 0 is the broker's default.
    """

    name: str
    partitions: int
    replication: int


@dataclass(frozen=True)
class StreamsSubtopology:
    """A part of a topology whose tasks can run apart from those of other parts.

    Attributes:
        id: Its id.
        source_topics: The topics that it reads.
        repartition_sink_topics: The topics that it writes for other parts.
        state_changelog_topics: The topics that keep its state.
        repartition_source_topics: The topics that it reads from other parts.
    """

    id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    state_changelog_topics: list[StreamsTopic]
    repartition_source_topics: list[StreamsTopic]


@dataclass(frozen=True)
class StreamsTasks:
    """Tasks of a member. A task is a subtopology's id and a partition.

    Attributes:
        active: Those that it runs.
        standby: Those whose state it keeps up to date.
        warmup: Those whose state it builds, to run them later.
    """

    active: list[tuple[str, int]] = field(default_factory=list)
    standby: list[tuple[str, int]] = field(default_factory=list)
    warmup: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class StreamsMember:
    """A member of a group of Kafka Streams.

    Attributes:
        member_id: The id that it gave itself.
        epoch: Its epoch.
        group_instance_id: Its `group.instance.id` if it is a static member.
        rack: Its `client.rack`.
        client_id: Its `client.id`.
        client_host: Where it connects from.
        topology_epoch: The epoch of the topology that it runs.
        process_id: The id of its process.
        endpoint: `host:port` that it offers for queries.
        tasks: Its tasks.
        target_tasks: The tasks that it is to have.
    """

    member_id: str
    epoch: int
    group_instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    endpoint: str | None
    tasks: StreamsTasks
    target_tasks: StreamsTasks


@dataclass(frozen=True)
class StreamsGroupDescription:
    """A group of Kafka Streams (KIP-1071) as its coordinator describes it.

    Attributes:
        group_id: Its id.
        state: Its state, such as `"Stable"` or `"NotReady"`.
        epoch: Its epoch.
        assignment_epoch: The epoch that the target assignment is for.
        topology_epoch: The epoch of its topology; None before a member sent one.
        subtopologies: The parts of its topology.
        members: Its members, by their ids.
        coordinator: The id of the broker that coordinates it.
        authorized_operations: The operations that the client is authorized for; None if the call did not request them.
    """

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    subtopologies: list[StreamsSubtopology]
    members: list[StreamsMember]
    coordinator: int | None = None
    authorized_operations: frozenset[str] | None = None
