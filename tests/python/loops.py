"""Event loops, and how long a task keeps one to itself."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.pace import patience

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    T = TypeVar("T")

PATIENCE = patience(20)
# What `new_loop` makes.
LOOPS = [pytest.param("asyncio"), pytest.param("uvloop", marks=pytest.mark.needs("uvloop")), pytest.param("no readers")]


class WithoutReaders(asyncio.SelectorEventLoop):
    """Watches no sockets for others, as the default loop of Windows."""

    def add_reader(self, *_: object) -> None:
        raise NotImplementedError


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """A loop of `asyncio` or of `uvloop`."""
    if kind == "no readers":
        return WithoutReaders()
    if kind == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


async def until(happened: Callable[[], bool], what: str) -> None:
    """Let the loop run until something has happened."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"never: {what}"
        await asyncio.sleep(0.01)


async def longest_hold(work: Awaitable[T]) -> tuple[T, float]:
    """The value of `work`, and the most processor time that the loop's thread took between two turns of another task.

    Processor time, since a busy machine may let any thread wait.
    """
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    value = await work
    await asyncio.sleep(0)
    ticking.cancel()
    return value, longest


async def least_share(work: Callable[[], Awaitable[float]]) -> float:
    """How much of the time that `work` tells one hold takes at most; the least of three tries.

    A host may take a virtual machine's processor from any thread, whose clock goes on.
    """
    shares = []
    for _ in range(3):
        took, longest = await longest_hold(work())
        shares.append(longest / took)
    return min(shares)
