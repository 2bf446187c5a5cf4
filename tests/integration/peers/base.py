"""What a client must be able to do to take part."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from tests.pace import patience

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.integration.messages import Message

DEADLINE = patience(30)
"""Seconds that any one step of a client may take; generous, as the machine may be busy."""
SLOW = 3_000
"""Records a second that any client reads, even where the machine is busy."""


class Member(Protocol):
    """A member of a consumer group, used from one thread."""

    def poll(self) -> list[Message]:
        """What came within a fraction of a second; it is committed."""
        ...

    def assignment(self) -> set[int]:
        """The partitions it owns now."""
        ...

    def close(self) -> list[Message]:
        """Leave the group and end; gives what had come, is committed, and was not polled yet."""
        ...


class Peer(Protocol):
    """A client library or tool."""

    name: str

    def as_written(self, message: Message) -> Message | None:
        """The message as this client can write it, or None if its API refuses such a message."""
        ...

    def produce(self, bootstrap: str, topic: str, codec: str, messages: Sequence[Message]) -> None:
        """Write the messages in order, and return once all are acknowledged."""
        ...

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Message]:
        """Read `count` messages from the beginning of all partitions."""
        ...

    def member(self, bootstrap: str, topic: str, group: str) -> Member:
        """Join a group at its committed offsets, or else at the beginning."""
        ...


def until(deadline: float, what: str) -> Iterator[None]:
    """Loop with this; fails the test when `deadline` seconds have gone."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        yield
    raise AssertionError(f"not within {deadline:g} s: {what}")
