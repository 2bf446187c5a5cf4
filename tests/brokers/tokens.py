"""Five tokens for the work of a whole run, so that two clusters of three nodes never share two cores.

Each node that a test starts takes one, and so does a test of the shared node; a test with a Spark session takes two. What needs more
than five takes all.

The rule that keeps processes from waiting for each other: nobody waits while holding. All that a process holds counts as one need.
When it grows, the process gives back what it has, and takes the whole in one go. Meanwhile its own clusters are idle, for it waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, TextIO

from tests.brokers import limits, runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKENS = 5
NODE, SPARK = 1, 2
PATIENCE = 600.0
"""Seconds. With the longest timeout of a test this is less than pytest's `faulthandler_timeout`, which ends the run."""

_needs: list[int] = []
_held: list[TextIO] = []


@contextlib.contextmanager
def held(count: int) -> Iterator[None]:
    """Hold so many tokens more within the block; outside of a run there is no one to share with.

    Raises:
        TimeoutError: Others did not give them back in time; it names their tests.
    """
    run = runs.folder()
    if run is None:
        yield
        return
    _needs.append(count)
    try:
        if len(_held) < (wanted := _wanted()):
            _release(0)
            _take(run, wanted)
        yield
    finally:
        _needs.remove(count)
        _release(_wanted())


def _wanted() -> int:
    return min(TOKENS, sum(_needs))


def _release(keep: int) -> None:
    while len(_held) > keep:
        _held.pop().close()


def _take(run: Path, count: int) -> None:
    """Take them in one go. The processes that wait queue for a lock, so that small needs do not overtake large ones."""
    until = time.monotonic() + PATIENCE
    with limits.suspended(), (run / "tokens.lock").open("w") as queue:
        while not _locked(queue):
            _wait(run, count, until)
        while not _try(run, count):
            _wait(run, count, until)


def _wait(run: Path, count: int, until: float) -> None:
    if time.monotonic() > until:
        holders = sorted({path.read_text() for path in run.glob("token-*")})
        raise TimeoutError(f"no {count} of {TOKENS} tokens within {PATIENCE:g} s; last held by {'; '.join(holders)}")
    time.sleep(0.1)


def _try(run: Path, count: int) -> bool:
    """Whether so many were free; then they are held."""
    for number in range(TOKENS):
        token = (run / f"token-{number}").open("a+")
        if not _locked(token):
            token.close()
            continue
        _held.append(token)
        if len(_held) == count:
            for mine in _held:
                mine.truncate(0)
                mine.write(f"{os.environ.get('PYTEST_CURRENT_TEST', 'no test')} of process {os.getpid()}")
                mine.flush()
            return True
    _release(0)
    return False


def _locked(file: TextIO) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
