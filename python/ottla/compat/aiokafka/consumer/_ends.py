"""The ends of the partitions, for `highwater` and `last_stable_offset`.

ottla has the ends in fetch responses, but no call that returns them without waiting. So they are requested with each
assignment, and after the first call of `highwater` or its relatives once a second while records arrive. With
`read_committed` the ends also move without records, so they are requested while a call waits for records.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from ottla import aio
from ottla import errors as native
from ottla.compat.aiokafka.structs import TopicPartition

_INTERVAL: Final = 1.0
_WAITING_INTERVAL: Final = 0.5


class Ends:
    """The ends that were found last.

    Args:
        admin: Returns the client that finds high watermarks; None with `read_uncommitted`, where the consumer does.
        is_waiting: Whether a call waits for records.
    """

    def __init__(self, admin: Callable[[], aio.Admin] | None, is_waiting: Callable[[], bool]) -> None:
        self._admin, self._is_waiting = admin, is_waiting
        self._watch: asyncio.Task[None] | None = None
        self._client: aio.Consumer | None = None
        self._found: dict[tuple[str, int], int] = {}
        self._high: dict[tuple[str, int], int] = {}
        self._read: dict[tuple[str, int], int] = {}
        self._is_wanted = False
        self._asked = 0.0
        self._fetched: int | None = None
        self._task: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """Forget the ends of an earlier assignment."""
        self._found, self._high, self._read = {}, {}, {}

    def fetched(self, client: aio.Consumer) -> None:
        """Records came: ask for the ends if it is time."""
        self._fetched = int(time.time() * 1000)
        self._client = client
        if self._admin is not None and self._watch is None:
            self._watch = asyncio.ensure_future(self._keep_asking())
        if self._task is not None and not self._task.done():
            return
        is_first = not self._found
        if is_first or (self._is_wanted and time.monotonic() - self._asked > _INTERVAL):
            assigned = client.assignment()
            if assigned:
                self._asked = time.monotonic()
                self._task = asyncio.ensure_future(self._ask(client, assigned))

    async def _keep_asking(self) -> None:
        while True:
            await asyncio.sleep(_WAITING_INTERVAL)
            client = self._client
            if client is not None and self._is_waiting() and (self._task is None or self._task.done()):
                await self._ask(client, client.assignment())

    async def _ask(self, client: aio.Consumer, partitions: Collection[Any]) -> None:
        with contextlib.suppress(native.KafkaError):
            found = await client.end_offsets(partitions)
            self._found.update({(each[0], each[1]): offset for each, offset in found.items()})
            if self._admin is None or not partitions:
                return
            wanted: dict[tuple[str, int], Any] = {(each[0], each[1]): "latest" for each in partitions}
            listed = await self._admin().list_offsets(wanted, isolation_level="read_uncommitted")
            self._high.update({(each[0], each[1]): of.offset for each, of in listed.items() if of.offset is not None})

    def read(self, topic: str, partition: int, following: int) -> None:
        """A record was returned: the end is not before the next one."""
        self._read[topic, partition] = following

    def of(self, partition: TopicPartition) -> int | None:
        """The end of a partition; None before the first records."""
        return self._last(self._found if self._admin is None else self._high, partition)

    def stable(self, partition: TopicPartition) -> int | None:
        """The offset before which no transaction is open; None before the first records."""
        return self._last(self._found, partition)

    def _last(self, found: dict[tuple[str, int], int], partition: TopicPartition) -> int | None:
        self._is_wanted = True
        pair = (partition.topic, partition.partition)
        return max((ends[pair] for ends in (found, self._read) if pair in ends), default=None)

    def fetched_at(self, partition: TopicPartition) -> int | None:
        """When records came last, in milliseconds since 1970; None before the first ones."""
        return None if self.of(partition) is None else self._fetched

    def cancel(self) -> None:
        """Ask no more."""
        for task in (self._task, self._watch):
            if task is not None:
                task.cancel()
