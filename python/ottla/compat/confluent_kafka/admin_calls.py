"""Admin calls on ottla, with results as confluent-kafka's AdminClient takes them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ottla
from ottla import errors
from ottla.compat.confluent_kafka.cluster import Cluster
from ottla.compat.confluent_kafka.constants import OFFSET_END, OFFSET_INVALID, OFFSET_SPEC_EARLIEST, OFFSET_SPEC_LATEST
from ottla.compat.confluent_kafka.errors import KafkaError, failure, to_kafka_error
from ottla.compat.confluent_kafka.topic_partition import TopicPartition, Uuid


def each(names: list[str], call: Callable[[], object]) -> dict[str, KafkaError | None]:
    """The result of a call about several topics, by topic."""
    try:
        call()
    except errors.KafkaError as error:
        if error.failures:
            failed = {str(name): to_kafka_error(each) for name, each in error.failures.items()}
            return {name: failed.get(name) for name in names}
        if error.code and len(names) == 1:
            return {names[0]: to_kafka_error(error)}
        raise
    return dict.fromkeys(names)


def _node(node: ottla.Node | None) -> Any:
    kinds = importlib.import_module("confluent_kafka")
    return None if node is None else kinds.Node(node.id, node.host, node.port, node.rack)


def describe_topics(names: list[str], admin: ottla.Admin, seconds: float) -> list[Any]:
    """Describe topics; what fails of one topic stands in its place."""
    kinds = importlib.import_module("confluent_kafka.admin")
    info = importlib.import_module("confluent_kafka").TopicPartitionInfo
    nodes = {node.id: _node(node) for node in admin.describe_cluster(timeout=seconds).nodes}
    described: list[Any] = []
    for name in names:
        try:
            found = admin.describe_topics(name, timeout=seconds)[name]
        except errors.KafkaError as error:
            if not error.code:
                raise
            described.append(to_kafka_error(error))
            continue
        partitions = [
            info(
                at.partition,
                nodes.get(at.leader),
                [nodes[node] for node in at.replicas if node in nodes],
                [nodes[node] for node in at.in_sync if node in nodes],
            )
            for at in found.partitions
        ]
        high, low = _halves(getattr(found, "topic_id", None))
        described.append(kinds.TopicDescription(name, Uuid(high, low), name.startswith("__"), partitions))
    return described


def _halves(topic_id: Any) -> tuple[int, int]:
    if topic_id is None:
        return 0, 0
    data = topic_id.bytes if hasattr(topic_id, "bytes") else bytes(16)
    return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:], "big", signed=True)


def describe_cluster(operations: bool, admin: ottla.Admin, seconds: float) -> Any:
    """Describe the cluster."""
    kinds = importlib.import_module("confluent_kafka.admin")
    found = admin.describe_cluster(include_authorized_operations=operations, timeout=seconds)
    allowed = None
    if found.authorized_operations is not None:
        allowed = [kinds.AclOperation[name] for name in found.authorized_operations]
    nodes = [_node(node) for node in found.nodes]
    return kinds.DescribeClusterResult(_node(found.controller), nodes, found.cluster_id, allowed)


def list_groups(states: Any, types: Any, admin: ottla.Admin, seconds: float) -> Any:
    """List the groups of consumers, of certain states and types if there are any."""
    kinds = importlib.import_module("confluent_kafka.admin")
    package = importlib.import_module("confluent_kafka")
    valid = []
    for group in admin.list_groups(timeout=seconds):
        if group.protocol_type not in {"consumer", ""}:
            continue
        state = _member(package.ConsumerGroupState, _snake(group.state))
        kind = _member(package.ConsumerGroupType, _snake(group.type))
        if (states and state.value not in states) or (types and kind.value not in types):
            continue
        valid.append(kinds.ConsumerGroupListing(group.group_id, not group.protocol_type, state, kind))
    return kinds.ListConsumerGroupsResult(valid, [])


def _snake(name: str | None) -> str:
    text = "".join(f"_{letter}" if letter.isupper() else letter for letter in name or "Unknown")
    return text.strip("_").upper()


def _member(kind: Any, name: str) -> Any:
    return kind[name] if name in kind.__members__ else kind.UNKNOWN


def describe_groups(names: list[str], admin: ottla.Admin, seconds: float) -> list[Any]:
    """Describe groups; ottla does not return their coordinators."""
    kinds = importlib.import_module("confluent_kafka.admin")
    states = importlib.import_module("confluent_kafka").ConsumerGroupState
    described: list[Any] = []
    for name in names:
        try:
            found = admin.describe_groups(name, timeout=seconds)[name]
        except errors.KafkaError as error:
            if not error.code:
                raise
            described.append(to_kafka_error(error))
            continue
        members = [
            kinds.MemberDescription(
                member.member_id,
                member.client_id,
                member.client_host,
                kinds.MemberAssignment([TopicPartition(*at) for at in member.assignment or []]),
                member.group_instance_id,
            )
            for member in found.members
        ]
        state = _member(states, _snake(found.state))
        described.append(
            kinds.ConsumerGroupDescription(name, not found.protocol_type, members, found.protocol, state, None)
        )
    return described


@contextmanager
def _consumer(cluster: Cluster, **more: str) -> Iterator[ottla.Consumer]:
    """A consumer of the same cluster, for one call."""
    config = {**cluster.admin_properties(), "enable.auto.commit": "false", **more}
    consumer = ottla.Consumer(config=config)
    try:
        yield consumer
    finally:
        consumer.close(1.0)


def list_offsets(
    cluster: Cluster, partitions: list[TopicPartition], isolation: int | None, _admin: ottla.Admin, seconds: float
) -> dict[TopicPartition, Any]:
    """Find the first and last offsets, and those of times."""
    info = importlib.import_module("confluent_kafka.admin").ListOffsetsResultInfo
    level = "read_committed" if isolation else "read_uncommitted"
    found: dict[TopicPartition, Any] = {}
    with _consumer(cluster, **{"isolation.level": level}) as consumer:
        for at in partitions:
            pair = ottla.TopicPartition(at.topic, at.partition)
            try:
                if at.offset == OFFSET_SPEC_EARLIEST:
                    found[at] = info(consumer.beginning_offsets([pair], seconds)[pair], -1, -1)
                elif at.offset == OFFSET_SPEC_LATEST:
                    found[at] = info(consumer.end_offsets([pair], seconds)[pair], -1, -1)
                elif at.offset >= 0:
                    record = consumer.offsets_for_times({pair: at.offset}, seconds)[pair]
                    found[at] = info(OFFSET_END, -1, -1) if record is None else info(*record, -1)
                else:
                    refused = failure(
                        "_NOT_IMPLEMENTED", "list_offsets by the largest timestamp is not supported by ottla"
                    )
                    found[at] = refused.args[0]
            except errors.KafkaError as error:
                if not error.code:
                    raise
                found[at] = to_kafka_error(error)
    return found


def list_group_offsets(cluster: Cluster, request: Any, admin: ottla.Admin, seconds: float) -> list[Any]:
    """Find what a group committed: of partitions, or of all topics."""
    kind = importlib.import_module("confluent_kafka").ConsumerGroupTopicPartitions
    (wanted,) = request
    partitions = wanted.topic_partitions
    if partitions is None:
        described = admin.describe_topics(admin.list_topics(timeout=seconds), timeout=seconds)
        pairs = [(name, at.partition) for name, topic in described.items() for at in topic.partitions]
    else:
        pairs = [(at.topic, at.partition) for at in partitions]
    with _consumer(cluster, **{"group.id": wanted.group_id}) as consumer:
        found = consumer.committed(pairs, seconds)
    made = []
    for topic, partition in pairs:
        at = found.get(ottla.TopicPartition(topic, partition))
        if at is not None:
            made.append(TopicPartition(topic, partition, at.offset, at.metadata or None, at.leader_epoch))
        elif partitions is not None:
            made.append(TopicPartition(topic, partition, OFFSET_INVALID))
    return [kind(wanted.group_id, made)]


def alter_group_offsets(cluster: Cluster, request: Any, _admin: ottla.Admin, seconds: float) -> list[Any]:
    """Commit offsets for a group that has no members."""
    kind = importlib.import_module("confluent_kafka").ConsumerGroupTopicPartitions
    (wanted,) = request
    offsets = {
        ottla.TopicPartition(at.topic, at.partition): ottla.OffsetAndMetadata(
            at.offset, at.metadata or "", at.leader_epoch
        )
        for at in wanted.topic_partitions
    }
    with _consumer(cluster, **{"group.id": wanted.group_id}) as consumer:
        consumer.commit(offsets, timeout=seconds)
    return [kind(wanted.group_id, wanted.topic_partitions)]
