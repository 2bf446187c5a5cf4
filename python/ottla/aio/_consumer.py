"""The consumer for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla import _ottla

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from ottla._ottla import Batch, Partition, Record, Servers
    from ottla._properties import ConfigValue, ConsumerProperties
    from ottla._types import OffsetAndTimestamp, TopicPartition


class Consumer:
    """Reads records, for asyncio. One task at a time polls; others may ask for offsets meanwhile.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topics: Topics of which all partitions are read, from where `auto.offset.reset` says.
        config: Properties by Kafka's names, such as `{"auto.offset.reset": "earliest"}`.
        **properties: The same with underscores, such as `auto_offset_reset="earliest"`.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    Example:
        ```python
        async with aio.Consumer("localhost:9092", topics=["flights"]) as consumer:
            async for record in consumer:
                print(record.value)
        ```
    """

    __slots__ = ("__weakref__", "_core")

    def __init__(
        self,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        **properties: Unpack[ConsumerProperties],
    ) -> None:
        self._core = _ottla.Consumer(bootstrap_servers, topics=topics, config=config, **properties)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions and no others. See `ottla.Consumer.assign`."""
        self._core.assign(partitions)

    def assignment(self) -> list[TopicPartition]:
        """List the partitions that are read. See `ottla.Consumer.assignment`."""
        return self._core.assignment()

    def seek(self, partition: Partition, offset: int | None = None) -> None:
        """Go on reading a partition at an offset. See `ottla.Consumer.seek`."""
        self._core.seek(partition, offset)

    def seek_to_beginning(self, partitions: Iterable[Partition] | None = None) -> None:
        """Go on reading at the first record there is. See `ottla.Consumer.seek_to_beginning`."""
        self._core.seek_to_beginning(partitions)

    def seek_to_end(self, partitions: Iterable[Partition] | None = None) -> None:
        """Go on reading after the last record there is. See `ottla.Consumer.seek_to_end`."""
        self._core.seek_to_end(partitions)

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Return no more records of these partitions. See `ottla.Consumer.pause`."""
        self._core.pause(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Return records of these partitions again. See `ottla.Consumer.resume`."""
        self._core.resume(partitions)

    def paused(self) -> list[TopicPartition]:
        """List the partitions that are paused."""
        return self._core.paused()

    async def poll(self, timeout: float | None = 1.0, *, max_records: int | None = None) -> Batch:
        """Wait for records. See `ottla.Consumer.poll`."""
        return cast("Batch", await self._core._poll(timeout, max_records))

    async def batches(self) -> AsyncIterator[Batch]:
        """Iterate over batches of records without end. See `ottla.Consumer.batches`."""
        while True:
            batch = await self.poll(None)
            if len(batch):
                yield batch

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over records without end, awaiting once for each batch."""
        core = self._core
        while True:
            record = core._next_record()
            if record is None:
                await core._iterate()
            else:
                yield record

    async def position(self, partition: Partition, timeout: float | None = None) -> int:
        """Find the offset of the next record that is read. See `ottla.Consumer.position`."""
        return cast("int", await self._core._position(partition, timeout))

    async def beginning_offsets(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Find the first offset of each partition. See `ottla.Consumer.beginning_offsets`."""
        return cast("dict[TopicPartition, int]", await self._core._beginning_offsets(partitions, timeout))

    async def end_offsets(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Find the offset after the last record of each partition. See `ottla.Consumer.end_offsets`."""
        return cast("dict[TopicPartition, int]", await self._core._end_offsets(partitions, timeout))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record at or after a time. See `ottla.Consumer.offsets_for_times`."""
        found = await self._core._offsets_for_times(timestamps, timeout)
        return cast("dict[TopicPartition, OffsetAndTimestamp | None]", found)

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """List the numbers of a topic's partitions. See `ottla.Consumer.partitions_for`."""
        return cast("list[int]", await self._core._partitions_for(topic, timeout))

    async def lag(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Count the records between the position and the end of each partition. See `ottla.Consumer.lag`."""
        return cast("dict[TopicPartition, int]", await self._core._lag(timeout))

    async def close(self, timeout: float | None = None) -> None:
        """Disconnect. See `ottla.Consumer.close`."""
        await self._core._close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> str:
        return self._core.__reduce__()
