"""The standard streams of a command, also where the program that started it closed one or chose an encoding for it."""

from __future__ import annotations

import io
import os
import sys


class _Closed(io.RawIOBase):
    """A standard stream that does not exist. Using it is an error that names it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, _: object) -> int:
        raise self._error()

    def write(self, _: object) -> int:
        raise self._error()

    def _error(self) -> OSError:
        return OSError(f"{self._name} is closed: start ottla with it open, or redirect it")


def prepare() -> None:
    """Give each standard stream an object, and let output show any text.

    Python has None in the place of a stream that is closed, and `print(file=None)` writes to another one. The number of
    a closed stream goes to the next file or socket, where output of a library would damage it: the null device takes
    it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = _text(_Closed("standard input"))
    if sys.stdout is None:
        sys.stdout = _text(_Closed("standard output"))
    if sys.stderr is None:
        # No process reads this output, not even the error that it cannot be written.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - it is open until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal's encoding may lack letters of a name: they are shown by number, as standard error shows them.
        sys.stdout.reconfigure(errors="backslashreplace")


def print_error(text: str) -> None:
    """Write a whole line for people to standard error. A log can come between the two writes of `print`."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def discard_output() -> None:
    """Forget output that could not be written. Python would try, and complain, once more when it flushes at exit."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def _text(raw: io.RawIOBase) -> io.TextIOWrapper:
    return io.TextIOWrapper(raw, encoding="utf-8", write_through=True)  # type: ignore[arg-type] # unbuffered
