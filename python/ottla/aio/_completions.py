"""The asyncio end of the completion queue: one watched descriptor for each event loop.

Threads of the Rust runtime never attach to Python. They put tokens into a queue and, if it was empty, write one byte.
The loop sees the byte, drains the queue and resumes the tasks that wait for these tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla._ottla import CompletionQueue, Operation
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ottla._ottla import AsyncDeliveries, AsyncDelivery


class Completions:
    """The operations that the tasks of one event loop wait for. It belongs to the thread of that loop."""

    __slots__ = ("__weakref__", "_queue", "_tokens", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # No reference to the loop is kept: the loop owns this object, and the descriptors close with it.
        self._queue = CompletionQueue()
        self._tokens = count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(self._queue.fileno(), self._drain)

    def _drain(self) -> None:
        for token in self._queue.drain():
            bell = self._waiting.pop(token, None)
            if bell is not None and not bell.done():
                bell.set_result(None)

    def wait(self, operation: Operation) -> Generator[Any, None, Any]:
        """Suspend the task until the operation is done; the value is its result."""
        token = next(self._tokens)
        try:
            while not operation.poll(self._queue, token):
                # Woken between the poll and here is fine: tokens are drained by this very thread.
                bell = asyncio.get_running_loop().create_future()
                self._waiting[token] = bell
                yield from bell
        finally:
            self._waiting.pop(token, None)
        return operation.take()


_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Completions] = weakref.WeakKeyDictionary()
_of_loop_lock = threading.Lock()
# The loop itself holds tasks only weakly.
_calling: set[asyncio.Task[None]] = set()


def wait(operation: Operation) -> Generator[Any, None, Any]:
    """Suspend the running task until the operation is done. `Operation.__await__` comes here when it must wait."""
    loop = asyncio.get_running_loop()
    with _of_loop_lock:
        completions = _of_loop.get(loop)
        if completions is None:
            completions = _of_loop[loop] = Completions(loop)
    return completions.wait(operation)


def call_when_done(delivery: AsyncDelivery | AsyncDeliveries, callback: Callable[[Any], object]) -> None:
    """Call `callback(delivery)` on the running loop, soon after it is done."""
    loop = asyncio.get_running_loop()

    async def call() -> None:
        with contextlib.suppress(KafkaError):  # The callback asks for it.
            await delivery
        callback(delivery)

    task = loop.create_task(call())
    _calling.add(task)
    task.add_done_callback(_calling.discard)
