"""Folders of brokers' logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla._rows import Rows

__all__ = ["LogDir", "LogDirReplica", "ReplicaLogDir", "TopicPartitionReplica", "TopicSize"]


@dataclass(frozen=True, order=True)
class TopicPartitionReplica:
    """A replica of a partition.

    Attributes:
        topic: The topic.
        partition: The partition.
        broker: The id of the broker.
    """

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True)
class LogDirReplica:
    """A replica in a folder.

    Attributes:
        topic: The topic.
        partition: The partition.
        size: The size of its log, in bytes.
        offset_lag: How many records it is behind the high watermark; or, if it is a future one, behind the replica that
            it will replace.
        is_future: Whether it will replace the replica in another folder of the broker.
    """

    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool = False


@dataclass(frozen=True)
class LogDir:
    """A folder of a broker's logs.

    Attributes:
        path: Its path.
        error: Kafka's name of the error for which it cannot be used; None if it can.
        replicas: Its replicas, by topic and partition.
        total_bytes: The size of its volume; None where brokers do not return it (before Kafka 3.3).
        usable_bytes: What is left of it.
        is_cordoned: Whether no new replica is put there (KIP-1066).
    """

    path: str
    error: str | None
    replicas: Rows[LogDirReplica] = field(repr=False)
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False


@dataclass(frozen=True)
class ReplicaLogDir:
    """Where a replica is.

    Attributes:
        path: Its folder; None if the broker has no such replica.
        offset_lag: How many records it is behind.
        future_path: The folder that it moves to; None if it does not move.
        future_offset_lag: How many records the replica there is behind this one.
    """

    path: str | None
    offset_lag: int | None = None
    future_path: str | None = None
    future_offset_lag: int | None = None


@dataclass(frozen=True)
class TopicSize:
    """What the logs of a topic take on all brokers.

    Attributes:
        topic: The topic.
        partitions: Its number of partitions.
        replicas: Its number of replicas.
        bytes: Bytes of all replicas.
        unique_bytes: Bytes of the largest replica of each partition, together.
    """

    topic: str
    partitions: int
    replicas: int
    bytes: int
    unique_bytes: int
