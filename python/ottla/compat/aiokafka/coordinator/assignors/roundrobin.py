"""The assignor `roundrobin`."""

from __future__ import annotations

from ottla.compat.aiokafka.coordinator.assignors._builtin import BuiltinAssignor

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(BuiltinAssignor):
    """Partition by partition to the next member."""

    name = "roundrobin"
