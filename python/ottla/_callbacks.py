"""The thread that calls back when the delivery result of a record is known.

Threads of the Rust runtime never run Python code, so the callbacks of `Delivery.add_done_callback` have one of their
own. It starts with the first callback and ends with the interpreter.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from ottla._background import PerProcess, watch
from ottla._ottla import CompletionQueue
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla._ottla import Deliveries, Delivery, Watched


class _Caller:
    def __init__(self) -> None:
        self._queue = CompletionQueue()
        self._tokens = count()
        self._waiting: dict[int, tuple[Any, Callable[[Any], object]]] = {}
        self._settling: set[SimpleQueue[None]] = set()
        self._calling = False
        self._thread = watch(self._queue, self._serve, name="ottla-callbacks")

    def add(self, delivery: Delivery | Deliveries | Watched, callback: Callable[[Any], object]) -> None:
        token = next(self._tokens)
        self._waiting[token] = (delivery, callback)
        try:
            delivery._notify(self._queue, token)  # noqa: SLF001 it is there for this
        except BaseException:  # Ctrl-C, perhaps with the token in the queue already
            self._waiting.pop(token, None)
            raise

    def behind(self) -> bool:
        """Whether a callback is due, or under way."""
        # In this order: what is no longer pending is being called, or has been.
        return self._queue.pending() or self._calling

    def _serve(self) -> None:
        self._calling = True
        due = deque(self._queue.drain())
        while due:
            token = due.popleft()
            self._call(token)
            # A waiter for this callback must not see a call in progress after the last one.
            self._calling = bool(due)
            self._waiting.pop(token, None)
        self._calling = False
        for waiting in self._settling.copy():
            waiting.put(None)

    def _call(self, token: int) -> None:
        waiting = self._waiting.get(token)
        if waiting is not None:
            # Even if it raises, the other callbacks must still be called.
            call(*waiting, but=())

    def settle(self, timeout: float) -> None:
        if threading.current_thread() is self._thread:
            return  # a callback that flushes cannot wait for itself
        # A copy is one step for other threads. A list of the items is not: its pairs are objects, and making one may
        # collect garbage, whose finalizers let another thread add a callback in the middle.
        due = {token for token, (delivery, _) in self._waiting.copy().items() if delivery.done()}
        deadline = time.monotonic() + timeout
        # Not a condition: Ctrl-C at the wrong moment leaves its lock released, and raises another error about that.
        called = SimpleQueue[None]()
        try:
            self._settling.add(called)
            while not due.isdisjoint(self._waiting) and (left := deadline - time.monotonic()) > 0:
                with contextlib.suppress(Empty):
                    called.get(timeout=left)
        finally:
            self._settling.discard(called)


def call(
    delivery: Any,
    callback: Callable[[Any], object],
    *,
    but: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, GeneratorExit),
) -> None:
    """Call back; an error of the callback goes to `sys.excepthook`, like errors that no caller can catch.

    Args:
        delivery: What the callback is given.
        callback: The callback.
        but: Exceptions that the caller must see, such as a `sys.exit()` in a callback that runs on the caller's own
            thread.
    """
    try:
        callback(delivery)
    except but:
        raise
    except BaseException:  # noqa: BLE001 the callback is not ours
        # A failure of the hook itself cannot be reported.
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info())


_caller = PerProcess(_Caller)


def call_when_done(delivery: Delivery | Deliveries | Watched, callback: Callable[[Any], object]) -> None:
    """Call `callback(delivery)` when it is done: at once if it is and none is to come first, else on ottla's thread."""
    if delivery.done() and (_caller.made is None or not _caller.made.behind()):
        call(delivery, callback)
        return
    _caller.get().add(delivery, callback)


# Seconds that callbacks may go on after a flush that has no timeout of its own.
_PATIENCE = 30.0


@contextlib.contextmanager
def settling(timeout: float | None) -> Iterator[None]:
    """Wait, after a flush, until the callbacks of everything that is done by then have returned.

    Args:
        timeout: Seconds for the flush and the callbacks together.
    """
    begun = time.monotonic()
    try:
        yield
    except KafkaError:
        _settle(timeout, begun)
        raise
    _settle(timeout, begun)


def _settle(timeout: float | None, begun: float) -> None:
    if _caller.made is not None:
        _caller.made.settle(_PATIENCE if timeout is None else timeout - (time.monotonic() - begun))
