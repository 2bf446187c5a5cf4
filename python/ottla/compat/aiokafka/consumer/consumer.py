"""`AIOKafkaConsumer`."""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from ottla import aio
from ottla import errors as native
from ottla._assignors import Assignor
from ottla._ottla import Record
from ottla._types import OffsetAndMetadata as NativeOffset
from ottla.compat.aiokafka._connection import abandon, loop_of
from ottla.compat.aiokafka._offsets import checked_offsets
from ottla.compat.aiokafka._translation import translated
from ottla.compat.aiokafka._version import CLIENT_ID
from ottla.compat.aiokafka.abc import AbstractTokenProvider, ConsumerRebalanceListener
from ottla.compat.aiokafka.client import AIOKafkaClient
from ottla.compat.aiokafka.consumer._reader import Reader
from ottla.compat.aiokafka.consumer._settings import Settings
from ottla.compat.aiokafka.consumer.group_coordinator import GroupCoordinator
from ottla.compat.aiokafka.consumer.subscription_state import SubscriptionState
from ottla.compat.aiokafka.coordinator._bridge import strategy
from ottla.compat.aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from ottla.compat.aiokafka.errors import (
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    KafkaTimeoutError,
    RecordTooLargeError,
)
from ottla.compat.aiokafka.structs import ConsumerRecord, OffsetAndTimestamp, TopicPartition

__all__ = ["AIOKafkaConsumer"]
_NOT_STARTED: Final = "the consumer is not started: call start() first"


class AIOKafkaConsumer:
    """Reads records. The group is joined, and rebalances, in the background.

    Args:
        *topics: Topics to subscribe to.
        loop: Deprecated.
        bootstrap_servers: `host[:port]` of one or more brokers, as text with commas or a list.
        client_id: The name of this client in brokers' logs.
        group_id: The group; None reads all partitions, and cannot commit.
        group_instance_id: The id of a static member (KIP-345).
        key_deserializer: Called with the key of each record.
        value_deserializer: Called with the value of each record.
        fetch_max_wait_ms: Milliseconds that a broker waits for `fetch_min_bytes`.
        fetch_max_bytes: The most bytes of a fetch.
        fetch_min_bytes: The least bytes of a fetch.
        max_partition_fetch_bytes: The most bytes of a partition in a fetch.
        request_timeout_ms: Milliseconds until a request fails.
        retry_backoff_ms: Milliseconds before a retry.
        auto_offset_reset: "earliest", "latest" or "none": where a partition begins without a committed offset.
        enable_auto_commit: Whether offsets of returned records are committed in the background.
        auto_commit_interval_ms: Milliseconds between two of these commits.
        check_crcs: Whether checksums are verified.
        metadata_max_age_ms: Milliseconds until metadata are fetched again, and until new topics are looked for.
        partition_assignment_strategy: Assignors, in the order of preference.
        max_poll_interval_ms: Milliseconds between two calls for records, until the consumer leaves its group.
        rebalance_timeout_ms: Milliseconds that a rebalance waits for this member, and for its listener; None is
            `max_poll_interval_ms`.
        session_timeout_ms: Milliseconds without a heartbeat until the group continues without this member.
        heartbeat_interval_ms: Milliseconds between two heartbeats.
        consumer_timeout_ms: No effect: ottla has no such timeout.
        max_poll_records: The most records of a `getmany`.
        ssl_context: The context for TLS; see `ottla.compat.aiokafka.helpers`.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        api_version: Deprecated, without effect.
        exclude_internal_topics: Whether patterns do not match Kafka's internal topics.
        connections_max_idle_ms: Milliseconds until an idle connection is closed; None keeps it.
        isolation_level: "read_uncommitted" or "read_committed".
        sasl_mechanism: PLAIN, GSSAPI, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
        sasl_plain_password: The password for PLAIN and SCRAM.
        sasl_plain_username: The user.
        sasl_kerberos_service_name: The first part of the brokers' principal.
        sasl_kerberos_domain_name: The host in the brokers' principals; None takes that of each broker's address.
        sasl_oauth_token_provider: Provides tokens for OAUTHBEARER.
        client_rack: The rack of this client: a replica there is read (KIP-392).

    Raises:
        ValueError: A parameter has a value that is not allowed.
    """

    _closed: bool | None = None
    _source_traceback: traceback.StackSummary | None = None

    def __init__(
        self,
        *topics: str,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str] = "localhost",
        client_id: str | None = CLIENT_ID,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        key_deserializer: Callable[[Any], Any] | None = None,
        value_deserializer: Callable[[Any], Any] | None = None,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52428800,
        fetch_min_bytes: int = 1,
        max_partition_fetch_bytes: int = 1024 * 1024,
        request_timeout_ms: int = 40000,
        retry_backoff_ms: int = 100,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5000,
        check_crcs: bool = True,
        metadata_max_age_ms: int = 300000,
        partition_assignment_strategy: Iterable[Any] = (RoundRobinPartitionAssignor,),
        max_poll_interval_ms: int = 300000,
        rebalance_timeout_ms: int | None = None,
        session_timeout_ms: int = 10000,
        heartbeat_interval_ms: int = 3000,
        consumer_timeout_ms: int = 200,  # noqa: ARG002 it tunes aiokafka's fetcher
        max_poll_records: int | None = None,
        ssl_context: ssl.SSLContext | None = None,
        security_protocol: str = "PLAINTEXT",
        api_version: str | None = None,
        exclude_internal_topics: bool = True,
        connections_max_idle_ms: int | None = 540000,
        isolation_level: str = "read_uncommitted",
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
        client_rack: str | None = None,
    ) -> None:
        self._loop = loop_of(loop, api_version)
        if self._loop.get_debug():
            self._source_traceback = traceback.extract_stack(sys._getframe(1))
        if max_poll_records is not None and (not isinstance(max_poll_records, int) or max_poll_records < 1):
            raise ValueError(f"`max_poll_records` should be positive Integer, and is {max_poll_records!r}")
        if isolation_level not in {"read_uncommitted", "read_committed"}:
            raise ValueError(f"Incorrect isolation level {isolation_level}")
        self._client = AIOKafkaClient(
            loop=self._loop,
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            metadata_max_age_ms=metadata_max_age_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            ssl_context=ssl_context,
            security_protocol=security_protocol,
            connections_max_idle_ms=connections_max_idle_ms,
            sasl_mechanism=sasl_mechanism,
            sasl_plain_username=sasl_plain_username,
            sasl_plain_password=sasl_plain_password,
            sasl_kerberos_service_name=sasl_kerberos_service_name,
            sasl_kerberos_domain_name=sasl_kerberos_domain_name,
            sasl_oauth_token_provider=sasl_oauth_token_provider,
        )
        properties: dict[str, Any] = {
            **self._client._connection.properties,
            "fetch.max.wait.ms": fetch_max_wait_ms,
            "fetch.max.bytes": fetch_max_bytes,
            "fetch.min.bytes": fetch_min_bytes,
            "max.partition.fetch.bytes": max_partition_fetch_bytes,
            "auto.offset.reset": auto_offset_reset,
            "check.crcs": check_crcs,
            "isolation.level": isolation_level,
            # A request for metadata creates a topic, as aiokafka's does.
            "allow.auto.create.topics": True,
        }
        assignors: list[str | Assignor] = []
        if group_id is not None:
            assignors = strategy(partition_assignment_strategy)
            properties |= {
                "group.id": group_id,
                "enable.auto.commit": enable_auto_commit,
                "auto.commit.interval.ms": auto_commit_interval_ms,
                "partition.assignment.strategy": assignors,
                "session.timeout.ms": session_timeout_ms,
                "heartbeat.interval.ms": heartbeat_interval_ms,
                "max.poll.interval.ms": rebalance_timeout_ms or max_poll_interval_ms,
            }
            if group_instance_id is not None:
                properties["group.instance.id"] = group_instance_id
        if client_rack is not None:
            properties["client.rack"] = client_rack
        self._group_id, self._group_instance_id = group_id, group_instance_id
        self._key_deserializer, self._value_deserializer = key_deserializer, value_deserializer
        self._max_poll_records = max_poll_records
        self._isolation_level = isolation_level
        self._request_timeout = request_timeout_ms / 1000
        self._subscription = SubscriptionState(self._loop)
        settings = Settings(
            properties,
            group_id,
            tuple(each for each in assignors if isinstance(each, Assignor)),
            max_poll_interval_ms / 1000,
            not exclude_internal_topics,
            self._request_timeout,
            metadata_max_age_ms / 1000,
        )
        self._reader = Reader(self._loop, settings, self._client, self._subscription)
        # Programs and instrumentations look at them.
        self._fetcher: Reader | None = None
        self._coordinator = GroupCoordinator(
            group_id,
            self._reader,
            session_timeout_ms,
            heartbeat_interval_ms,
            retry_backoff_ms,
            auto_commit_interval_ms,
            exclude_internal_topics,
            enable_auto_commit,
        )
        self._closed = False
        if topics:
            self._subscription.subscribe(self.__checked_topics(topics), None, None)

    def __del__(self, _warnings: Any = warnings) -> None:
        if self._closed is False:
            if not self._loop.is_closed():
                self._reader.cancel()
            self._client._abandon()
            if self._reader.client is not None:
                abandon(self._reader.client)
            _warnings.warn(f"Unclosed AIOKafkaConsumer {self!r}", ResourceWarning, source=self)
            context: dict[str, Any] = {"consumer": self, "message": "Unclosed AIOKafkaConsumer"}
            if self._source_traceback is not None:
                context["source_traceback"] = self._source_traceback
            self._loop.call_exception_handler(context)

    async def start(self) -> None:
        """Connect, find the topics, and wait for the first assignment of the group.

        Raises:
            KafkaConnectionError: No broker can be reached, or none accepts the client.
            KafkaError: A topic or the group is not available.
        """
        if self._fetcher is not None:
            raise AssertionError("Did you call `start` twice?")
        await self._client.bootstrap()
        self._fetcher = self._reader
        with translated():
            await self._reader.start()

    async def stop(self) -> None:
        """Commit with `enable_auto_commit`, leave the group, and close the connections. Stopping twice does no harm."""
        if self._closed:
            return
        self._closed = True
        await self._reader.stop()
        await self._client.close()

    @staticmethod
    def __checked_topics(topics: Any) -> set[str]:
        if not isinstance(topics, tuple | set | list | frozenset):
            raise TypeError(f"Topics should be list of strings, and are {topics!r}")
        return set(topics)

    def __consumer(self) -> aio.Consumer:
        """The client of ottla.

        Raises:
            ConsumerStoppedError: The consumer is stopped.
            IllegalStateError: It is not started.
        """
        if self._closed:
            raise ConsumerStoppedError("the consumer is stopped")
        if self._reader.client is None:
            raise IllegalStateError(_NOT_STARTED)
        return self._reader.client

    def __check_started(self) -> None:
        if self._fetcher is None and not self._closed:
            raise IllegalStateError(_NOT_STARTED)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others.

        Args:
            partitions: The partitions.

        Raises:
            IllegalStateError: Topics or a pattern are subscribed to.
        """
        self._subscription.assign(TopicPartition(*each) for each in partitions)
        with translated():
            self._reader.apply()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are assigned now."""
        return set(self._subscription.current or ())

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to those that match a pattern. It replaces what was subscribed to.

        Args:
            topics: The topics.
            pattern: A regular expression of Python for the beginning of names.
            listener: Is called in rebalances.

        Raises:
            TypeError: Both or none are passed, `topics` is no list, or `listener` is no ConsumerRebalanceListener.
            ValueError: The pattern is no regular expression.
            IllegalStateError: There is a subscription of another kind.
        """
        if not (topics or pattern):
            raise TypeError("You should provide either `topics` or `pattern`")
        if topics and pattern:
            raise TypeError("You can't provide both `topics` and `pattern`")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError(f"listener should be an instance of ConsumerRebalanceListener, and is {listener!r}")
        compiled = None
        if pattern is not None:
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
        wanted = set() if compiled else self.__checked_topics(topics)
        self._subscription.subscribe(wanted, compiled, listener)
        with translated():
            self._reader.apply()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to, or that the pattern matches."""
        return self._subscription.topics

    def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        self._reader.unsubscribe()

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Commit offsets.

        Args:
            offsets: By partition, the offset of the next record, or the offset and a text. Without it, the positions of
                all assigned partitions.

        Raises:
            CommitFailedError: The group has given the partitions to other members.
            IllegalOperation: There is no `group_id`.
            IllegalStateError: A partition is not assigned.
            ValueError: `offsets` is empty, or has another form.
        """
        if self._group_id is None:
            raise IllegalOperation("commit requires group_id")
        if self._subscription.subscription is None:
            raise IllegalStateError("Not subscribed to any topics")
        client = self.__consumer()
        if self._subscription.current is None:
            raise IllegalStateError("No partitions assigned")
        found: dict[tuple[str, int], NativeOffset] | None = None
        if offsets is not None:
            checked = checked_offsets(offsets)
            for each in checked:
                self.__require_assigned(each)
            found = {(tp.topic, tp.partition): NativeOffset(at.offset, at.metadata) for tp, at in checked.items()}
        await self._reader.leave_before()
        with translated():
            await client.commit(found)

    async def committed(self, partition: TopicPartition) -> int | None:
        """Find what the group has committed for a partition.

        Args:
            partition: The partition.

        Returns: The offset of the next record; None if nothing is committed.

        Raises:
            IllegalOperation: There is no `group_id`.
        """
        if self._group_id is None:
            raise IllegalOperation("committed requires group_id")
        with translated():
            found = await self.__consumer().committed([partition])
        at = next(iter(found.values()), None)
        return None if at is None else at.offset

    async def topics(self) -> set[str]:
        """The names of all topics."""
        return (await self._client.fetch_all_metadata()).topics()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of a topic's partitions; None if the topic is not known.

        Args:
            topic: The topic's name.
        """
        return self._client.cluster.partitions_for_topic(topic)

    def __require_assigned(self, *partitions: TopicPartition) -> None:
        missing = set(partitions) - self.assignment()
        if missing:
            named = ", ".join(map(str, sorted(missing)))
            raise IllegalStateError(f"Partition {named} is not assigned")

    async def position(self, partition: TopicPartition) -> int:
        """Find the offset of the next record.

        Args:
            partition: An assigned partition.

        Raises:
            IllegalStateError: The partition is not assigned.
        """
        self.__require_assigned(partition)
        while True:
            client = self.__consumer()
            try:
                return await client.position(partition)
            except (native.ArgumentError, native.ClosedError) as error:
                if self._subscription.subscription is None or self._subscription.is_assigned:
                    raise IllegalStateError(f"Partition {partition} is not assigned: {error}") from error
            except native.KafkaError:
                with translated():
                    raise
            # A rebalance came in between.
            await self._subscription.wait_for_assignment()
            self.__require_assigned(partition)

    def highwater(self, partition: TopicPartition) -> int | None:
        """The end of a partition, as it was found last.

        Args:
            partition: An assigned partition.

        Returns: The offset after the last record; None before the first records.
        """
        self.__require_assigned(partition)
        return self._reader.ends.of(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The offset before which no transaction is open, as it was found last.

        Args:
            partition: An assigned partition.

        Returns: The offset; -1 with `read_uncommitted`, None before the first records.
        """
        self.__require_assigned(partition)
        return -1 if self._isolation_level == "read_uncommitted" else self._reader.ends.stable(partition)

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """When records came last.

        Args:
            partition: An assigned partition.

        Returns: Milliseconds since 1970 UTC; None before the first records.
        """
        self.__require_assigned(partition)
        return self._reader.ends.fetched_at(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset of the next record.

        Args:
            partition: An assigned partition.
            offset: The offset.

        Raises:
            ValueError: The offset is no int, or negative.
            IllegalStateError: The partition is not assigned.
        """
        if not isinstance(offset, int) or offset < 0:
            raise ValueError(f"Offset must be a positive integer, and is {offset!r}")
        with translated():
            self.__consumer().seek(partition, offset)
        self._reader.moved()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Go to the first record.

        Args:
            *partitions: Assigned partitions; without any, all of them.

        Returns: Whether the positions are known.

        Raises:
            TypeError: One is no TopicPartition.
            IllegalStateError: One is not assigned.
        """
        return await self.__seek_to(partitions, end=False)

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Go to the end.

        Args:
            *partitions: Assigned partitions; without any, all of them.

        Returns: Whether the positions are known.

        Raises:
            TypeError: One is no TopicPartition.
            IllegalStateError: One is not assigned.
        """
        return await self.__seek_to(partitions, end=True)

    async def __seek_to(self, partitions: tuple[TopicPartition, ...], *, end: bool) -> bool:
        chosen = self.__chosen(partitions)
        client = self.__consumer()
        with translated():
            client._core.seek_to(chosen, end=end)
            self._reader.moved()
            for each in chosen:
                await client.position(each)
        return True

    def __chosen(self, partitions: tuple[TopicPartition, ...]) -> list[TopicPartition]:
        """The partitions of a call.

        Raises:
            TypeError: One is no TopicPartition.
            IllegalStateError: One is not assigned, or none is.
        """
        self.__check_types(partitions)
        if partitions:
            self.__require_assigned(*partitions)
            return list(partitions)
        assigned = sorted(self.assignment())
        if not assigned:
            raise IllegalStateError("No partitions are currently assigned")
        return assigned

    @staticmethod
    def __check_types(partitions: tuple[Any, ...]) -> None:
        if not all(isinstance(each, TopicPartition) for each in partitions):
            raise TypeError(f"partitions must be TopicPartition instances, and are {partitions!r}")

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Go to what the group has committed.

        Args:
            *partitions: Assigned partitions; without any, all of them.

        Returns: The committed offsets.

        Raises:
            TypeError: One is no TopicPartition.
            IllegalStateError: One is not assigned.
            IllegalOperation: There is no `group_id`.
        """
        found = {}
        for each in self.__chosen(partitions):
            found[each] = offset = await self.committed(each)
            if offset:
                self.seek(each, offset)
        return found

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record at or after a time.

        Args:
            timestamps: Milliseconds since 1970 UTC, by partition.

        Returns: None for a partition without such a record.

        Raises:
            ValueError: A time is negative.
            KafkaTimeoutError: The brokers did not respond in time, or there is no such partition.
        """
        wanted: dict[tuple[str, int], int | datetime] = {}
        for tp, at in timestamps.items():
            wanted[tp] = int(at)
            if at < 0:
                raise ValueError(f"The target time for partition {tp} is {at}. The target time cannot be negative.")
        if not wanted:
            return {}
        found = await self.__find(self.__consumer().offsets_for_times(wanted))
        return {tp: None if at is None else OffsetAndTimestamp(*at) for tp, at in found.items()}

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Find the first offsets.

        Args:
            partitions: The partitions.

        Raises:
            KafkaTimeoutError: The brokers did not respond in time, or there is no such partition.
        """
        return await self.__find(self.__consumer().beginning_offsets(partitions))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Find the offsets after the last records.

        Args:
            partitions: The partitions.

        Raises:
            KafkaTimeoutError: The brokers did not respond in time, or there is no such partition.
        """
        return await self.__find(self.__consumer().end_offsets(partitions))

    @staticmethod
    async def __find(call: Any) -> dict[TopicPartition, Any]:
        try:
            found = await call
        except (native.NotFoundError, native.ArgumentError) as error:
            raise KafkaTimeoutError(str(error)) from error
        except native.KafkaError:
            with translated():
                raise
        return {TopicPartition(*tp): value for tp, value in found.items()}

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """Wait for a record.

        Args:
            *partitions: The partitions to read; without any, all of them.

        Raises:
            ConsumerStoppedError: The consumer is stopped, or was stopped meanwhile.
            IllegalStateError: The consumer is not started.
            KafkaError: A partition or the group is not available.
        """
        self.__check_started()
        wanted = self.__filter(partitions)
        reader = self._reader
        with reader.call():
            while True:
                if self._closed:
                    raise ConsumerStoppedError("the consumer is stopped")
                record = reader.take(wanted)
                if record is not None:
                    reader.ends.read(record.topic, record.partition, record.offset + 1)
                    return self.__record(record)
                reader.check(wanted)
                await reader.wait(wanted, None)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """Get records.

        Args:
            *partitions: The partitions to read; without any, all of them.
            timeout_ms: Milliseconds to wait for the first record.
            max_records: The most records; None is `max_poll_records`.

        Returns: Records by partition; none when the time is up, or if the consumer was stopped meanwhile.

        Raises:
            ConsumerStoppedError: The consumer is stopped.
            IllegalStateError: The consumer is not started.
            ValueError: `max_records` is not positive.
            KafkaError: A partition or the group is not available.
        """
        self.__check_started()
        wanted = self.__filter(partitions)
        if max_records is not None and (not isinstance(max_records, int) or max_records < 1):
            raise ValueError(f"`max_records` must be a positive Integer, and is {max_records!r}")
        if self._closed:
            raise ConsumerStoppedError("the consumer is stopped")
        reader = self._reader
        deadline = self._loop.time() + timeout_ms / 1000
        is_last = False
        with reader.call():
            while not self._closed:
                records = reader.take_many(wanted, max_records or self._max_poll_records)
                if records:
                    return self.__grouped(records)
                reader.check(wanted)
                if is_last:
                    break
                # Without time left the task still polls once, as far as it can without waiting.
                is_last = not await reader.wait(wanted, max(0.0, deadline - self._loop.time()))
        return {}

    def __grouped(self, records: list[Record]) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        found: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        for each in records:
            record = self.__record(each)
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        for tp, listed in found.items():
            self._reader.ends.read(tp.topic, tp.partition, listed[-1].offset + 1)
        return found

    def __filter(self, partitions: tuple[TopicPartition, ...]) -> frozenset[TopicPartition] | None:
        if not partitions:
            return None
        self.__check_types(partitions)
        return frozenset(partitions)

    def __record(self, record: Record) -> ConsumerRecord[Any, Any]:
        key, value = record.key, record.value
        return ConsumerRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            key if self._key_deserializer is None else self._key_deserializer(key),
            value if self._value_deserializer is None else self._value_deserializer(value),
            None,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            tuple(record.headers),
        )

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of partitions until `resume`.

        Args:
            *partitions: Assigned partitions.

        Raises:
            TypeError: One is no TopicPartition.
            IllegalStateError: One is not assigned.
        """
        self.__check_types(partitions)
        with translated():
            self.__consumer().pause(partitions)
        self._reader.paused |= set(partitions)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._reader.paused & self.assignment()

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of partitions again.

        Args:
            *partitions: Assigned partitions.

        Raises:
            TypeError: One is no TopicPartition.
            IllegalStateError: One is not assigned.
        """
        self.__check_types(partitions)
        with translated():
            self.__consumer().resume(partitions)
        self._reader.paused -= set(partitions)
        self._reader.moved()

    def __aiter__(self) -> Self:
        if self._closed:
            raise ConsumerStoppedError("the consumer is stopped")
        return self

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        while True:
            try:
                return await self.getone()
            except ConsumerStoppedError:
                raise StopAsyncIteration from None
            except RecordTooLargeError:
                continue

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.stop()
