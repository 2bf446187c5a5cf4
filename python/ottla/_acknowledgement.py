"""How acknowledgements of a share group ended."""

from __future__ import annotations

from dataclasses import dataclass

from ottla._types import TopicPartition

__all__ = ["Acknowledgement"]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """How the acknowledgement of some records of a share group ended.

    Attributes:
        partition: Their partition.
        offsets: Their offsets.
        kind: Their acknowledgement: "accept", "release", "reject" or "renew".
        error: A `KafkaError` with the reason why it failed, or may have failed; None if it succeeded.
    """

    partition: TopicPartition
    offsets: range
    kind: str
    error: Exception | None
