# Written by scripts/unasync.py from python/ottla/aio/_calls/topics.py. Change that file, and run the script.
"""Topics and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

from ottla import _admin as results
from ottla import _ottla
from ottla._admin import arguments
from ottla._later import uuid
from ottla._types import Partition, ProducerState, TopicDescription, TopicPartition


class Topics:
    """Calls about topics and their partitions."""

    __slots__ = ()
    _core: _ottla.AdminCore

    def create_topics(
        self,
        topics: results.NewTopic | str | Iterable[results.NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Create topics.

        Args:
            topics: `NewTopic`s; a name alone means a topic with one partition.
            validate_only: Only checks whether the topics could be created.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AlreadyExistsError: A topic of that name exists. `may_be_done` is true if an earlier attempt of this call,
                whose response was lost, may have created it.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        listed = [topics] if isinstance(topics, (str, results.NewTopic)) else topics
        self._core.call("create_topics", timeout, topics=listed, validate_only=validate_only).wait()

    def delete_topics(
        self, topics: str | uuid.UUID | Iterable[str | uuid.UUID], *, timeout: float | None = None
    ) -> None:
        """Delete topics and all their records.

        Args:
            topics: Names of topics, or their ids (KIP-516, Kafka 2.8 and later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: No topic of that name or id exists. `may_be_done` is true if an earlier attempt of this call,
                whose response was lost, may have deleted it.
            UnsupportedError: The brokers are too old for ids.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        self._core.call("delete_topics", timeout, topics=arguments.topics(topics)).wait()

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """List the names of all topics.

        Args:
            internal: Whether to list Kafka's internal topics too.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The names, sorted.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        topics: list[str] = self._core.call("list_topics", timeout, internal=internal).wait()
        return topics

    @overload
    def describe_topics(
        self,
        topics: str | Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, TopicDescription]: ...

    @overload
    def describe_topics(
        self,
        topics: uuid.UUID | Iterable[uuid.UUID],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[uuid.UUID, TopicDescription]: ...

    def describe_topics(
        self,
        topics: Any,
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[Any, TopicDescription]:
        """Describe topics and their partitions.

        Args:
            topics: Names of topics, or their ids (KIP-516, Kafka 3.1 and later).
            include_authorized_operations: Whether to return the operations that the client is authorized for (KIP-430,
                Kafka 2.3 and later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Descriptions by name or id, as the topics were given.

        Raises:
            NotFoundError: No topic of that name or id exists.
            UnsupportedError: The brokers are too old for ids or for operations.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        described: dict[Any, TopicDescription]
        described = self._core.call(
            "describe_topics",
            timeout,
            topics=arguments.topics(topics),
            include_authorized_operations=include_authorized_operations,
        ).wait()
        return described

    def create_partitions(
        self,
        partitions: Mapping[str, int] | Iterable[results.NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Add partitions to topics (KIP-195, Kafka 1.0 and later).

        Keys of records may go to other partitions by then.

        Args:
            partitions: The number of partitions that a topic is to have, with those that it has, by topic; or
                `NewPartitions`s, which also choose brokers.
            validate_only: Only checks whether the partitions could be added.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: A topic does not exist.
            KafkaError: `name` is `"INVALID_PARTITIONS"` where a topic has as many partitions, or more. `may_be_done` is
                true if an earlier attempt of this call, whose response was lost, may have added them.
            ClosedError: The client is closed.
        """
        rows = (
            [results.NewPartitions(topic, total) for topic, total in partitions.items()]
            if isinstance(partitions, Mapping)
            else list(partitions)
        )
        self._core.call("create_partitions", timeout, partitions=rows, validate_only=validate_only).wait()

    def delete_records(
        self, records: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (KIP-107, Kafka 0.11 and later).

        The requests go to the leader of each partition.

        Args:
            records: Offsets by partition; -1 deletes all records that are there.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The first offset of each partition's log after that.

        Raises:
            KafkaError: `name` is `"OFFSET_OUT_OF_RANGE"` if a log has no such offset, and `"POLICY_VIOLATION"` if its
                topic is compacted only.
            ClosedError: The client is closed.
        """
        deleted: dict[TopicPartition, int]
        deleted = self._core.call("delete_records", timeout, records=arguments.named_offsets(records)).wait()
        return deleted

    def list_offsets(
        self,
        offsets: Mapping[TopicPartition, arguments.OffsetSpec] | Mapping[tuple[str, int], arguments.OffsetSpec],
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, results.ListedOffset]:
        """Look up offsets of partitions' logs.

        The requests go to the leader of each partition.

        Args:
            offsets: What to look for, by partition: `"earliest"`; `"latest"`, the offset after the last record; a time
                as a datetime with a time zone or in milliseconds since 1970 UTC, for the first record of that time or
                later (Kafka 0.10.1); `"max_timestamp"`, the record of the highest time (KIP-734, Kafka 3.0);
                `"earliest_local"`, the first offset on the leader's disk (KIP-405, Kafka 3.4); `"latest_tiered"`, the
                last offset in tiered storage (KIP-1005, Kafka 3.9); `"earliest_pending_upload"`, the first that is not
                there yet (KIP-1023, Kafka 4.2).
            isolation_level: Whether `"latest"` and times stop before records of open transactions.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Offsets by partition. One that does not exist has the offset None.

        Raises:
            NotFoundError: A topic does not exist.
            UnsupportedError: A leader is too old for what is looked for.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: dict[TopicPartition, results.ListedOffset]
        found = self._core.call(
            "list_offsets",
            timeout,
            offsets=arguments.offset_queries(offsets),
            read_committed=isolation_level == "read_committed",
        ).wait()
        return found

    def describe_producers(
        self, partitions: Iterable[Partition], *, timeout: float | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Describe the idempotent and transactional producers that write to partitions (KIP-664, Kafka 2.8 and later).

        The request goes to the leader of each partition. It forgets a producer that has been idle for long: for a day
        by default, `producer.id.expiration.ms` of the broker.

        Args:
            partitions: Partitions as `TopicPartition`s or pairs.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The producers of each partition, in the order of their ids.

        Raises:
            NotFoundError: A topic or a partition does not exist.
            UnsupportedError: A leader is too old to know.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        described: dict[TopicPartition, list[ProducerState]]
        described = self._core.call("describe_producers", timeout, partitions=partitions).wait()
        return described
