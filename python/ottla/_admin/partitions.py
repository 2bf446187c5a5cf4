"""Partitions, their offsets and their replicas."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ListedOffset", "NewPartitions", "PartitionReassignment"]


@dataclass(frozen=True)
class NewPartitions:
    """The partitions that a topic is to have.

    Attributes:
        topic: The topic.
        total: Its number of partitions, with those that it has.
        assignments: The ids of the brokers of each new partition, the preferred leader first; None lets the controller
            choose.
    """

    topic: str
    total: int
    assignments: list[list[int]] | None = None


@dataclass(frozen=True)
class ListedOffset:
    """An offset of a partition's log.

    Attributes:
        offset: The offset; None if there is no such record.
        timestamp: The record's time in milliseconds since 1970 UTC, for a time and for the highest time; otherwise
            None.
        leader_epoch: The epoch of the leader that wrote it; None where brokers do not return it.
    """

    offset: int | None
    timestamp: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True)
class PartitionReassignment:
    """Replicas of a partition that are moving.

    Attributes:
        replicas: The ids of all brokers that have a replica or are to have one.
        adding: The ids of those that are to have one.
        removing: The ids of those that are to lose theirs.
    """

    replicas: list[int]
    adding: list[int]
    removing: list[int]
