"""Threads that serve the queues of the Rust runtime, one for each kind of queue."""

from __future__ import annotations

import contextlib
import selectors
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla._ottla import CompletionQueue, EventQueue, SaslQueue


def watch(
    queue: CompletionQueue | EventQueue | SaslQueue,
    serve: Callable[[], object],
    *,
    name: str,
    every: float | None = None,
) -> threading.Thread:
    """Start a daemon thread that calls `serve` whenever the queue has entries.

    The selector is made before the thread: a process without free descriptors gets an error here, where its caller can
    try again. A thread that failed to make one would end unnoticed, and nobody would serve the queue.

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
