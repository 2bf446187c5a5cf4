"""`NewTopic`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["NewTopic"]


class NewTopic:
    """A topic to create.

    Args:
        name: Its name.
        num_partitions: Its number of partitions; -1 takes the broker's default.
        replication_factor: Replicas of each partition; -1 takes the broker's default.
        replica_assignments: The brokers of each partition's replicas, by its number.
        topic_configs: Properties of the topic by Kafka's names.
    """

    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = dict(replica_assignments or {})
        self.topic_configs = dict(topic_configs or {})
