"""The admin client for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla import _ottla

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from ottla._ottla import Servers
    from ottla._properties import AdminProperties, ConfigValue
    from ottla._types import NewTopic, TopicDescription


class Admin:
    """Manages topics, for asyncio.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        config: Properties by Kafka's names, such as `{"request.timeout.ms": 5000}`.
        **properties: The same with underscores, such as `request_timeout_ms=5000`.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    Example:
        ```python
        async with aio.Admin("localhost:9092") as admin:
            await admin.create_topics([ottla.NewTopic("flights", partitions=4)])
        ```
    """

    __slots__ = ("__weakref__", "_core")

    def __init__(
        self,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        config: Mapping[str, ConfigValue] | None = None,
        **properties: Unpack[AdminProperties],
    ) -> None:
        self._core = _ottla.Admin(bootstrap_servers, config=config, **properties)

    async def create_topics(
        self,
        topics: NewTopic | str | Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Create topics. See `ottla.Admin.create_topics`."""
        await self._core._create_topics(topics, validate_only, timeout)

    async def delete_topics(self, topics: str | Iterable[str], *, timeout: float | None = None) -> None:
        """Delete topics. See `ottla.Admin.delete_topics`."""
        await self._core._delete_topics(topics, timeout)

    async def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """List the names of topics. See `ottla.Admin.list_topics`."""
        return cast("list[str]", await self._core._list_topics(internal, timeout))

    async def describe_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Describe topics and their partitions. See `ottla.Admin.describe_topics`."""
        return cast("dict[str, TopicDescription]", await self._core._describe_topics(topics, timeout))

    async def close(self, timeout: float | None = None) -> None:
        """Disconnect. See `ottla.Admin.close`."""
        await self._core._close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> str:
        return self._core.__reduce__()
