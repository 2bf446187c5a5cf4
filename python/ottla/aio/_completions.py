"""The asyncio end of the completion queue: one watched descriptor for each event loop.

Threads of the Rust runtime never attach to Python. They put tokens into a queue and, if it was empty, write one byte.
The loop sees the byte, drains the queue, and resumes the tasks and calls the callbacks that wait for these tokens.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextvars import copy_context
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla._ottla import CompletionQueue, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Context

    from ottla._ottla import AsyncDeliveries, AsyncDelivery

    _Delivery = AsyncDelivery | AsyncDeliveries
    _Callback = Callable[[Any], object]


class Completions:
    """What the tasks and callbacks of one event loop wait for. It belongs to the thread of that loop."""

    __slots__ = ("__weakref__", "_callbacks", "_deliveries", "_queue", "_tokens", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Only the loop owns this object, by its reader: with the loop it goes, and its descriptors close.
        self._queue = CompletionQueue()
        self._tokens = count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._deliveries: dict[int, _Delivery] = {}
        # By the id of a delivery that is kept by its token.
        self._callbacks: dict[int, list[tuple[_Callback, Context]]] = {}
        loop.add_reader(self._queue.fileno(), self._drain)

    def _drain(self) -> None:
        for token in self._queue.drain():
            bell = self._waiting.pop(token, None)
            if bell is not None and not bell.done():
                bell.set_result(None)
            delivery = self._deliveries.pop(token, None)
            if delivery is not None:
                for callback, context in self._callbacks.pop(id(delivery)):
                    asyncio.get_running_loop().call_soon(callback, delivery, context=context)

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

    def call_when_done(self, delivery: _Delivery, callback: _Callback) -> None:
        """Call `callback(delivery)` soon after it is done, and after what was done before it."""
        callbacks = self._callbacks.get(id(delivery))
        if callbacks is None:
            # One token for all of them, also for those to come: a token cannot be taken back.
            token = next(self._tokens)
            delivery._watch()._notify(self._queue, token)  # noqa: SLF001 it is there for this
            self._deliveries[token] = delivery
            callbacks = self._callbacks[id(delivery)] = []
        callbacks.append((callback, copy_context()))

    def call_no_more(self, delivery: _Delivery, callback: _Callback) -> int:
        """Forget `callback(delivery)`, as often as it is to come; tells how often that was."""
        callbacks = self._callbacks.get(id(delivery), [])
        before = len(callbacks)
        callbacks[:] = [each for each in callbacks if each[0] != callback]
        return before - len(callbacks)


_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Completions]] = weakref.WeakKeyDictionary()
_of_loop_lock = threading.Lock()


def _completions() -> Completions:
    loop = asyncio.get_running_loop()
    with _of_loop_lock:
        known = _of_loop.get(loop)
        completions = None if known is None else known()
        if completions is None:
            completions = Completions(loop)
            _of_loop[loop] = weakref.ref(completions)
    return completions


def wait(operation: Operation) -> Generator[Any, None, Any]:
    """Suspend the running task until the operation is done. `Operation.__await__` comes here when it must wait."""
    return _completions().wait(operation)


def call_when_done(delivery: _Delivery, callback: _Callback) -> None:
    """Call `callback(delivery)` on the running loop, soon after it is done."""
    _completions().call_when_done(delivery, callback)


def call_no_more(delivery: _Delivery, callback: _Callback) -> int:
    """Forget `callback(delivery)` on the running loop, as often as it is to come; tells how often that was."""
    return _completions().call_no_more(delivery, callback)
