"""`NewPartitions`."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["NewPartitions"]


class NewPartitions:
    """How many partitions a topic is to have.

    Args:
        total_count: The number of all its partitions.
        new_assignments: The brokers of each new partition's replicas.
    """

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments
