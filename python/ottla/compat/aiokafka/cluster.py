"""The metadata of a cluster, as the last responses described it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla._admin.cluster import ClusterDescription
from ottla._types import TopicDescription
from ottla.compat.aiokafka.structs import BrokerMetadata, PartitionMetadata, TopicPartition

__all__ = ["ClusterMetadata"]


class ClusterMetadata:
    """Brokers, topics and partitions.

    Attributes:
        controller: The controller, if there is one.
        internal_topics: The names of Kafka's internal topics.
        unauthorized_topics: Empty: ottla raises instead.
    """

    def __init__(self, **_configs: Any) -> None:
        self.controller: BrokerMetadata | None = None
        self.internal_topics: set[str] = set()
        self.unauthorized_topics: set[str] = set()
        self._brokers: dict[int | str, BrokerMetadata] = {}
        self._partitions: dict[str, dict[int, PartitionMetadata]] = {}

    def describe_cluster(self, found: ClusterDescription) -> None:
        """Take brokers and controller from a description."""
        self._brokers = {node.id: BrokerMetadata(node.id, node.host, node.port, node.rack) for node in found.nodes}
        self.controller = self._brokers.get(found.controller.id) if found.controller is not None else None

    def describe_topics(self, found: Iterable[TopicDescription], *, is_all: bool) -> None:
        """Take topics from their descriptions; with `is_all` no others exist."""
        if is_all:
            self._partitions, self.internal_topics = {}, set()
        for topic in found:
            if topic.internal:
                self.internal_topics.add(topic.name)
            self._partitions[topic.name] = {
                each.partition: PartitionMetadata(
                    topic.name, each.partition, each.leader, list(each.replicas), list(each.in_sync), None
                )
                for each in topic.partitions
            }

    def brokers(self) -> set[BrokerMetadata]:
        """All brokers."""
        return set(self._brokers.values())

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """A broker by its id; None if it is not known."""
        return self._brokers.get(broker_id)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of a topic's partitions; None if the topic is not known."""
        found = self._partitions.get(topic)
        return None if found is None else set(found)

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Those of a topic's partitions that have a leader; None if the topic is not known."""
        found = self._partitions.get(topic)
        return None if found is None else {number for number, each in found.items() if each.leader != -1}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """The id of a partition's leader; -1 if it has no leader, None if the partition is not known."""
        found = self._partitions.get(partition.topic, {}).get(partition.partition)
        return None if found is None else found.leader

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """The names of the topics."""
        known = set(self._partitions)
        return known - self.internal_topics if exclude_internal_topics else known
