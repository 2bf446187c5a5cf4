"""The producer for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla import _ottla

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from ottla._ottla import ArrowArray, ArrowStream, AsyncDeliveries, AsyncDelivery, Data, Headers, Servers
    from ottla._properties import ConfigValue, ProducerProperties


class Producer:
    """Sends records, for asyncio. It belongs to no loop: several threads, with a loop each, may share it.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        config: Properties by Kafka's names, such as `{"linger.ms": 5}`.
        **properties: The same with underscores, such as `linger_ms=5`.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    Example:
        ```python
        async with aio.Producer("localhost:9092") as producer:
            delivery = await producer.send("flights", b"N123")
            print((await delivery).offset)
        ```
    """

    __slots__ = ("__weakref__", "_core")

    def __init__(
        self,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        config: Mapping[str, ConfigValue] | None = None,
        **properties: Unpack[ProducerProperties],
    ) -> None:
        self._core = _ottla.Producer(bootstrap_servers, config=config, **properties)

    async def send(
        self,
        topic: str,
        value: Data | None = None,
        *,
        key: Data | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
    ) -> AsyncDelivery:
        """Put a record into its batch, waiting only where there is no room for it.

        See `ottla.Producer.send` for the arguments and errors.

        Returns:
            The record's delivery: await it for where the record was written.
        """
        sent = self._core._send(topic, value, key, partition, timestamp, headers)
        if isinstance(sent, _ottla.AsyncDelivery):
            return sent
        return cast("AsyncDelivery", await sent)

    async def send_many(
        self,
        topic: str,
        values: Iterable[Data | None] | ArrowArray | ArrowStream,
        *,
        keys: Iterable[Data | None] | None = None,
        partitions: Iterable[int | None] | None = None,
        timestamps: Iterable[int | None] | None = None,
        headers: Iterable[Headers | None] | None = None,
    ) -> AsyncDeliveries:
        """Send many records in one call, waiting only where there is no room. See `ottla.Producer.send_many`."""
        sent = self._core._send_many(topic, values, keys, partitions, timestamps, headers)
        return cast("AsyncDeliveries", await sent)

    async def send_arrow(self, topic: str | None, data: ArrowArray | ArrowStream) -> AsyncDeliveries:
        """Send the rows of a table, waiting only where there is no room. See `ottla.Producer.send_arrow`."""
        return cast("AsyncDeliveries", await self._core._send_arrow(topic, data))

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent so far is delivered or has failed. See `ottla.Producer.flush`."""
        await self._core._flush(timeout)

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """List the numbers of a topic's partitions. See `ottla.Producer.partitions_for`."""
        return cast("list[int]", await self._core._partitions_for(topic, timeout))

    async def close(self, timeout: float | None = None) -> None:
        """Flush and disconnect. See `ottla.Producer.close`."""
        await self._core._close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> str:
        return self._core.__reduce__()
