"""Topics to create."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["NewTopic"]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: Its name.
        partitions: Its number of partitions; -1 takes the broker's default.
        replication: Replicas of each partition; -1 takes the broker's default.
        config: Properties of the topic by Kafka's names, such as `{"retention.ms": 3600000}`.
        assignments: The ids of the brokers of each partition, the preferred leader first; None lets the controller
            choose. With it, `partitions` and `replication` are left out.
    """

    name: str
    partitions: int = 1
    replication: int = -1
    config: Mapping[str, str | int | bool] | None = field(default=None, hash=False)
    assignments: Sequence[Sequence[int]] | None = field(default=None, hash=False)
