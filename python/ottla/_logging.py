"""Python's `logging` under `ottla.*`, fed with the events of clients.

Threads of the Rust runtime never attach to Python. They put events into a queue of the process and, if it was empty,
ring a descriptor. A thread of Python's, which starts with the first client, waits for that and logs them. A close logs
what there is before it returns.

The loggers are `ottla.connection`, `ottla.cluster`, `ottla.consumer` and `ottla.producer`. Events of level DEBUG, of
which each request has some, are made only while one of them is enabled for DEBUG.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from ottla._background import PerProcess, watch
from ottla._ottla import EventQueue

# All loggers that events go to; their levels decide whether DEBUG events are made.
_LOGGERS = [logging.getLogger(f"ottla.{name}") for name in ("connection", "cluster", "consumer", "producer")]
# Seconds that a close waits for another thread that is logging, perhaps in a handler that never returns.
_PATIENCE = 5.0
# Seconds after which a level that was changed counts, if no event comes before: `logging` does not report changes.
_LOOK = 1.0


class _Listener:
    def __init__(self) -> None:
        self.queue = EventQueue()
        # Held from before events are taken until they are logged, so that they stay in order and a close misses none.
        # A handler may close a client of its own.
        self._logging = threading.RLock()
        watch(self.queue, self._serve, name="ottla-logging", every=_LOOK)

    def look(self) -> None:
        """Follow the levels of the loggers, which anybody may change at any time."""
        is_verbose = any(logger.isEnabledFor(logging.DEBUG) for logger in _LOGGERS)
        self.queue.listen(logging.DEBUG if is_verbose else logging.INFO)

    def drain(self) -> None:
        if not self._logging.acquire(timeout=0 if _holds_lock_of_logging() else _PATIENCE):
            return
        try:
            events, dropped = self.queue.drain()
            for level, logger, text, fields in events:
                _log(level, logger, text, fields)
            if dropped:
                fields = {"kind": "Dropped", "count": dropped}
                logging.getLogger("ottla").warning(
                    "%d events were not logged: too many came at once", dropped, extra=fields
                )
        finally:
            self._logging.release()

    def _serve(self) -> None:
        self.drain()
        self.look()


def _holds_lock_of_logging() -> bool:
    """Whether this thread holds a lock that the thread that logs may wait for.

    So does a handler that closes its client in its own `close`, or the code that configures `logging`: a wait for that
    thread would have no end.
    """
    handlers = [handler() for handler in getattr(logging, "_handlerList", ())]
    locks = [getattr(logging, "_lock", None), *(getattr(handler, "lock", None) for handler in handlers)]
    # As `threading.Condition` checks its lock.
    return any(getattr(lock, "_is_owned", lambda: False)() for lock in locks)


def _log(level: int, logger: str, text: str, fields: dict[str, Any]) -> None:
    try:
        logging.getLogger(f"ottla.{logger}").log(level, "%s: %s", fields["client"], text, extra=fields)
    except Exception:  # noqa: BLE001 a handler or filter is not ours, and the other events are still to be logged
        sys.excepthook(*sys.exc_info())


_listener = PerProcess(_Listener)


def queue() -> EventQueue:
    """Get the queue for a client that is being made; the first starts the thread."""
    listener = _listener.get()
    listener.look()
    return listener.queue


def drain() -> None:
    """Log what there is, on this thread."""
    if _listener.made is not None:
        _listener.made.drain()
