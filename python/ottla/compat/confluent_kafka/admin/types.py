"""`NewTopic` and `NewPartitions`, which admin clients take."""

from __future__ import annotations

from typing import Any


class _Compared:
    """Values that compare by their fields."""

    def _fields(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __hash__(self) -> int:
        return hash(self._fields()[:1])

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, type(self)) else NotImplemented

    def __lt__(self, other: Any) -> bool:
        return bool(self._fields() < other._fields()) if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return bool(self._fields() <= other._fields()) if isinstance(other, type(self)) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return bool(self._fields() > other._fields()) if isinstance(other, type(self)) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return bool(self._fields() >= other._fields()) if isinstance(other, type(self)) else NotImplemented


class NewTopic(_Compared):
    """A topic to create.

    Args:
        topic: The topic's name.
        num_partitions: The number of partitions; -1 takes the broker's default.
        replication_factor: Replicas of each partition; -1 takes the broker's default.
        replica_assignment: For each partition a list of broker ids, in place of a replication factor.
        config: Properties of the topic.
    """

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: list[list[int]] | None = None,
        config: dict[str, str] | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        for value in (num_partitions, replication_factor):
            if not isinstance(value, int):
                raise TypeError(f"an integer is required, not {type(value).__name__}")
        self.topic = topic
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignment = replica_assignment
        self.config = config

    def _fields(self) -> tuple[Any, ...]:
        """Return what is compared: the topic and its partitions."""
        return self.topic, self.num_partitions

    def __repr__(self) -> str:
        return f"NewTopic(topic={self.topic},num_partitions={self.num_partitions})"

    def __str__(self) -> str:
        return f"NewTopic(topic={self.topic})"


class NewPartitions(_Compared):
    """Partitions to add to a topic.

    Args:
        topic: The topic's name.
        new_total_count: The number of partitions that the topic has afterwards.
        replica_assignment: For each new partition a list of broker ids.
    """

    def __init__(self, topic: str, new_total_count: int, replica_assignment: list[list[int]] | None = None) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        if not isinstance(new_total_count, int):
            raise TypeError(f"an integer is required, not {type(new_total_count).__name__}")
        if new_total_count < 1:
            raise ValueError("new_total_count must be at least 1")
        self.topic = topic
        self.new_total_count = new_total_count
        self.replica_assignment = replica_assignment

    def _fields(self) -> tuple[Any, ...]:
        """Return what is compared: the topic and its partitions."""
        return self.topic, self.new_total_count

    def __repr__(self) -> str:
        return f"NewPartitions(topic={self.topic},new_total_count={self.new_total_count})"


for _class in (NewTopic, NewPartitions):
    _class.__module__ = "confluent_kafka.cimpl"
