"""The asyncio end of the completion queue: one watched socket for each event loop.

Threads of the Rust runtime never attach to Python. They put tokens into a queue and, if it was empty, write one byte.
The loop sees the byte, drains the queue, and resumes the tasks and calls the callbacks that wait for these tokens.
The default loop of Windows watches no sockets: there a thread does, and wakes the loop.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import weakref
from contextvars import copy_context
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla._ottla import CompletionQueue, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Context

    from ottla._ottla import AsyncDeliveries, AsyncDelivery, Outbox

    _Delivery = AsyncDelivery | AsyncDeliveries
    _Callback = Callable[[Any], object]

# Seconds after which a thread that watches for a loop checks whether the loop still exists.
_LOOK = 1.0


class Completions:
    """What the tasks and callbacks of one event loop wait for. It belongs to the thread of that loop."""

    __slots__ = ("__weakref__", "_callbacks", "_deliveries", "_queue", "_tokens", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Only the loop owns this object: with the loop it goes, and its sockets close.
        self._queue = CompletionQueue()
        self._tokens = count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._deliveries: dict[int, _Delivery] = {}
        # By the id of a delivery that is kept by its token.
        self._callbacks: dict[int, list[tuple[_Callback, Context]]] = {}
        try:
            loop.add_reader(self._queue.fileno(), self._drain)
        except NotImplementedError:
            # A table by loops would keep a loop that a callback refers to forever.
            loop._ottla_completions = self  # type: ignore[attr-defined]  # noqa: SLF001
            watch_by_thread(loop, self._queue, weakref.WeakMethod(self._drain))

    def _drain(self) -> None:
        for token in self._queue.drain():
            wake_up = self._waiting.pop(token, None)
            if wake_up is not None and not wake_up.done():
                wake_up.set_result(None)
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
                wake_up = asyncio.get_running_loop().create_future()
                self._waiting[token] = wake_up
                yield from wake_up
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
        """Forget all registrations of `callback(delivery)`, and return their number."""
        callbacks = self._callbacks.get(id(delivery), [])
        before = len(callbacks)
        callbacks[:] = [each for each in callbacks if each[0] != callback]
        return before - len(callbacks)


def watch_by_thread(
    loop: asyncio.AbstractEventLoop, queue: CompletionQueue | Outbox, drain: weakref.WeakMethod[Callable[[], None]]
) -> None:
    """Let a loop that watches no sockets drain the queue whenever it has tokens.

    It ends when the loop is closed or collected, or when the object of the method is collected.
    """
    arguments = (weakref.ref(loop), queue, drain)
    threading.Thread(target=_watch, args=arguments, name="ottla-asyncio", daemon=True).start()


def _watch(
    of: weakref.ref[asyncio.AbstractEventLoop],
    queue: CompletionQueue | Outbox,
    drain: weakref.WeakMethod[Callable[[], None]],
) -> None:
    drained = threading.Event()

    def serve() -> None:
        if (call := drain()) is not None:
            call()
        drained.set()

    with selectors.DefaultSelector() as selector:
        selector.register(queue, selectors.EVENT_READ)
        while True:
            ready = selector.select(_LOOK)
            loop = of()
            if loop is None or loop.is_closed() or drain() is None:
                return
            if ready:
                drained.clear()
                try:
                    loop.call_soon_threadsafe(serve)
                except RuntimeError:  # it was closed since
                    return
                # A blocked loop is notified again, and must not be kept from being garbage
                # collected.
                del loop
                drained.wait(_LOOK)


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
    """Forget all registrations of `callback(delivery)` on the running loop, and return their number."""
    return _completions().call_no_more(delivery, callback)
