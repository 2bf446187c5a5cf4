"""`AIOKafkaAdminClient`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla import NewPartitions as NativePartitions
from ottla import NewTopic as NativeTopic
from ottla import aio
from ottla import errors as native
from ottla.compat.aiokafka._translation import translated
from ottla.compat.aiokafka._version import CLIENT_ID
from ottla.compat.aiokafka.abc import AbstractTokenProvider
from ottla.compat.aiokafka.admin import _configs as configs
from ottla.compat.aiokafka.admin import _responses as responses
from ottla.compat.aiokafka.admin.config_resource import ConfigResource
from ottla.compat.aiokafka.admin.new_partitions import NewPartitions
from ottla.compat.aiokafka.admin.new_topic import NewTopic
from ottla.compat.aiokafka.admin.records_to_delete import RecordsToDelete
from ottla.compat.aiokafka.client import AIOKafkaClient
from ottla.compat.aiokafka.errors import IllegalStateError, for_code
from ottla.compat.aiokafka.structs import OffsetAndMetadata, TopicPartition

__all__ = ["AIOKafkaAdminClient"]


class AIOKafkaAdminClient:
    """Manages topics and groups.

    Args:
        loop: Deprecated.
        bootstrap_servers: `host[:port]` of one or more brokers, as text with commas or a list.
        client_id: The name of this client in brokers' logs.
        request_timeout_ms: Milliseconds until a call fails.
        connections_max_idle_ms: Milliseconds until an idle connection is closed; None keeps it.
        retry_backoff_ms: Milliseconds before a retry.
        metadata_max_age_ms: Milliseconds until metadata are fetched again.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        ssl_context: The context for TLS; see `ottla.compat.aiokafka.helpers`.
        api_version: Deprecated, without effect.
        sasl_mechanism: PLAIN, GSSAPI, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
        sasl_plain_username: The user for PLAIN and SCRAM.
        sasl_plain_password: The password.
        sasl_kerberos_service_name: The first part of the brokers' principal.
        sasl_kerberos_domain_name: The host in the brokers' principals; None takes that of each broker's address.
        sasl_oauth_token_provider: Provides tokens for OAUTHBEARER.

    Raises:
        ValueError: A parameter has a value that is not allowed.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str] = "localhost",
        client_id: str | None = CLIENT_ID,
        request_timeout_ms: int = 40000,
        connections_max_idle_ms: int | None = 540000,
        retry_backoff_ms: int = 100,
        metadata_max_age_ms: int = 300000,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        api_version: str | None = None,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
    ) -> None:
        self._closed = self._started = False
        self._client = AIOKafkaClient(
            loop=loop,
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            metadata_max_age_ms=metadata_max_age_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            ssl_context=ssl_context,
            security_protocol=security_protocol,
            api_version=api_version,
            connections_max_idle_ms=connections_max_idle_ms,
            sasl_mechanism=sasl_mechanism,
            sasl_plain_username=sasl_plain_username,
            sasl_plain_password=sasl_plain_password,
            sasl_kerberos_service_name=sasl_kerberos_service_name,
            sasl_kerberos_domain_name=sasl_kerberos_domain_name,
            sasl_oauth_token_provider=sasl_oauth_token_provider,
        )

    async def start(self) -> None:
        """Connect. Starting twice does no harm.

        Raises:
            KafkaConnectionError: No broker can be reached, or none accepts the client.
        """
        if not self._started:
            await self._client.bootstrap()
            self._started = True

    async def close(self) -> None:
        """Close the connections. Closing twice does no harm."""
        if not self._closed:
            await self._client.close()
            self._closed = True

    def __open(self) -> aio.Admin:
        if self._closed:
            raise IllegalStateError("the admin client is closed: make another one")
        return self._client._administrator()

    async def create_topics(
        self, new_topics: Iterable[NewTopic], timeout_ms: int | None = None, validate_only: bool = False
    ) -> responses.Created:
        """Create topics.

        Args:
            new_topics: The topics.
            timeout_ms: Milliseconds to wait at most.
            validate_only: Whether to check only.

        Returns: `topic_errors`: a topic, an error code and its text each.

        Raises:
            KafkaError: No broker responded in time.
        """
        listed = list(new_topics)
        if any(each.replica_assignments for each in listed):
            return await self.__create_assigned(listed, timeout_ms, validate_only)
        wanted = [
            NativeTopic(each.name, each.num_partitions, each.replication_factor, each.topic_configs or None)
            for each in listed
        ]
        return responses.Created(
            [
                (name, *code)
                for name, code in (
                    await self.__each(
                        self.__open().create_topics(wanted, validate_only=validate_only, timeout=_seconds(timeout_ms)),
                        [each.name for each in listed],
                    )
                ).items()
            ]
        )

    async def __create_assigned(
        self, topics: list[NewTopic], timeout_ms: int | None, validate_only: bool
    ) -> responses.Created:
        """Create topics whose replicas the program chose: `ottla.NewTopic` has no place for them."""
        message = {
            "topics": [
                {
                    "name": each.name,
                    "numPartitions": each.num_partitions,
                    "replicationFactor": each.replication_factor,
                    "assignments": [
                        {"partitionIndex": at, "brokerIds": list(brokers)}
                        for at, brokers in each.replica_assignments.items()
                    ],
                    "configs": [{"name": name, "value": value} for name, value in each.topic_configs.items()],
                }
                for each in topics
            ],
            "timeoutMs": timeout_ms or round(self._client._connection.request_timeout * 1000),
            "validateOnly": validate_only,
        }
        with translated():
            admin = self.__open()
            controller = (await admin.describe_cluster()).controller
            broker = None if controller is None else controller.id
            found = await admin.request("CreateTopics", message, broker=broker, timeout=_seconds(timeout_ms))
        return responses.Created([(each["name"], each["errorCode"], each["errorMessage"]) for each in found["topics"]])

    async def delete_topics(self, topics: Sequence[str], timeout_ms: int | None = None) -> responses.Deleted:
        """Delete topics.

        Args:
            topics: Their names.
            timeout_ms: Milliseconds to wait at most.

        Returns: `topic_error_codes`: a topic and an error code each.

        Raises:
            KafkaError: No broker responded in time.
        """
        call = self.__open().delete_topics(topics, timeout=_seconds(timeout_ms))
        codes = await self.__each(call, topics)
        return responses.Deleted([(name, code) for name, (code, _) in codes.items()])

    async def __each(self, call: Any, names: Sequence[str]) -> dict[str, tuple[int, str | None]]:
        """Await a call about topics: the error code and its text for each."""
        with translated():
            try:
                await call
            except native.KafkaError as error:
                return {name: responses.code_of(error, name) for name in names}
        return dict.fromkeys(names, (0, None))

    async def list_topics(self) -> list[str]:
        """The names of all topics, Kafka's internal ones included."""
        with translated():
            return await self.__open().list_topics(internal=True)

    async def describe_topics(self, topics: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Describe topics and their partitions.

        Args:
            topics: Their names; None describes all.

        Returns: A dict for each topic, with its name as `topic` and a dict for each of its `partitions`.

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        with translated():
            admin = self.__open()
            names = await admin.list_topics(internal=True) if topics is None else list(topics)
            found = await admin.describe_topics(names) if names else {}
        return [responses.topic(each) for each in found.values()]

    async def describe_cluster(self) -> dict[str, Any]:
        """Describe the cluster.

        Returns: `brokers`, a dict each, `cluster_id` and `controller_id`.
        """
        with translated():
            found = await self.__open().describe_cluster()
        self._client.cluster.describe_cluster(found)
        return {
            "brokers": [
                {"node_id": node.id, "host": node.host, "port": node.port, "rack": node.rack} for node in found.nodes
            ],
            "cluster_id": found.cluster_id,
            "controller_id": found.controller.id if found.controller is not None else -1,
        }

    async def _get_cluster_metadata(self, topics: Sequence[str] | None = None) -> responses.Metadata:
        return responses.Metadata((await self.describe_cluster())["brokers"], await self.describe_topics(topics))

    async def list_consumer_groups(self, broker_ids: Sequence[int] | None = None) -> list[tuple[str, str]]:
        """List groups.

        Args:
            broker_ids: Only the groups that these brokers coordinate; None for all.

        Returns: The name and the protocol type of each group.
        """
        with translated():
            admin = self.__open()
            if broker_ids is None:
                return [(each.group_id, each.protocol_type) for each in await admin.list_groups()]
            listed: set[tuple[str, str]] = set()
            for broker in broker_ids:
                found = await admin.request("ListGroups", broker=broker)
                if found["errorCode"]:
                    raise for_code(found["errorCode"])(f"broker {broker} listed no groups")
                listed.update((each["groupId"], each["protocolType"]) for each in found["groups"])
        return list(listed)

    async def describe_consumer_groups(
        self,
        group_ids: Sequence[str],
        group_coordinator_id: int | None = None,  # noqa: ARG002 ottla finds the coordinator
        include_authorized_operations: bool = False,
    ) -> list[responses.Groups]:
        """Describe groups.

        Args:
            group_ids: Their names.
            group_coordinator_id: The coordinator; ottla finds it in any case.
            include_authorized_operations: Whether to return the operations that the client is authorized for.

        Returns: A response for each group: its `groups` has one tuple of an error code, the name, the state, the
            protocol type, the protocol, the members and, if requested, a bit for each authorized operation.
        """
        with translated():
            found = await self.__open().describe_groups(
                list(group_ids), include_authorized_operations=include_authorized_operations
            )
        return [responses.group(found[name]) for name in group_ids]

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,  # noqa: ARG002 ottla finds the coordinator
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Find what a group has committed.

        Args:
            group_id: The group.
            group_coordinator_id: The coordinator; ottla finds it in any case.
            partitions: The partitions; None requests those of all topics, and returns those with an offset.

        Returns: The offset of the next record and its text; the offset is -1 where nothing is committed.
        """
        with translated():
            admin = self.__open()
            wanted = None if partitions is None else list(partitions)
            found = (await admin.list_group_offsets({group_id: wanted}))[group_id]
        return {
            TopicPartition(*tp): OffsetAndMetadata(-1, "") if at is None else OffsetAndMetadata(at.offset, at.metadata)
            for tp, at in found.items()
            if at is not None or wanted is not None
        }

    async def find_coordinator(self, group_id: str, coordinator_type: int = 0) -> int:
        """Find the broker that coordinates a group or a transactional id.

        Args:
            group_id: The group, or the transactional id.
            coordinator_type: 0 for a group, 1 for a transactional id.

        Returns: The broker's id.

        Raises:
            KafkaError: The brokers returned no coordinator.
        """
        with translated():
            found = await self.__open().request(
                "FindCoordinator", {"key": group_id, "keyType": coordinator_type}, version=1
            )
        if found["errorCode"]:
            raise for_code(found["errorCode"])(f"the brokers returned no coordinator of {group_id}")
        node: int = found["nodeId"]
        return node

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions],
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> responses.Created:
        """Add partitions to topics.

        Args:
            topic_partitions: How many partitions each topic is to have.
            timeout_ms: Milliseconds to wait at most.
            validate_only: Whether to check only.

        Returns: `topic_errors`: a topic, 0 and None each.

        Raises:
            KafkaError: The brokers refused, or none responded in time.
        """
        wanted = [
            NativePartitions(name, each.total_count, _lists(each.new_assignments))
            for name, each in topic_partitions.items()
        ]
        with translated():
            await self.__open().create_partitions(wanted, validate_only=validate_only, timeout=_seconds(timeout_ms))
        return responses.Created([(name, 0, None) for name in topic_partitions])

    async def describe_configs(
        self, config_resources: Sequence[ConfigResource], include_synonyms: bool = False
    ) -> list[configs.Configs]:
        """Describe configurations.

        Args:
            config_resources: What to describe. The keys of `configs` select properties; None describes all.
            include_synonyms: Whether to return all places that set a property.

        Returns: A response for each broker and one for all topics; its `resources` have error codes and entries.

        Raises:
            KafkaError: No broker responded in time.
        """
        with translated():
            return await configs.describe(self.__open(), config_resources, include_synonyms)

    async def alter_configs(self, config_resources: Sequence[ConfigResource]) -> list[configs.Configs]:
        """Replace configurations: what `configs` does not set goes back to its default.

        Args:
            config_resources: What to alter.

        Returns: A response for all topics and one for each broker; its `resources` have error codes.

        Raises:
            KafkaError: No broker responded in time.
        """
        with translated():
            return await configs.alter(self.__open(), config_resources)

    async def delete_records(
        self, records_to_delete: Mapping[TopicPartition, RecordsToDelete], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Delete records.

        Args:
            records_to_delete: The first offset that stays, by partition.
            timeout_ms: Milliseconds to wait at most.

        Returns: The first offset of each partition's log.

        Raises:
            KafkaError: A broker refused, or none responded in time.
        """
        offsets = {(tp.topic, tp.partition): each.before_offset for tp, each in records_to_delete.items()}
        with translated():
            found = await self.__open().delete_records(offsets, timeout=_seconds(timeout_ms))
        return {TopicPartition(*tp): offset for tp, offset in found.items()}


def _lists(assignments: Sequence[Sequence[int]] | None) -> list[list[int]] | None:
    return None if assignments is None else [list(each) for each in assignments]


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
