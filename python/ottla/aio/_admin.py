"""The admin client for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ottla import _ottla
from ottla._habits import missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from ottla._ottla import Partition, Servers
    from ottla._properties import AdminProperties, ConfigValue
    from ottla._types import NewTopic, ProducerState, TopicDescription, TopicPartition


class Admin:
    """Manages topics, for asyncio.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        config: Properties by Kafka's names, such as `{"request.timeout.ms": 5000}`.
        **properties: The same properties as keywords, such as `request_timeout_ms=5000`. `ottla config admin` lists
            them all.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    If some of the topics or partitions of a call fail, the call raises the first error; its `failures` has the errors
    of all, by name or by `TopicPartition`.

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
        self._core = _ottla.AdminCore(bootstrap_servers, config=config, **properties)

    async def create_topics(
        self,
        topics: NewTopic | str | Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Creates topics.

        Args:
            topics: `NewTopic`s; a name alone means a topic with one partition.
            validate_only: Only checks whether the topics could be created.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AlreadyExistsError: A topic of that name exists.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        await self._core.create_topics(topics, validate_only, timeout)

    async def delete_topics(self, topics: str | Iterable[str], *, timeout: float | None = None) -> None:
        """Deletes topics and all their records.

        Args:
            topics: Names of topics.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: No topic of that name exists.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        await self._core.delete_topics(topics, timeout)

    async def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Lists the names of all topics, sorted.

        Args:
            internal: Whether to list Kafka's internal topics too.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        topics: list[str] = await self._core.list_topics(internal, timeout)
        return topics

    async def describe_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Describes topics and their partitions.

        Args:
            topics: Names of topics.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Descriptions by name.

        Raises:
            NotFoundError: No topic of that name exists.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        described: dict[str, TopicDescription] = await self._core.describe_topics(topics, timeout)
        return described

    async def describe_producers(
        self, partitions: Iterable[Partition], *, timeout: float | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Tells which idempotent and transactional producers write to partitions (KIP-664, Kafka 2.8 and later).

        The leader of each partition answers. It forgets a producer that has been idle for long: for a day by default,
        `producer.id.expiration.ms` of the broker.

        Args:
            partitions: Partitions as `TopicPartition`s or pairs.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The producers of each partition, in the order of their ids.

        Raises:
            NotFoundError: A topic or a partition does not exist.
            UnsupportedError: A leader is too old to know.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        described: dict[TopicPartition, list[ProducerState]] = await self._core.describe_producers(partitions, timeout)
        return described

    async def close(self, timeout: float | None = None) -> None:
        """Disconnects. Closing twice does no harm.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits 5.

        Raises:
            KafkaTimeoutError: Not all tasks ended in time. The client is closed anyway.
        """
        await self._core.close(timeout)

    async def __aenter__(self) -> Self:
        self._core.check()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Admin holds connections and cannot be pickled: send its options, and make the admin where it is used"
        )

    if not TYPE_CHECKING:  # A type checker would take every name for one that is there.

        def __getattr__(self, name: str) -> Any:
            raise missing("aio.Admin", name)
