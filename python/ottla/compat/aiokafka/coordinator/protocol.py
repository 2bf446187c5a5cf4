"""What assignors receive and return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.compat.aiokafka.structs import TopicPartition

__all__ = ["ConsumerProtocolMemberAssignment", "ConsumerProtocolMemberMetadata"]


@dataclass
class ConsumerProtocolMemberMetadata:
    """The metadata that a member sends to the assignor.

    Attributes:
        version: The version of the protocol.
        subscription: The topics that it subscribes to.
        user_data: What its own assignor adds.
    """

    version: int
    subscription: list[str]
    user_data: bytes


class _Assignment(NamedTuple):
    topic: str
    partitions: list[int]


@dataclass
class ConsumerProtocolMemberAssignment:
    """What a member is assigned.

    Attributes:
        version: The version of the protocol.
        assignment: Pairs of a topic and numbers of partitions.
        user_data: Data from the leader's assignor for the member's assignor.
    """

    version: int
    assignment: Iterable[tuple[str, list[int]]]
    user_data: bytes

    def partitions(self) -> list[TopicPartition]:
        """The partitions one by one."""
        return [TopicPartition(topic, each) for topic, partitions in self.assignment for each in partitions]


ConsumerProtocolMemberAssignment.Assignment = _Assignment  # type: ignore[attr-defined]
