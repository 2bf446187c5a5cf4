"""Transactions, and those that hang."""

from __future__ import annotations

from dataclasses import dataclass

from ottla._types import TopicPartition

__all__ = ["HangingTransaction", "TransactionDescription"]


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator describes it.

    Attributes:
        transactional_id: The transactional id.
        state: The state of its last transaction: `"Empty"`, `"Ongoing"`, `"PrepareCommit"`, `"PrepareAbort"`,
            `"CompleteCommit"`, `"CompleteAbort"`, `"PrepareEpochFence"` or `"Dead"`.
        producer_id: The producer's id.
        producer_epoch: The producer's epoch.
        timeout: How long a transaction may stay open, in milliseconds.
        started: When the open transaction began, in milliseconds since 1970 UTC; None if none is open.
        partitions: The partitions of the open transaction, sorted.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout: int
    started: int | None
    partitions: list[TopicPartition]


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
