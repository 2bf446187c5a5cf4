"""The time limit of a test, by pytest-timeout. It stands still while a test waits for others, or makes what all later runs reuse."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_armed: list[tuple[Any, Any]] = []


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Stop the timer of the test that runs; it begins again, with all its time, after the block."""
    # Only the main thread may touch the timer.
    armed = list(_armed) if threading.current_thread() is threading.main_thread() else []
    for item, _ in armed:
        item.config.hook.pytest_timeout_cancel_timer(item=item)
    try:
        yield
    finally:
        for item, settings in armed:
            item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)


def pytest_timeout_set_timer(item: Any, settings: Any) -> None:
    """A hook, like the next; pytest-timeout's own follow."""
    _armed[:] = [(item, settings)]


def pytest_timeout_cancel_timer(item: Any) -> None:
    _armed.clear()
