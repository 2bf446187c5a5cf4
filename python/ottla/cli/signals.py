"""How Ctrl-C and SIGTERM end a command, and Ctrl-Break, which is the one that Windows can send to another process."""

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


def terminations() -> set[int]:
    """The signals that end a command besides Ctrl-C. Only Windows has SIGBREAK."""
    return {signal.SIGTERM, getattr(signal, "SIGBREAK", signal.SIGTERM)}


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` for the signals of `terminations` that the program that runs the command does not handle."""
    ours: list[int] = []
    if threading.current_thread() is threading.main_thread():
        ours = [number for number in terminations() if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _terminate)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


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
        ours = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(terminations(), _terminate)}
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
        self._came = Terminated() if number in terminations() else KeyboardInterrupt()
        if self._waiting or again:
            raise self._came
