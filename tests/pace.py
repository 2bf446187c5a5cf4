"""How slow this machine is now, for time limits that are not the subject of a test."""

from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds that one round takes on a quiet machine: computing, and switching between two threads.
COMPUTING, SWITCHING = 0.0039, 0.0017
SWITCHES = 100
ROUNDS = 10
MOST = 5.0
"""The largest factor, so that a limit of 20 s stays below the timeout that ends a test."""


def patience(seconds: float) -> float:
    """Scale a time limit with the load of the machine, measured once in each process.

    Use it where a test must stop waiting at some time, not where the limit itself is tested.
    """
    return seconds * factor()


@functools.cache
def factor() -> float:
    """How many times as long as on a quiet machine the slower of two kinds of work takes; from 1 to `MOST`.

    The measure is wall time. Processor time does not show how long a thread waits for its turn.
    """
    computed = sum(_took(_compute) for _ in range(ROUNDS)) / ROUNDS
    switched = sum(_took(_switch) for _ in range(ROUNDS)) / ROUNDS
    return min(max(computed / COMPUTING, switched / SWITCHING, 1.0), MOST)


def _took(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _compute() -> None:
    sum(number * number for number in range(100_000))


def _switch() -> None:
    there, back = threading.Semaphore(0), threading.Semaphore(0)

    def answer() -> None:
        for _ in range(SWITCHES):
            there.acquire()
            back.release()

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(SWITCHES):
        there.release()
        back.acquire()
    thread.join()
