"""Clients that a process of Spark keeps for a next task, which may never come.

A client keeps its connections, so it tries to reach brokers that are gone for as long as it is open. Consumers of
Spark's own source, which do nothing between two tasks, are closed after a while too
(`spark.kafka.consumer.cache.timeout`).
"""

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from ottla._background import after_fork
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla import Admin, Consumer, Producer

K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound="Admin | Consumer | Producer")


class IdleClients(Generic[K, C]):
    """Clients by what they were made for. A client that is not used again is closed. None crosses a fork.

    Args:
        limit: Seconds for which a client is kept.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._entries: list[tuple[K, C, float]] = []
        self._closing = False

    def take(self, key: K) -> C | None:
        """The client that was kept last for this key; None without one."""
        with self._changed:
            for number in range(len(self._entries) - 1, -1, -1):
                if self._entries[number][0] == key:
                    return self._entries.pop(number)[1]
        return None

    def keep(self, key: K, client: C) -> None:
        """Keep a client for the next task.

        It has nothing to send.
        """
        with self._changed:
            self._entries.append((key, client, time.monotonic()))
            if not self._closing:
                self._closing = True
                threading.Thread(target=self._close_idle, name="ottla-spark-idle", daemon=True).start()

    def close(self, chosen: Callable[[K], bool] = lambda _: True) -> None:
        """Close what is kept for these keys; all by default."""
        with self._changed:
            found = [entry for entry in self._entries if chosen(entry[0])]
            self._entries = [entry for entry in self._entries if not chosen(entry[0])]
            self._changed.notify_all()
        _close(found)

    def waiting(self) -> list[K]:
        """What clients are kept for."""
        with self._changed:
            return [key for key, _, _ in self._entries]

    def _close_idle(self) -> None:
        """Close clients whose time is over, until none is left."""
        while True:
            with self._changed:
                if not self._entries:
                    self._closing = False
                    return
                now = time.monotonic()
                old = [entry for entry in self._entries if entry[2] + self.limit <= now]
                self._entries = [entry for entry in self._entries if entry[2] + self.limit > now]
                if not old:
                    self._changed.wait(min(entry[2] for entry in self._entries) + self.limit - now)
            _close(old)


def _close(entries: list[tuple[K, C, float]]) -> None:
    for _, client, _ in entries:
        # It has nothing to send, so that nothing can be lost here.
        with suppress(KafkaError):
            client.close(timeout=0)
