"""How Ctrl-C and SIGTERM end a command."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: lines that were read are sent, and a group is left."""


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` for SIGTERM, unless the program that runs the command handles it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Between:
    """Lets the first signal in only while the command waits for input, so that no step is left half done.

    A second one comes at once.
    """

    def __init__(self) -> None:
        self._waiting = False
        self._came: KeyboardInterrupt | None = None

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Handle Ctrl-C and SIGTERM so, where the command handles them."""
        ours = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _terminate}
        if threading.current_thread() is not threading.main_thread():
            ours = {}
        held = {number: handler for number, handler in ours.items() if signal.getsignal(number) is handler}
        for number in held:
            signal.signal(number, self._take)
        try:
            yield
        finally:
            for number, handler in held.items():
                signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal in, also one that came before."""
        self._waiting = True
        try:
            if self._came is not None:
                raise self._came
            yield
        finally:
            self._waiting = False

    def _take(self, number: int, _frame: FrameType | None) -> None:
        again = self._came is not None
        self._came = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        if self._waiting or again:
            raise self._came
