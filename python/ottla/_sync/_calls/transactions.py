# Written by scripts/unasync.py from python/ottla/aio/_calls/transactions.py. Change that file, and run the script.
"""Transactions."""

from __future__ import annotations

from collections.abc import Iterable
from time import time

from ottla import _admin as results
from ottla import _ottla
from ottla._numbers import milliseconds
from ottla._types import FencedProducer, Partition, TransactionListing


class Transactions:
    """Calls about transactions."""

    __slots__ = ()
    _core: _ottla.AdminCore

    def list_transactions(
        self,
        *,
        states: str | Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than: float | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> results.Rows[TransactionListing]:
        """List the transactional ids that this client may describe (KIP-664, Kafka 3.0 and later).

        Every broker returns those that it coordinates.

        Args:
            states: Only those whose last transaction is in one of these states, such as `"Ongoing"`.
            producer_ids: Only those of these producers.
            longer_than: Only those whose transaction is open for more than these seconds (KIP-994, Kafka 3.8 and
                later).
            pattern: Only those that match this regular expression (KIP-1152, Kafka 4.1 and later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Each transactional id with its producer's id and its state, sorted by transactional id.

        Raises:
            ArgumentError: There is no such state.
            UnsupportedError: A broker is too old to know, or too old for a filter.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or one did not respond in time.
        """
        found: results.Rows[TransactionListing]
        found = self._core.call(
            "list_transactions",
            timeout,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=None if longer_than is None else milliseconds("longer_than", longer_than),
            pattern=pattern,
        ).wait()
        return found

    def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, results.TransactionDescription]:
        """Describe transactional ids and their last transactions (KIP-664, Kafka 3.0 and later).

        The request goes to the coordinator of each transactional id. The result has only those partitions that this
        client may describe.

        Args:
            transactional_ids: Transactional ids.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Descriptions by transactional id.

        Raises:
            NotFoundError: No producer used such a transactional id, or not for long: for 7 days by default,
                `transactional.id.expiration.ms` of the broker.
            AuthorizationError: This client may not describe the transactional id.
            UnsupportedError: A coordinator is too old to know.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        described: dict[str, results.TransactionDescription]
        described = self._core.call("describe_transactions", timeout, transactional_ids=transactional_ids).wait()
        return described

    def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fence the producers that use transactional ids now (KIP-664, Kafka 0.11 and later).

        What such a producer has open is aborted, also if it was prepared for a two-phase commit, and its next call
        about transactions raises `FencedError`. Each id's coordinator does it. An id that nobody used is made.

        Args:
            transactional_ids: Transactional ids.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Who the producer would be now, by transactional id.

        Raises:
            AuthorizationError: This client may not write with the transactional id.
            UnsupportedError: A coordinator is too old for transactions.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        fenced: dict[str, FencedProducer]
        fenced = self._core.call("fence_producers", timeout, transactional_ids=transactional_ids).wait()
        return fenced

    def force_terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """Abort what a transactional id has open, also what was prepared (KIP-939), and fence its producer.

        Args:
            transactional_id: The transactional id.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not write with the transactional id.
            UnsupportedError: The coordinator is too old for transactions.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        self._core.call("fence_producers", timeout, transactional_ids=transactional_id).wait()

    def abort_transaction(
        self,
        partition: Partition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
        timeout: float | None = None,
    ) -> None:
        """Abort a transaction that hangs in a partition because its coordinator knows nothing of it (KIP-664).

        `describe_producers` returns the producer, and both epochs. For a transaction that its coordinator knows, see
        `force_terminate_transaction`: to abort such a one here tears it.

        Args:
            partition: The partition as a `TopicPartition` or a pair.
            producer_id: The producer's id.
            producer_epoch: The producer's epoch.
            coordinator_epoch: The epoch of the coordinator of the producer's last transaction; -1 if it had none.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: The topic does not exist.
            ArgumentError: The topic has no such partition.
            AuthorizationError: This client may not alter the cluster.
            FencedError: The producer has another epoch by now.
            UnsupportedError: The leader is too old for transactions.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        self._core.call(
            "abort_transaction",
            timeout,
            partition=partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        ).wait()

    def find_hanging_transactions(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        open_for: float = 900.0,
        timeout: float | None = None,
    ) -> results.Rows[results.HangingTransaction]:
        """Find transactions that are open in a partition, and that nobody will end (KIP-664, Kafka 3.0 and later).

        Such a transaction keeps readers of committed records from going on. `abort_transaction` ends it.

        Args:
            topics: Only in these topics; None for all, which sends a request to the leader of every partition.
            open_for: Only those whose last record is older than these seconds; the default is the longest that brokers
                let a transaction be open by default, `transaction.max.timeout.ms`.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Each transaction with its partition, and the ids and epochs that `abort_transaction` takes.

        Raises:
            NotFoundError: A topic does not exist.
            UnsupportedError: A broker is too old to know.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or one did not respond in time.
        """
        found: results.Rows[results.HangingTransaction]
        found = self._core.call(
            "find_hanging_transactions", timeout, topics=topics, before_ms=round((time() - open_for) * 1000)
        ).wait()
        return found
