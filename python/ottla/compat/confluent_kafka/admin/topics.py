"""Calls about topics, their partitions and the cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

import ottla
from ottla.compat.confluent_kafka.admin import results
from ottla.compat.confluent_kafka.admin.base import AdminBase
from ottla.compat.confluent_kafka.admin.checks import check_assignment, check_list, check_options
from ottla.compat.confluent_kafka.admin.types import NewPartitions, NewTopic
from ottla.compat.confluent_kafka.errors import KafkaError
from ottla.compat.confluent_kafka.topic_partition import Uuid

_OPERATIONS_UNKNOWN = -(2**31)


class TopicCalls(AdminBase):
    """Create, delete, describe and extend topics; describe the cluster."""

    def create_topics(
        self,
        topics: Any,
        future: Any,
        validate_only: bool = False,
        request_timeout: float | None = None,
        operation_timeout: float | None = None,
    ) -> None:
        """Create topics.

        Args:
            topics: A list of NewTopic.
            future: Gets a dict of None or KafkaError by topic.
            validate_only: Whether to check only.
            request_timeout: Seconds to wait at most.
            operation_timeout: Seconds for the brokers; ottla uses request_timeout.
        """
        self._ottla_open()
        check_list(topics, NewTopic, "NewTopic")
        check_options(validate_only, operation_timeout)
        wanted = [_new_topic(topic) for topic in topics]
        call = partial(_create_topics, wanted, validate_only)
        self._ottla_run("create_topics", future, request_timeout, call)

    def delete_topics(
        self, topics: Any, future: Any, request_timeout: float | None = None, operation_timeout: float | None = None
    ) -> None:
        """Delete topics.

        Args:
            topics: A list of names.
            future: Gets a dict of None or KafkaError by topic.
            request_timeout: Seconds to wait at most.
            operation_timeout: Seconds for the brokers; ottla uses request_timeout.
        """
        self._ottla_open()
        if not isinstance(topics, list) or not topics:
            raise ValueError("Expected non-empty list of topic strings")
        if not all(isinstance(topic, str) for topic in topics):
            raise ValueError("Expected topic names to be str")
        check_options(False, operation_timeout)

        def call(admin: ottla.Admin, seconds: float) -> dict[str, KafkaError | None]:
            return results.each(topics, lambda: admin.delete_topics(topics, timeout=seconds))

        self._ottla_run("delete_topics", future, request_timeout, call)

    def create_partitions(
        self,
        new_partitions: Any,
        future: Any,
        validate_only: bool = False,
        request_timeout: float | None = None,
        operation_timeout: float | None = None,
    ) -> None:
        """Add partitions to topics.

        Args:
            new_partitions: A list of NewPartitions.
            future: Gets a dict of None or KafkaError by topic.
            validate_only: Whether to check only.
            request_timeout: Seconds to wait at most.
            operation_timeout: Seconds for the brokers; ottla uses request_timeout.
        """
        self._ottla_open()
        check_list(new_partitions, NewPartitions, "NewPartitions")
        check_options(validate_only, operation_timeout)
        for each in new_partitions:
            if each.replica_assignment:
                most = each.new_total_count
                check_assignment(each.replica_assignment, 1, most, "new_total_count - existing partition count")
        wanted = [
            ottla.NewPartitions(each.topic, each.new_total_count, each.replica_assignment or None)
            for each in new_partitions
        ]

        def call(admin: ottla.Admin, seconds: float) -> dict[str, KafkaError | None]:
            return results.each(
                [each.topic for each in wanted],
                lambda: admin.create_partitions(wanted, validate_only=bool(validate_only), timeout=seconds),
            )

        self._ottla_run("create_partitions", future, request_timeout, call)

    def describe_topics(
        self,
        topic_names: Any,
        future: Any,
        request_timeout: float | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        """Describe topics.

        Args:
            topic_names: A list of names.
            future: Gets a list of TopicDescription or KafkaError.
            request_timeout: Seconds to wait at most.
            include_authorized_operations: Whether to return what the client is authorized for.
        """
        self._ottla_open()
        check_options(include_authorized_operations, request_timeout)
        for name in topic_names:
            if not isinstance(name, str):
                raise TypeError(f"a topic's name must be str, not {type(name).__name__}")
            if not name:
                raise ValueError("a topic's name must not be empty")
        call = partial(_describe_topics, list(topic_names), bool(include_authorized_operations))
        self._ottla_run("describe_topics", future, request_timeout, call)

    def describe_cluster(
        self, future: Any, request_timeout: float | None = None, include_authorized_operations: bool = False
    ) -> None:
        """Describe the cluster.

        Args:
            future: Gets a DescribeClusterResult.
            request_timeout: Seconds to wait at most.
            include_authorized_operations: Whether to return what the client is authorized for.
        """
        self._ottla_open()
        call = partial(_describe_cluster, bool(include_authorized_operations))
        self._ottla_run("describe_cluster", future, request_timeout, call)


def _new_topic(topic: NewTopic) -> ottla.NewTopic:
    if topic.config is not None and not isinstance(topic.config, dict):
        raise TypeError("NewTopic.config must be a dict")
    if topic.replica_assignment:
        if topic.replication_factor != -1:
            raise ValueError("replication_factor and replica_assignment are mutually exclusive")
        count = len(topic.replica_assignment) if topic.num_partitions == -1 else topic.num_partitions
        check_assignment(topic.replica_assignment, count, count, "num_partitions")
    config = None if topic.config is None else {name: str(value) for name, value in topic.config.items()}
    assignments = topic.replica_assignment or None
    return ottla.NewTopic(topic.topic, topic.num_partitions, topic.replication_factor, config, assignments)


def _create_topics(
    wanted: list[ottla.NewTopic], validate_only: bool, admin: ottla.Admin, seconds: float
) -> dict[str, KafkaError | None]:
    return results.each(
        [topic.name for topic in wanted],
        lambda: admin.create_topics(wanted, validate_only=bool(validate_only), timeout=seconds),
    )


def _describe_topics(names: list[str], with_operations: bool, admin: ottla.Admin, seconds: float) -> list[Any]:
    """Describe topics; what fails of one topic stands in its place."""
    kind, info = results.kinds().TopicDescription, results.package().TopicPartitionInfo
    brokers = results.nodes(admin, seconds)
    found, failed = results.partly(names, lambda: admin.describe_topics(names, timeout=seconds))
    allowed = _topic_operations(list(found), admin, seconds) if with_operations and found else {}
    described: list[Any] = []
    for name in names:
        if name in failed:
            described.append(failed[name])
            continue
        topic = found[name]
        partitions = [
            info(
                at.partition,
                brokers.get(at.leader),
                [brokers[id_] for id_ in at.replicas if id_ in brokers],
                [brokers[id_] for id_ in at.in_sync if id_ in brokers],
            )
            for at in topic.partitions
        ]
        data = bytes(16) if topic.id is None else topic.id.bytes
        high, low = (int.from_bytes(half, "big", signed=True) for half in (data[:8], data[8:]))
        described.append(kind(name, Uuid(high, low), topic.internal, partitions, allowed.get(name)))
    return described


def _topic_operations(names: list[str], admin: ottla.Admin, seconds: float) -> dict[str, Any]:
    """The operations on topics that the client is authorized for (KIP-430)."""
    message = {
        "topics": [{"topicId": "AAAAAAAAAAAAAAAAAAAAAA", "name": name} for name in names],
        "allowAutoTopicCreation": False,
        "includeTopicAuthorizedOperations": True,
    }
    kind = results.kinds().AclOperation
    found = admin.request("Metadata", message, timeout=seconds)["topics"]
    return {
        topic["name"]: [each for each in kind if topic["topicAuthorizedOperations"] >> each.value & 1]
        for topic in found
        if topic.get("topicAuthorizedOperations", _OPERATIONS_UNKNOWN) != _OPERATIONS_UNKNOWN
    }


def _describe_cluster(with_operations: bool, admin: ottla.Admin, seconds: float) -> Any:
    found = admin.describe_cluster(include_authorized_operations=with_operations, timeout=seconds)
    brokers = [results.node(each) for each in found.nodes]
    return results.kinds().DescribeClusterResult(
        results.node(found.controller), brokers, found.cluster_id, results.operations(found.authorized_operations)
    )
