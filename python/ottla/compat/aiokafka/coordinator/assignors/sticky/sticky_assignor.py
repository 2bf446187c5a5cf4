"""The assignor `sticky`."""

from __future__ import annotations

from ottla.compat.aiokafka.coordinator.assignors._builtin import BuiltinAssignor

__all__ = ["StickyPartitionAssignor"]


class StickyPartitionAssignor(BuiltinAssignor):
    """As evenly as possible, and with few moves."""

    name = "sticky"
