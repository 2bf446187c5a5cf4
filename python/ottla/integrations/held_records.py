"""Records of share consumers whose locks are renewed until the records are acknowledged."""

from __future__ import annotations

import contextlib
import threading
from typing import Literal

from ottla import Record, ShareConsumer
from ottla.errors import ClosedError

# Seconds between two renewals before the time of locks is known, and the part of that time afterwards.
FIRST, PART = 0.5, 1 / 3


class HeldRecords:
    """Records that are worked on, by a tag that their holder chooses. Threads may share it.

    The consumers need `share.acknowledgement.mode=explicit`, and brokers since Kafka 4.2 (KIP-1222).
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[ShareConsumer, Record]] = {}
        # What is said of a record must not be overtaken by the renewal of its lock.
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._renewal: threading.Thread | None = None

    def hold(self, tag: str, consumer: ShareConsumer, record: Record) -> None:
        """Keep the lock of a record, which a poll has just returned.

        Args:
            tag: A name for this delivery of the record.
            consumer: The consumer that it came from.
            record: The record. The next poll does not wait for its acknowledgement.
        """
        with self._lock:
            consumer.acknowledge(record, "renew")
            self._held[tag] = (consumer, record)
            if self._renewal is None:
                self._renewal = threading.Thread(target=self._renew, name="ottla-renewal", daemon=True)
                self._renewal.start()

    def settle(self, tag: str, kind: Literal["accept", "release", "reject"]) -> None:
        """Say what becomes of a record.

        It is sent at once, and not waited for. A tag that is unknown does nothing.

        Args:
            tag: The name of the delivery.
            kind: As for `ShareConsumer.acknowledge`.
        """
        with self._lock, contextlib.suppress(KeyError, ClosedError):
            consumer, record = self._held.pop(tag)
            consumer.acknowledge(record, kind)
            consumer.commit(wait=False)

    def holds(self, consumer: ShareConsumer) -> bool:
        """Return whether a record of a consumer is held.

        Args:
            consumer: The consumer.
        """
        with self._lock:
            return any(held is consumer for held, _ in self._held.values())

    def _renew(self) -> None:
        pause = FIRST
        while not self._closed.wait(pause):
            with self._lock:
                consumers = {id(consumer): consumer for consumer, _ in self._held.values()}
                for consumer, record in self._held.values():
                    with contextlib.suppress(ClosedError):
                        consumer.acknowledge(record, "renew")
                for consumer in consumers.values():
                    with contextlib.suppress(ClosedError):
                        consumer.commit(wait=False)
                        pause = (consumer.lock_timeout() or FIRST / PART) * PART

    def close(self) -> None:
        """Renew no locks any more."""
        self._closed.set()
