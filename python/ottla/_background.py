"""What a process has once, and the threads that serve the queues of the Rust runtime."""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla._ottla import CompletionQueue, EventQueue, SaslQueue

T = TypeVar("T")


def after_fork(forget: Callable[[], object]) -> None:
    """Call `forget` in each forked child.

    Windows has no fork.
    """
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=forget)


class PerProcess(Generic[T]):
    """An object that a process makes when it first needs it.

    A forked child makes its own: it has none of its parent's threads, and a lock that one of them held stays locked.

    Args:
        make: Makes it. If it raises, the next `get` calls it again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.forget()
        after_fork(self.forget)

    def forget(self) -> None:
        """Let the next `get` make another one."""
        self.made: T | None = None
        self._lock = threading.Lock()

    def get(self) -> T:
        """Get the object of this process."""
        with self._lock:
            if self.made is None:
                self.made = self._make()
            return self.made


def watch(
    queue: CompletionQueue | EventQueue | SaslQueue,
    serve: Callable[[], object],
    *,
    name: str,
    every: float | None = None,
) -> threading.Thread:
    """Start a daemon thread that calls `serve` whenever the queue has entries.

    The selector is made before the thread: a process without free descriptors gets an error here, where its caller can
    try again. A thread that failed to make one would end unnoticed, and the queue would not be served.

    Args:
        queue: The queue, whose descriptor becomes readable.
        serve: Takes the entries. Its exceptions go to `sys.excepthook` and do not end the thread.
        name: The thread's name.
        every: Seconds after which `serve` is called also without entries.

    Raises:
        OSError: The process has no free descriptor.
        RuntimeError: The process cannot start another thread.
    """
    selector = selectors.DefaultSelector()
    try:
        selector.register(queue, selectors.EVENT_READ)
        thread = threading.Thread(target=_run, args=(selector, serve, every), name=name, daemon=True)
        thread.start()
    except BaseException:
        selector.close()
        raise
    return thread


def _run(selector: selectors.BaseSelector, serve: Callable[[], object], every: float | None) -> None:
    while True:
        selector.select(every)
        try:
            serve()
        except BaseException:  # noqa: BLE001 such as a sys.exit() in a log handler, which must not end the thread
            # A failure of the hook itself cannot be reported.
            with contextlib.suppress(BaseException):
                sys.excepthook(*sys.exc_info())
