"""Transactions that hang."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HangingTransaction"]


@dataclass(frozen=True)
class HangingTransaction:
    """A transaction that is open in a partition and that no coordinator will end. `abort_transaction` ends it.

    Attributes:
        topic: The topic.
        partition: The partition.
        producer_id: The producer's id.
        producer_epoch: The producer's epoch.
        coordinator_epoch: The epoch of the coordinator of its last transaction; -1 if it had none.
        start_offset: The offset where it begins.
        last_timestamp: The time of its last batch, in milliseconds since 1970 UTC.
        transactional_id: The producer's transactional id, if a coordinator knows the producer.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    transactional_id: str | None = None
