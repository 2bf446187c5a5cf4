"""The default partitioner: murmur2 of the key as Java's client, and a random partition without a key."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ottla.compat.confluent_kafka.functions import murmur2_of as murmur2

__all__ = ["DefaultPartitioner", "murmur2"]


class DefaultPartitioner:
    """The default of `partitioner`. A subclass, or any other function of the same arguments, takes its place."""

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        """Choose a partition.

        Args:
            key: The serialized key.
            all_partitions: The numbers of all partitions, in order.
            available: Those that have a leader.

        Returns: The number of a partition.
        """
        if key is None:
            return random.choice(available or all_partitions)  # noqa: S311 it spreads records
        return all_partitions[(murmur2(bytes(key)) & 0x7FFFFFFF) % len(all_partitions)]
