"""Whether a producer still sends, as programs look at it."""

from __future__ import annotations

import asyncio

__all__ = ["Sender"]


class Sender:
    """A task that runs while the producer can send. The core sends; health checks look at the task.

    Args:
        acks: The producer's `acks`; "all" is -1.
    """

    def __init__(self, acks: int) -> None:
        self._acks = acks
        self._ended: asyncio.Future[None] | None = None
        self._sender_task: asyncio.Task[None] | None = None

    @property
    def sender_task(self) -> asyncio.Task[None] | None:
        """The task; None before `start`. It ends with the producer, also by an error after which nothing is sent."""
        return self._sender_task

    def start(self) -> None:
        """Start the task."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._sender_task = loop.create_task(_until(self._ended))
        self._sender_task.add_done_callback(_look)

    def fail(self, error: BaseException) -> None:
        """End the task by an error."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    def cancel(self) -> None:
        """End the task without waiting for it."""
        if self._sender_task is not None:
            self._sender_task.cancel()

    async def close(self) -> None:
        """End the task."""
        if self._sender_task is not None:
            self.cancel()
            await asyncio.wait([self._sender_task])


async def _until(ended: asyncio.Future[None]) -> None:
    await ended


def _look(task: asyncio.Task[None]) -> None:
    """Take note of the task's error: a program that does not look at the task gets it from its next call."""
    if not task.cancelled():
        task.exception()
