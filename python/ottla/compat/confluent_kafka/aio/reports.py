"""Delivery reports of a producer for asyncio: the loop that serves them, and futures that another thread settles."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from ottla import _ottla
from ottla.aio._completions import watch_by_thread
from ottla.compat.confluent_kafka.callbacks import LONG_SLICE
from ottla.compat.confluent_kafka.errors import KafkaException
from ottla.compat.confluent_kafka.outbox import LEAST


def settle_on_loop(future: asyncio.Future[Any], error: KafkaException | None, message: Any) -> None:
    """Settle a future from another thread than its loop's, such as that of a call that waits for a transaction."""
    with contextlib.suppress(RuntimeError):  # The loop is closed: nothing waits for the result.
        future.get_loop().call_soon_threadsafe(_settle, future, error, message)


def _settle(future: asyncio.Future[Any], error: KafkaException | None, message: Any) -> None:
    if future.done():  # The program cancelled it.
        return
    if error is None:
        future.set_result(message)
    else:
        future.set_exception(error)


class Reports:
    """Serves the reports of one producer on the thread of a loop, until it is dropped or closed.

    Args:
        loop: The loop, which is running.
        outbox: The outbox of the producer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, outbox: _ottla.Outbox) -> None:
        self._loop, self._outbox = loop, outbox
        self._count = 0
        self._waiters: list[asyncio.Future[None]] = []
        serve = weakref.WeakMethod(self.serve)
        try:
            loop.add_reader(outbox.fileno(), _serve, serve)
        except NotImplementedError:
            watch_by_thread(loop, outbox, serve)
        # The arguments keep the descriptor open until the loop no longer watches it.
        self.close = weakref.finalize(self, _forget, loop, outbox)
        self.close.atexit = False

    def serve(self) -> None:
        """Settle the futures of all reports that came in."""
        self._count += self._outbox.serve()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def take_count(self) -> int:
        """Return how many reports were served since the last call."""
        count, self._count = self._count, 0
        return count

    async def wait(self, seconds: float) -> None:
        """Wait until reports are served, at most so long or a slice."""
        expiry = self._outbox.next_expiry()
        seconds = max(LEAST, min(seconds, LONG_SLICE if expiry is None else expiry))
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await asyncio.wait([waiter], timeout=seconds)
        # Records without a broker expire when somebody looks at them.
        self.serve()


def _serve(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    if (serve := method()) is not None:
        serve()


def _forget(loop: asyncio.AbstractEventLoop, outbox: _ottla.Outbox) -> None:
    """Let the loop no longer watch the outbox. Whatever thread collects garbage calls it."""

    def forget() -> None:
        # Keeps the outbox so far: another descriptor with its number would otherwise be forgotten.
        with contextlib.suppress(NotImplementedError):
            loop.remove_reader(outbox.fileno())

    with contextlib.suppress(RuntimeError):  # The loop is closed.
        loop.call_soon_threadsafe(forget)
