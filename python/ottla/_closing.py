"""How clients close, and what leaving a `with` block does after an exception."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Protocol

from ottla._numbers import after
from ottla.errors import ArgumentError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla._ottla import Operation

# Seconds that a close takes at most, without a timeout of the caller. A producer has
# `close.timeout.ms`.
CLOSE_TIMEOUT = 5.0
# What an exception of a close or of an abort is called in a note.
NOT_CLOSED = "closing the client failed"
NOT_ABORTED = "the transaction was not aborted"


class Interruptible(Protocol):
    """The core of a client."""

    def interrupt_timeout(self) -> float:
        """Seconds that leaving a `with` block may take after Ctrl-C or the like."""


def failure(error: BaseException | None) -> BaseException | None:
    """The exception that the body of a `with` block failed with.

    A generator that is closed has not failed.
    """
    return None if isinstance(error, GeneratorExit) else error


def exit_timeout(core: Interruptible, error: BaseException | None) -> float | None:
    """Seconds that leaving a `with` block may take; None has no limit but that of `close`."""
    if error is None or isinstance(error, (Exception, GeneratorExit)):
        return None
    return core.interrupt_timeout()


class Closable(Protocol):
    """The core of a client."""

    def close(self, timeout: float | None) -> Operation:
        """Close it within `timeout` seconds."""


@contextlib.contextmanager
def noting(error: BaseException | None, what: str) -> Iterator[None]:
    """Make an exception of this block a note on `error`, which is on its way to the caller.

    Args:
        error: What the body of a `with` block failed with. If it is None, this block raises as usual.
        what: What this block failed to do, for the note.
    """
    try:
        yield
    except Exception as other:
        if error is None:
            raise
        text = f"{what}: {other if isinstance(other, KafkaError) else repr(other)}"
        if hasattr(error, "add_note"):  # since Python 3.11
            error.add_note(text)
        if not isinstance(error, Exception):
            # Python prints no notes of SystemExit, and asyncio no CancelledError.
            import logging  # programs that log nothing do without it

            logging.getLogger("ottla").warning(text)


def left(deadline: float) -> float:
    """Seconds until then; 0 if it has passed."""
    return max(deadline - time.monotonic(), 0)


def left_of(deadline: float | None) -> float | None:
    """Seconds until then; None without a deadline."""
    return None if deadline is None else left(deadline)


def deadline_of(timeout: float | None) -> float | None:
    """The time after `timeout` seconds."""
    return None if timeout is None else after(timeout)


def in_listener(verb: str) -> ArgumentError:
    """The error of a call that would wait for the listener that makes it."""
    return ArgumentError(
        f"{verb}() waits until rebalance listeners have returned, so a listener cannot call it: "
        f"set a flag in the listener, and call {verb}() after poll() returns"
    )
