"""The cluster: its brokers, its features, and the quorum of its controllers."""

from __future__ import annotations

from dataclasses import dataclass

from ottla._later import uuid

__all__ = [
    "ClusterDescription",
    "FeatureLevels",
    "FeatureMetadata",
    "FeatureUpdate",
    "Node",
    "QuorumInfo",
    "QuorumNode",
    "QuorumReplica",
    "RaftEndpoint",
]


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


@dataclass(frozen=True)
class FeatureLevels:
    """Levels of a feature.

    Attributes:
        min: The lowest.
        max: The highest.
    """

    min: int
    max: int


@dataclass(frozen=True)
class FeatureMetadata:
    """The features of a cluster (KIP-584).

    Attributes:
        finalized: Those that the cluster has agreed on, by name.
        epoch: The epoch of these; None if the broker returns none.
        supported: Those that the broker could do, by name.
    """

    finalized: dict[str, FeatureLevels]
    epoch: int | None
    supported: dict[str, FeatureLevels]


@dataclass(frozen=True)
class FeatureUpdate:
    """The level that a feature is to have.

    Attributes:
        feature: Its name, such as `"share.version"`.
        level: The level; 0 removes the feature.
        upgrade_type: `"UPGRADE"`; `"SAFE_DOWNGRADE"` if the level may become lower, or `"UNSAFE_DOWNGRADE"` if metadata
            may get lost by that.
    """

    feature: str
    level: int
    upgrade_type: str = "UPGRADE"


@dataclass(frozen=True)
class RaftEndpoint:
    """Where a controller can be reached.

    Attributes:
        name: The listener's name, such as `"CONTROLLER"`.
        host: The host.
        port: The port.
    """

    name: str
    host: str
    port: int


@dataclass(frozen=True)
class QuorumNode:
    """A controller.

    Attributes:
        id: Its id.
        endpoints: Where it can be reached.
    """

    id: int
    endpoints: list[RaftEndpoint]


@dataclass(frozen=True)
class QuorumReplica:
    """A controller or a broker that copies the cluster's metadata.

    Attributes:
        id: Its id.
        directory_id: The id of its folder; None where brokers return none (before Kafka 3.9).
        log_end_offset: The offset after its last record.
        last_fetch_timestamp: When it last fetched, in milliseconds since 1970 UTC; None if it is not known.
        last_caught_up_timestamp: When it had last caught up, in milliseconds since 1970 UTC; None if it is not known.
    """

    id: int
    directory_id: uuid.UUID | None
    log_end_offset: int
    last_fetch_timestamp: int | None = None
    last_caught_up_timestamp: int | None = None


@dataclass(frozen=True)
class QuorumInfo:
    """The quorum of the controllers (KIP-595).

    Attributes:
        leader_id: The id of the leader, the active controller.
        leader_epoch: Its epoch.
        high_watermark: The offset up to which a majority has the metadata.
        voters: The controllers that vote.
        observers: Those that only copy: brokers, and controllers that do not vote.
        nodes: The voters' listeners; empty where brokers do not return them (before Kafka 3.9).
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    nodes: list[QuorumNode]
