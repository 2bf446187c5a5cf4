"""Assignors that programs write, as ottla calls them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ottla._assignors import Assignor, GroupMember
from ottla._types import Partition, PartitionInfo, TopicDescription
from ottla.compat.aiokafka.cluster import ClusterMetadata
from ottla.compat.aiokafka.coordinator.assignors._builtin import BuiltinAssignor
from ottla.compat.aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from ottla.compat.aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from ottla.compat.aiokafka.structs import TopicPartition


def strategy(assignors: Iterable[Any]) -> list[str | Assignor]:
    """The value of `partition.assignment.strategy`.

    Raises:
        ValueError: An assignor is neither a class nor an object of `AbstractPartitionAssignor`, or the list is empty.
    """
    found: list[str | Assignor] = []
    for each in assignors:
        kind = each if inspect.isclass(each) else type(each)
        if not (inspect.isclass(kind) and hasattr(kind, "assign") and hasattr(kind, "metadata")):
            raise ValueError(
                f"partition_assignment_strategy takes classes derived from AbstractPartitionAssignor, not {each!r}"
            )
        if issubclass(kind, BuiltinAssignor) and "assign" not in vars(kind):
            found.append(kind.name)
        else:
            found.append(_Bridge(cast("AbstractPartitionAssignor", each() if inspect.isclass(each) else each)))
    if not found:
        raise ValueError("partition_assignment_strategy is empty")
    return found


class _Bridge(Assignor):
    def __init__(self, theirs: AbstractPartitionAssignor) -> None:
        self.name, self._theirs = theirs.name, theirs

    def assign(self, members: Sequence[GroupMember], topics: Mapping[str, int]) -> Mapping[str, Iterable[Partition]]:
        cluster = ClusterMetadata()
        cluster.describe_topics(
            (
                TopicDescription(topic, None, False, [PartitionInfo(number, 0, [0], [0]) for number in range(count)])
                for topic, count in topics.items()
            ),
            is_all=True,
        )
        told = {
            member.member_id: ConsumerProtocolMemberMetadata(0, member.topics, member.user_data or b"")
            for member in members
        }
        assigned = self._theirs.assign(cluster, told)
        return {member: assignment.partitions() for member, assignment in assigned.items()}

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:
        return self._theirs.metadata(topics).user_data or None

    def notify(self, assigned: Iterable[TopicPartition]) -> None:
        """Report an assignment of this member."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(assigned):
            topics.setdefault(topic, []).append(partition)
        self._theirs.on_assignment(ConsumerProtocolMemberAssignment(0, list(topics.items()), b""))


def notify(assignors: Iterable[Assignor], assigned: Iterable[TopicPartition]) -> None:
    """Report an assignment of this member to the program's assignors."""
    for each in assignors:
        if isinstance(each, _Bridge):
            each.notify(assigned)
