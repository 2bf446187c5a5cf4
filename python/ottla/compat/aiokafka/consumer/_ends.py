"""The ends of the partitions, for `highwater` and `last_stable_offset`.

ottla has the ends in fetch responses, but no call that returns them without waiting. So they are requested with each
assignment, and after the first call of `highwater` or its relatives once a second while records arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection
from typing import Any, Final

from ottla import aio
from ottla import errors as native
from ottla.compat.aiokafka.structs import TopicPartition

_INTERVAL: Final = 1.0


class Ends:
    """The ends that were found last."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], int] = {}
        self._read: dict[tuple[str, int], int] = {}
        self._is_wanted = False
        self._asked = 0.0
        self._fetched: int | None = None
        self._task: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """Forget the ends of an earlier assignment."""
        self._found, self._read = {}, {}

    def fetched(self, client: aio.Consumer) -> None:
        """Records came: ask for the ends if it is time."""
        self._fetched = int(time.time() * 1000)
        if self._task is not None and not self._task.done():
            return
        is_first = not self._found
        if is_first or (self._is_wanted and time.monotonic() - self._asked > _INTERVAL):
            assigned = client.assignment()
            if assigned:
                self._asked = time.monotonic()
                self._task = asyncio.ensure_future(self._ask(client, assigned))

    async def _ask(self, client: aio.Consumer, partitions: Collection[Any]) -> None:
        with contextlib.suppress(native.KafkaError):
            found = await client.end_offsets(partitions)
            self._found.update({(each[0], each[1]): offset for each, offset in found.items()})

    def read(self, topic: str, partition: int, following: int) -> None:
        """A record was returned: the end is not before the next one."""
        self._read[topic, partition] = following

    def of(self, partition: TopicPartition) -> int | None:
        """The end of a partition; None before the first records."""
        self._is_wanted = True
        pair = (partition.topic, partition.partition)
        known = [ends[pair] for ends in (self._found, self._read) if pair in ends]
        return max(known, default=None)

    def fetched_at(self, partition: TopicPartition) -> int | None:
        """When records came last, in milliseconds since 1970; None before the first ones."""
        return None if self.of(partition) is None else self._fetched

    def cancel(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
