"""The base of assignors that programs write."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping

from ottla.compat.aiokafka.cluster import ClusterMetadata
from ottla.compat.aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

__all__ = ["AbstractPartitionAssignor"]


class AbstractPartitionAssignor(abc.ABC):
    """Decides which member of a group gets which partitions. Pass the class, or an object of it."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name by which members agree on the assignor."""

    @classmethod
    @abc.abstractmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Assign all partitions. Only the leader of the group is asked.

        Args:
            cluster: Has the partitions of the topics.
            members: The metadata of each member, by its id.
        """

    @classmethod
    @abc.abstractmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """The metadata that this member sends to the leader's assignor.

        Args:
            topics: The topics that it subscribes to.
        """

    @classmethod
    @abc.abstractmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Called with each assignment of this member.

        Args:
            assignment: What it was assigned.
        """
