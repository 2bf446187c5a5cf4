"""The admin client for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from ottla import _ottla
from ottla._closing import CLOSE_TIMEOUT, NOT_CLOSED, exit_timeout, failure, left, noting
from ottla._habits import missing
from ottla._hints import ConfigValue, Servers, keywords
from ottla._later import uuid
from ottla._metrics import Metrics, check_callback
from ottla._numbers import after, milliseconds
from ottla._types import (
    ClusterDescription,
    DelegationToken,
    FencedProducer,
    GroupDescription,
    GroupListing,
    NewTopic,
    Partition,
    ProducerState,
    TopicDescription,
    TopicPartition,
    TransactionDescription,
    TransactionListing,
)
from ottla.aio._closing import disconnect, ended

# For threads: `from ottla import _reporting`
from ottla.aio._reporting import Reports
from ottla.aio._sasl import with_loop


class Admin:
    """Manages topics, groups and transactions, for asyncio. Tasks may share it.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        config: Properties by Kafka's names, such as `{"request.timeout.ms": 5000}`.
        on_metrics: A function, or an async one, that is called with `metrics()` every `metrics.interval.ms`, and once
            more by `close`. It runs on the loop, from the moment at which the client is made or entered there.
        **properties: The same properties as keywords, such as `request_timeout_ms=5000`. `ottla config admin` lists
            them all.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    If some of the topics or partitions of a call fail, the call raises the first error; its `failures` has the errors
    of all, by name or by `TopicPartition`. All others were done, also where the deadline passed. `may_be_done`
    of an error says whether its request may have been carried out.

    Example:
        ```python
        async with aio.Admin("localhost:9092") as admin:
            await admin.create_topics([ottla.NewTopic("flights", partitions=4)])
        ```
    """

    __slots__ = ("__weakref__", "_core", "_reports")

    def __init__(
        self,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        config: Mapping[str, ConfigValue] | None = None,
        on_metrics: Callable[[Metrics], object] | None = None,
        **properties: Unpack[keywords.AdminProperties],
    ) -> None:
        check_callback(on_metrics)
        self._core = _ottla.AdminCore(bootstrap_servers, config=with_loop(config), **with_loop(properties))
        # For threads: `self._reports = _reporting.start(self._core, on_metrics)`
        self._reports = Reports(self._core, on_metrics)

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
            AlreadyExistsError: A topic of that name exists. `may_be_done` is true if an earlier attempt of this call,
                whose response was lost, may have created it.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        listed = [topics] if isinstance(topics, (str, NewTopic)) else topics
        await self._core.call("create_topics", timeout, topics=listed, validate_only=validate_only)

    async def delete_topics(self, topics: str | Iterable[str], *, timeout: float | None = None) -> None:
        """Deletes topics and all their records.

        Args:
            topics: Names of topics.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: No topic of that name exists. `may_be_done` is true if an earlier attempt of this call, whose
                response was lost, may have deleted it.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        await self._core.call("delete_topics", timeout, topics=topics)

    async def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Lists the names of all topics, sorted.

        Args:
            internal: Whether to list Kafka's internal topics too.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        topics: list[str] = await self._core.call("list_topics", timeout, internal=internal)
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
        described: dict[str, TopicDescription] = await self._core.call("describe_topics", timeout, topics=topics)
        return described

    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """Describes the cluster: its id, its controller and its brokers (KIP-700).

        Brokers before Kafka 2.8 return it as metadata, without fenced brokers.

        Args:
            include_authorized_operations: Whether to return the operations that the client is authorized for (KIP-430,
                Kafka 2.3 and later).
            include_fenced_brokers: Whether to list fenced brokers too: registered, but not in service (KIP-1073, Kafka
                4.0 and later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            UnsupportedError: The brokers are too old for `include_fenced_brokers`.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        described: ClusterDescription = await self._core.call(
            "describe_cluster",
            timeout,
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )
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
        described: dict[TopicPartition, list[ProducerState]]
        described = await self._core.call("describe_producers", timeout, partitions=partitions)
        return described

    async def list_groups(self, *, timeout: float | None = None) -> list[GroupListing]:
        """Lists the groups that this client may see, sorted by id. Every broker answers for those that it coordinates.

        Without the permission to describe the cluster these are the groups that this client may describe.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Groups of every protocol and type.

        Raises:
            UnsupportedError: A broker is older than Kafka 0.9.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or one did not answer in time.
        """
        groups: list[GroupListing] = await self._core.call("list_groups", timeout)
        return groups

    async def describe_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Describes groups of the classic and of the consumer protocol (KIP-848), and their members.

        The coordinator of each group answers. For groups that it does not know as classic ones it is asked again.

        Args:
            groups: Ids of groups.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Descriptions by id.

        Raises:
            NotFoundError: There is no such group, or it is of a protocol that is neither of the two.
            AuthorizationError: This client may not describe the group.
            UnsupportedError: A broker is older than Kafka 0.9.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        described: dict[str, GroupDescription] = await self._core.call("describe_groups", timeout, groups=groups)
        return described

    async def list_transactions(self, *, timeout: float | None = None) -> list[TransactionListing]:
        """Lists the transactional ids that this client may describe, sorted (KIP-664, Kafka 3.0 and later).

        Every broker answers for those that it coordinates.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            UnsupportedError: A broker is too old to know.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or one did not answer in time.
        """
        found: list[TransactionListing] = await self._core.call("list_transactions", timeout)
        return found

    async def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Describes transactional ids and their last transactions (KIP-664, Kafka 3.0 and later).

        The coordinator of each transactional id answers. Of the partitions it tells those that this client may
        describe.

        Args:
            transactional_ids: Transactional ids.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Descriptions by transactional id.

        Raises:
            NotFoundError: No producer used such a transactional id, or not for long: for 7 days by default,
                `transactional.id.expiration.ms` of the broker.
            AuthorizationError: This client may not describe the transactional id.
            UnsupportedError: A coordinator is too old to know.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        described: dict[str, TransactionDescription]
        described = await self._core.call("describe_transactions", timeout, transactional_ids=transactional_ids)
        return described

    async def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fences the producers that use transactional ids now (KIP-664, Kafka 0.11 and later).

        What such a producer has open is aborted, also if it was prepared for a two-phase commit, and its next call
        about transactions raises `FencedError`. Each id's coordinator does it. An id that nobody used is made.

        Args:
            transactional_ids: Transactional ids.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Who the producer would be now, by transactional id.

        Raises:
            AuthorizationError: This client may not write with the transactional id.
            UnsupportedError: A coordinator is too old for transactions.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        fenced: dict[str, FencedProducer]
        fenced = await self._core.call("fence_producers", timeout, transactional_ids=transactional_ids)
        return fenced

    async def force_terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """Aborts what a transactional id has open, also what was prepared (KIP-939), and fences its producer.

        Args:
            transactional_id: The transactional id.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not write with the transactional id.
            UnsupportedError: The coordinator is too old for transactions.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        await self._core.call("fence_producers", timeout, transactional_ids=transactional_id)

    async def abort_transaction(
        self,
        partition: Partition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
        timeout: float | None = None,
    ) -> None:
        """Aborts a transaction that hangs in a partition because its coordinator knows nothing of it (KIP-664).

        `describe_producers` tells the producer, and both epochs. For a transaction that its coordinator knows, see
        `force_terminate_transaction`: to abort such a one here tears it.

        Args:
            partition: The partition as a `TopicPartition` or a pair.
            producer_id: The producer's id.
            producer_epoch: The producer's epoch.
            coordinator_epoch: The epoch of the coordinator of the producer's last transaction; -1 if it had none.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: The topic does not exist.
            ArgumentError: The topic has no such partition.
            AuthorizationError: This client may not alter the cluster.
            FencedError: The producer has another epoch by now.
            UnsupportedError: The leader is too old for transactions.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        await self._core.call(
            "abort_transaction",
            timeout,
            partition=partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )

    async def create_delegation_token(
        self,
        *,
        owner: tuple[str, str] | None = None,
        renewers: Iterable[tuple[str, str]] = (),
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Creates a delegation token (KIP-48, KIP-373).

        Args:
            owner: Type and name of whom it stands for, such as `("User", "alice")`; None for this client itself. For
                another, this client needs the permission to create tokens for it, and brokers of Kafka 3.3 or later.
            renewers: Types and names of who may renew it, beside its owner.
            max_lifetime: Seconds that it lives at most; None for as long as the broker allows.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The token, with its secret.

        Raises:
            UnsupportedError: The broker is older than Kafka 1.1.
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        lifetime = milliseconds("max_lifetime", max_lifetime)
        made: DelegationToken = await self._core.call(
            "create_delegation_token", timeout, owner=owner, renewers=list(renewers), max_lifetime_ms=lifetime
        )
        return made

    async def renew_delegation_token(
        self, token: DelegationToken | bytes, period: float | None = None, *, timeout: float | None = None
    ) -> int:
        """Makes a delegation token live longer.

        Args:
            token: The token, or its HMAC.
            period: Seconds from now; None for as long as the broker allows.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            When it ends, in milliseconds since 1970 UTC.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        hmac = token if isinstance(token, bytes) else token.hmac
        millis = milliseconds("period", period)
        expires: int = await self._core.call("renew_delegation_token", timeout, hmac=hmac, period_ms=millis)
        return expires

    async def expire_delegation_token(
        self, token: DelegationToken | bytes, period: float | None = None, *, timeout: float | None = None
    ) -> int:
        """Makes a delegation token end.

        Args:
            token: The token, or its HMAC.
            period: Seconds from now; None for at once.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            When it ends, in milliseconds since 1970 UTC.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        hmac = token if isinstance(token, bytes) else token.hmac
        millis = milliseconds("period", period)
        expires: int = await self._core.call("expire_delegation_token", timeout, hmac=hmac, period_ms=millis)
        return expires

    async def describe_delegation_tokens(
        self, owners: Iterable[tuple[str, str]] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """Describes the delegation tokens that this client may see, with their secrets.

        Args:
            owners: Types and names of owners; None for all.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused, or none answered in time.
        """
        wanted = None if owners is None else list(owners)
        found: list[DelegationToken]
        found = await self._core.call("describe_delegation_tokens", timeout, owners=wanted)
        return found

    def metrics(self) -> Metrics:
        """What the client measures of itself, at this moment, under the names of Kafka's Java client.

        Rates, averages and maxima are about the last `metrics.num.samples` samples of `metrics.sample.window.ms` each;
        totals count from the beginning. docs/reference/metrics.md lists all metrics.

        Returns:
            Values by `MetricName`.

        Raises:
            ClosedError: The client is closed.
        """
        return self._core.metrics()

    async def client_instance_id(self, timeout: float | None = None) -> uuid.UUID:
        """Asks for the id that brokers know this client by, as the metrics that it pushes carry it (KIP-714).

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            UnsupportedError: The brokers take no metrics of clients, or `enable.metrics.push` is false.
            ClosedError: The client is closed.
            KafkaError: No broker answered in time.
        """
        found: uuid.UUID = await self._core.client_instance_id(timeout)
        return found

    async def close(self, timeout: float | None = None) -> None:
        """Disconnects. Closing twice does no harm.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits 5.

        Raises:
            KafkaTimeoutError: Not all tasks ended in time. The client is closed anyway.
        """
        # Not for threads.
        if ended(self._core):
            return
        deadline = after(CLOSE_TIMEOUT if timeout is None else timeout)
        try:
            await disconnect(self._core, left(deadline))
        finally:
            # For threads: `_reporting.finish(self._core, left(deadline))`
            await self._reports.finish(left(deadline))

    async def __aenter__(self) -> Self:
        self._core.check()
        # Not for threads.
        self._reports.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with noting(failure(exc), NOT_CLOSED):
            await self.close(exit_timeout(self._core, exc))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Admin holds connections and cannot be pickled: send its options, and make the admin where it is used"
        )

    if not TYPE_CHECKING:  # A type checker would take every name for one that is there.

        def __getattr__(self, name: str) -> Any:
            raise missing("aio.Admin", name)
