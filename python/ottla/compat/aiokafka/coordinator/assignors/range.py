"""The assignor `range`."""

from __future__ import annotations

from ottla.compat.aiokafka.coordinator.assignors._builtin import BuiltinAssignor

__all__ = ["RangePartitionAssignor"]


class RangePartitionAssignor(BuiltinAssignor):
    """Topic by topic a range of partitions to each member."""

    name = "range"
