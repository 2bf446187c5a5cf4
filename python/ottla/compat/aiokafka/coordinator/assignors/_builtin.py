"""aiokafka's own assignors, which ottla's core has under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from ottla.compat.aiokafka.cluster import ClusterMetadata
from ottla.compat.aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from ottla.compat.aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)


class BuiltinAssignor(AbstractPartitionAssignor):
    """Stands for an assignor of ottla's core, which assigns where programs cannot see it."""

    name = ""

    @classmethod
    def assign(cls, _cluster: ClusterMetadata, _members: Mapping[str, ConsumerProtocolMemberMetadata]) -> NoReturn:
        """Not supported: ottla's core assigns.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{cls.__name__}.assign: the assignor {cls.name!r} runs in ottla's core")

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """The metadata that a member sends to the leader.

        Args:
            topics: The topics that it subscribes to.
        """
        return ConsumerProtocolMemberMetadata(0, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Nothing.

        Args:
            assignment: What was assigned.
        """
