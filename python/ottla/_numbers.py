"""Numbers of seconds as arguments. Other types raise an error with the name of the argument."""

from __future__ import annotations

import time

from ottla.errors import ArgumentError

WANTED = "a number of seconds from 0 up"


def after(timeout: float) -> float:
    """The time after `seconds`.

    Raises:
        TypeError: Argument `timeout` is not a number.
    """
    try:
        return time.monotonic() + timeout
    except TypeError:
        raise _wrong_type("timeout", timeout) from None


def milliseconds(name: str, seconds: float | None) -> int:
    """The milliseconds of argument `name`; -1 for None, as Kafka's protocol writes it.

    Raises:
        ArgumentError: It is negative, infinite or NaN.
        TypeError: It is not a number.
    """
    if seconds is None:
        return -1
    try:
        if seconds >= 0:
            return int(seconds * 1000)
    except TypeError:
        raise _wrong_type(name, seconds) from None
    except OverflowError:
        pass
    raise ArgumentError(f"{name} must be {WANTED}, and was {seconds}")


def _wrong_type(name: str, given: object) -> TypeError:
    return TypeError(f"{name} must be {WANTED}, and was {given!r} of type {type(given).__name__}")
