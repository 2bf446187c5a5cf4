"""`AIOKafkaClient`: what a client knows of its cluster. It sends no requests of aiokafka's protocol classes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, NoReturn

from ottla import aio
from ottla import errors as native
from ottla.compat.aiokafka import errors
from ottla.compat.aiokafka._connection import Connection, abandon, as_value_error, connection, is_any_reachable, loop_of
from ottla.compat.aiokafka._translation import translated
from ottla.compat.aiokafka._version import CLIENT_ID
from ottla.compat.aiokafka.abc import AbstractTokenProvider
from ottla.compat.aiokafka.cluster import ClusterMetadata

__all__ = ["AIOKafkaClient"]


class AIOKafkaClient:
    """Finds brokers and topics.

    Args:
        loop: Deprecated.
        bootstrap_servers: `host[:port]` of one or more brokers, as text with commas or a list.
        client_id: The name of this client in brokers' logs.
        metadata_max_age_ms: Milliseconds until metadata are fetched again.
        request_timeout_ms: Milliseconds until a request fails.
        retry_backoff_ms: Milliseconds before a retry.
        ssl_context: The context for TLS; see `ottla.compat.aiokafka.helpers`.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        api_version: Deprecated, without effect.
        connections_max_idle_ms: Milliseconds until an idle connection is closed; None keeps it.
        sasl_mechanism: PLAIN, GSSAPI, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
        sasl_plain_username: The user for PLAIN and SCRAM.
        sasl_plain_password: The password.
        sasl_kerberos_service_name: The first part of the brokers' principal.
        sasl_kerberos_domain_name: The host in the brokers' principals; None takes that of each broker's address.
        sasl_oauth_token_provider: Provides tokens for OAUTHBEARER.

    Attributes:
        cluster: The metadata.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str] = "localhost",
        client_id: str | None = CLIENT_ID,
        metadata_max_age_ms: int = 300000,
        request_timeout_ms: int = 40000,
        retry_backoff_ms: int = 100,
        ssl_context: ssl.SSLContext | None = None,
        security_protocol: str = "PLAINTEXT",
        api_version: str | None = None,
        connections_max_idle_ms: int | None = 540000,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
    ) -> None:
        # Other clients pass their loop, so that it is no reason to warn.
        self._loop = loop_of(None, api_version) if loop is None else loop
        self._connection: Connection = connection(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            metadata_max_age_ms=metadata_max_age_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            security_protocol=security_protocol,
            ssl_context=ssl_context,
            connections_max_idle_ms=connections_max_idle_ms,
            sasl_mechanism=sasl_mechanism,
            sasl_plain_username=sasl_plain_username,
            sasl_plain_password=sasl_plain_password,
            sasl_kerberos_service_name=sasl_kerberos_service_name,
            sasl_kerberos_domain_name=sasl_kerberos_domain_name,
            sasl_oauth_token_provider=sasl_oauth_token_provider,
        )
        self.cluster = ClusterMetadata()
        self._topics: set[str] = set()
        self._admin: aio.Admin | None = None
        # Instrumentations read them.
        self._bootstrap_servers = self._connection.servers
        self._client_id = client_id

    async def bootstrap(self) -> None:
        """Find the brokers.

        Raises:
            KafkaConnectionError: None of `bootstrap_servers` can be reached, or none accepts the client.
        """
        limit = self._connection.request_timeout
        if not await is_any_reachable(self._connection.addresses, limit):
            raise errors.KafkaConnectionError(f"Unable to bootstrap from {self._connection.addresses}: nothing listens")
        try:
            self.cluster.describe_cluster(await self._administrator().describe_cluster(timeout=limit))
        except native.KafkaError as error:
            raise errors.KafkaConnectionError(
                f"Unable to bootstrap from {self._connection.addresses}: {error}"
            ) from error

    def _administrator(self) -> aio.Admin:
        if self._admin is None:
            try:
                self._admin = aio.Admin(config=self._connection.properties)
            except native.ConfigError as error:
                raise as_value_error(error) from error
        return self._admin

    async def close(self) -> None:
        """Close the connections. Closing twice does no harm."""
        admin, self._admin = self._admin, None
        if admin is not None:
            with translated():
                await admin.close()

    def _abandon(self) -> None:
        """Disconnect without waiting, for a client that nobody closed."""
        if self._admin is not None:
            abandon(self._admin)

    def force_metadata_update(self) -> asyncio.Future[bool]:
        """Fetch the metadata of all topics, or of those that were added.

        Returns: A future: whether it was possible.
        """
        return asyncio.ensure_future(self._update())

    async def _update(self) -> bool:
        """Fetch metadata; topics that were added and do not exist are created where brokers do that."""
        admin = self._administrator()
        try:
            self.cluster.describe_cluster(await admin.describe_cluster())
            for topic in self._topics - set(await admin.list_topics(internal=True)):
                await self._wait_on_metadata(topic)
            names = self._topics or await admin.list_topics(internal=True)
            found = await admin.describe_topics(list(names)) if names else {}
        except (native.KafkaError, errors.KafkaError):
            return False
        self.cluster.describe_topics(found.values(), is_all=not self._topics)
        return True

    async def fetch_all_metadata(self) -> ClusterMetadata:
        """Fetch the metadata of all topics.

        Raises:
            KafkaError: No broker responded in time.
        """
        found = ClusterMetadata()
        with translated():
            admin = self._administrator()
            found.describe_cluster(await admin.describe_cluster())
            names = await admin.list_topics(internal=True)
            topics = await admin.describe_topics(names) if names else {}
        found.describe_topics(topics.values(), is_all=True)
        return found

    def add_topic(self, topic: str) -> asyncio.Future[bool]:
        """Add a topic to those whose metadata are fetched.

        Returns: A future: whether the metadata could be fetched.
        """
        if topic in self._topics:
            done: asyncio.Future[bool] = self._loop.create_future()
            done.set_result(True)
            return done
        self._topics.add(topic)
        return self.force_metadata_update()

    def set_topics(self, topics: Iterable[str]) -> asyncio.Future[bool]:
        """Fetch the metadata of these topics only; of all topics if there are none.

        Returns: A future: whether the metadata could be fetched.
        """
        self._topics = set(topics)
        return self.force_metadata_update()

    async def _wait_on_metadata(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions. The topic is created where brokers do that.

        Raises:
            UnknownTopicOrPartitionError: The topic does not exist.
        """
        deadline = self._loop.time() + self._connection.request_timeout
        admin, is_created = self._administrator(), False
        with translated():
            while True:
                try:
                    described = await admin.describe_topics([topic])
                    break
                except native.NotFoundError:
                    left = deadline - self._loop.time()
                    if left <= 0:
                        raise
                    if not is_created:
                        await self._create(topic, left)
                        is_created = True
                    else:
                        # Another broker has created it, and this one does not know yet.
                        await asyncio.sleep(min(left, self._connection.retry_backoff))
        self.cluster.describe_topics(described.values(), is_all=False)
        return {each.partition for each in described[topic].partitions}

    async def _create(self, topic: str, timeout: float) -> None:
        """Request a topic as a consumer does, which creates it if the brokers are configured so."""
        properties = {
            **self._connection.properties,
            "allow.auto.create.topics": True,
            "auto.offset.reset": "earliest",
        }
        async with aio.Consumer(config=properties) as consumer:
            consumer.assign([(topic, 0)])
            await consumer.position((topic, 0), timeout=timeout)

    def get_random_node(self) -> int | str | None:
        """The id of some broker."""
        return next(iter(self.cluster._brokers), None)

    async def ready(self, node_id: int, **_group: Any) -> bool:
        """Whether the broker is known: ottla connects when a call needs it."""
        return node_id in self.cluster._brokers

    async def send(self, node_id: int, request: Any, **_group: Any) -> NoReturn:
        """Not supported: ottla has its own protocol classes.

        Args:
            node_id: A broker.
            request: A request of `aiokafka.protocol`.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"AIOKafkaClient.send({node_id}, {type(request).__name__}): ottla.compat.aiokafka sends no requests of "
            "aiokafka.protocol; use ottla.Admin, or ottla.protocol with a connection of your own"
        )
