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

    _Callback = Callable[[Any], object]


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
# By the ids of a loop and a delivery: what is to be called there, each with the task that does so. The tasks keep both.
_calling: dict[tuple[int, int], list[tuple[_Callback, asyncio.Task[None]]]] = {}


def wait(operation: Operation) -> Generator[Any, None, Any]:
    """Suspend the running task until the operation is done. `Operation.__await__` comes here when it must wait."""
    loop = asyncio.get_running_loop()
    with _of_loop_lock:
        completions = _of_loop.get(loop)
        if completions is None:
            completions = _of_loop[loop] = Completions(loop)
    return completions.wait(operation)


def call_when_done(delivery: AsyncDelivery | AsyncDeliveries, callback: _Callback) -> None:
    """Call `callback(delivery)` on the running loop, soon after it is done."""
    loop = asyncio.get_running_loop()
    key = id(loop), id(delivery)

    async def call() -> None:
        with contextlib.suppress(KafkaError):  # The callback asks for it.
            await delivery
        callback(delivery)

    task = loop.create_task(call())
    _calling.setdefault(key, []).append((callback, task))
    task.add_done_callback(lambda task: _take(key, lambda _, calling: calling is task))


def call_no_more(delivery: AsyncDelivery | AsyncDeliveries, callback: _Callback) -> int:
    """Forget `callback(delivery)` on the running loop, as often as it is to come; tells how often that was."""
    key = id(asyncio.get_running_loop()), id(delivery)
    tasks = [task for task in _take(key, lambda waiting, _: waiting == callback) if not task.done()]
    for task in tasks:
        task.cancel()
    return len(tasks)


def _take(key: tuple[int, int], chosen: Callable[[_Callback, asyncio.Task[None]], bool]) -> list[asyncio.Task[None]]:
    """Take the chosen callbacks out, and give their tasks."""
    taken, left = [], []
    for callback, task in _calling.pop(key, ()):
        if chosen(callback, task):
            taken.append(task)
        else:
            left.append((callback, task))
    if left:
        _calling[key] = left
    return taken
