"""Calls about groups and their offsets."""

from __future__ import annotations

from functools import partial
from typing import Any

import ottla
from ottla import errors
from ottla.compat.confluent_kafka.admin import results
from ottla.compat.confluent_kafka.admin.base import AdminBase
from ottla.compat.confluent_kafka.admin.checks import check_list, check_options
from ottla.compat.confluent_kafka.callbacks import deadline_of
from ottla.compat.confluent_kafka.constants import OFFSET_INVALID
from ottla.compat.confluent_kafka.errors import KafkaError, failure, to_kafka_error
from ottla.compat.confluent_kafka.topic_partition import TopicPartition, committed, to_commit


class GroupCalls(AdminBase):
    """List, describe and delete groups; read and change what they committed."""

    def list_groups(self, group: str | None = None, timeout: float = -1) -> list[Any]:
        """List groups with their members.

        Args:
            group: A group; None for all.
            timeout: Seconds to wait at most; negative waits without end.

        Returns: A list of GroupMetadata.

        Raises:
            KafkaException: _TRANSPORT or _TIMED_OUT if no broker responded in time.
        """
        state = self._ottla_cluster()
        if state is None:
            raise RuntimeError("Handle has been closed")
        if not state.is_connected:
            state.wait(deadline_of(timeout))
            raise failure("_TRANSPORT", "Failed to list groups: no bootstrap.servers")
        found: list[Any] = state.call("Failed to list groups", timeout, partial(_list_with_members, group))
        return found

    def list_consumer_groups(
        self, future: Any, states_int: Any = None, types_int: Any = None, request_timeout: float | None = None
    ) -> None:
        """List the groups of consumers.

        Args:
            future: Gets a ListConsumerGroupsResult.
            states_int: Numbers of states to list.
            types_int: Numbers of types to list.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        call = partial(_list_groups, states_int, types_int)
        self._ottla_run("list_consumer_groups", future, request_timeout, call)

    def describe_consumer_groups(
        self,
        group_ids: Any,
        future: Any,
        request_timeout: float | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        """Describe groups of consumers.

        Args:
            group_ids: A list of groups.
            future: Gets a list of ConsumerGroupDescription or KafkaError.
            request_timeout: Seconds to wait at most.
            include_authorized_operations: Whether to return what the client is authorized for.
        """
        self._ottla_open()
        check_options(include_authorized_operations, request_timeout)
        check_list(group_ids, str, "group name", error=ValueError)
        call = partial(_describe_groups, list(group_ids), bool(include_authorized_operations))
        self._ottla_run("describe_consumer_groups", future, request_timeout, call)

    def delete_consumer_groups(self, group_ids: Any, future: Any, request_timeout: float | None = None) -> None:
        """Delete groups that have no members.

        Args:
            group_ids: A list of groups.
            future: Gets a list of None or KafkaError.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        check_list(group_ids, str, "group name", error=ValueError)

        def call(admin: ottla.Admin, seconds: float) -> list[KafkaError | None]:
            return list(results.each(group_ids, lambda: admin.delete_groups(group_ids, timeout=seconds)).values())

        self._ottla_run("delete_consumer_groups", future, request_timeout, call)

    def list_consumer_group_offsets(
        self, request: Any, future: Any, require_stable: bool = False, request_timeout: float | None = None
    ) -> None:
        """Find what a group committed.

        Args:
            request: A list of one ConsumerGroupTopicPartitions.
            future: Gets a list of ConsumerGroupTopicPartitions or KafkaError.
            require_stable: Whether to wait for offsets of open transactions.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        check_options(require_stable, request_timeout)
        call = partial(_list_offsets, request[0], bool(require_stable))
        self._ottla_run("list_consumer_group_offsets", future, request_timeout, call)

    def alter_consumer_group_offsets(self, requests: Any, future: Any, request_timeout: float | None = None) -> None:
        """Commit offsets for a group without members.

        Args:
            requests: A list of one ConsumerGroupTopicPartitions.
            future: Gets a list of ConsumerGroupTopicPartitions or KafkaError.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        call = partial(_alter_offsets, requests[0])
        self._ottla_run("alter_consumer_group_offsets", future, request_timeout, call)


def _list_groups(states: Any, types: Any, admin: ottla.Admin, seconds: float) -> Any:
    """List the groups of consumers, of certain states and types if there are any."""
    kinds, package = results.kinds(), results.package()
    valid = []
    for group in admin.list_groups(timeout=seconds):
        if group.protocol_type not in {"consumer", ""}:
            continue
        state = results.member(package.ConsumerGroupState, _STATES.get(group.state or "", group.state))
        kind = results.member(package.ConsumerGroupType, group.type and group.type.capitalize())
        if (states and state.value not in states) or (types and kind.value not in types):
            continue
        valid.append(kinds.ConsumerGroupListing(group.group_id, not group.protocol_type, state, kind))
    return kinds.ListConsumerGroupsResult(valid, [])


# confluent-kafka's names of states are longer than Kafka's.
_STATES = {"PreparingRebalance": "PreparingRebalancing", "CompletingRebalance": "CompletingRebalancing"}


def _list_with_members(name: str | None, admin: ottla.Admin, seconds: float) -> list[Any]:
    kinds = results.kinds()
    brokers = {each.id: each for each in admin.describe_cluster(timeout=seconds).nodes}
    listed = [each for each in admin.list_groups(timeout=seconds) if name in {None, each.group_id}]
    # Share groups and groups of Kafka Streams cannot be described so. The response to librdkafka calls them dead.
    wanted = [each.group_id for each in listed if (each.type or "classic").lower() in {"classic", "consumer"}]
    found, failed = (
        results.partly(wanted, lambda: admin.describe_groups(wanted, timeout=seconds)) if wanted else ({}, {})
    )
    made = []
    for group in (each.group_id for each in listed):
        one = kinds.GroupMetadata()
        one.id, one.error = group, failed.get(group)
        if group not in wanted:
            one.state, one.protocol_type, one.protocol = "Dead", "", ""
            one.broker, one.members = _broker(next(iter(brokers.values())) if len(brokers) == 1 else None), []
        elif group in found:
            described = found[group]
            one.state, one.protocol_type, one.protocol = described.state, described.protocol_type, described.protocol
            one.broker = _broker(brokers.get(described.coordinator))
            one.members = [_member(each) for each in described.members]
        made.append(one)
    return made


def _broker(node: ottla.Node | None) -> Any:
    made = results.kinds().BrokerMetadata()
    if node is not None:
        made.id, made.host, made.port = node.id, node.host, node.port
    return made


def _member(found: ottla.MemberDescription) -> Any:
    made = results.kinds().GroupMember()
    made.id, made.client_id, made.client_host = found.member_id, found.client_id, found.client_host
    made.metadata, made.assignment = found.metadata, found.assignment_data
    return made


def _describe_groups(names: list[str], with_operations: bool, admin: ottla.Admin, seconds: float) -> list[Any]:
    """Describe groups; what fails of one group stands in its place."""
    kinds, package = results.kinds(), results.package()
    brokers = results.nodes(admin, seconds)
    found, failed = results.partly(
        names,
        lambda: admin.describe_groups(names, include_authorized_operations=with_operations, timeout=seconds),
    )
    described: list[Any] = []
    for name in names:
        if name in failed:
            described.append(failed[name])
            continue
        group = found[name]
        members = [
            kinds.MemberDescription(
                member.member_id,
                member.client_id,
                member.client_host,
                _assignment(member.assignment or []),
                member.group_instance_id,
                None if member.target_assignment is None else _assignment(member.target_assignment),
            )
            for member in group.members
        ]
        described.append(
            kinds.ConsumerGroupDescription(
                name,
                not group.protocol_type,
                members,
                group.protocol,
                results.member(package.ConsumerGroupState, _STATES.get(group.state, group.state)),
                brokers.get(group.coordinator),
                results.operations(group.authorized_operations),
                results.member(package.ConsumerGroupType, group.type.capitalize()),
            )
        )
    return described


def _assignment(partitions: list[ottla.TopicPartition]) -> Any:
    return results.kinds().MemberAssignment([TopicPartition(*at) for at in partitions])


def _list_offsets(wanted: Any, require_stable: bool, admin: ottla.Admin, seconds: float) -> list[Any]:
    """Find what a group committed: of partitions, or all."""
    name = wanted.group_id
    partitions = wanted.topic_partitions and [
        ottla.TopicPartition(at.topic, at.partition) for at in wanted.topic_partitions
    ]
    found, failed = results.partly(
        [name],
        lambda: admin.list_group_offsets({name: partitions}, require_stable=require_stable, timeout=seconds),
    )
    if name in failed:
        return [failed[name]]
    made = []
    for at, offset in found[name].items():
        if offset is not None:
            made.append(
                TopicPartition(at.topic, at.partition, offset.offset, committed(offset.metadata), offset.leader_epoch)
            )
        elif partitions is not None:
            made.append(TopicPartition(at.topic, at.partition, OFFSET_INVALID))
    return [results.package().ConsumerGroupTopicPartitions(name, made)]


def _alter_offsets(wanted: Any, admin: ottla.Admin, seconds: float) -> list[Any]:
    """Commit offsets for a group that has no members. What fails of a partition is its `error`."""
    offsets = {
        ottla.TopicPartition(at.topic, at.partition): ottla.OffsetAndMetadata(
            at.offset, to_commit(at.metadata), at.leader_epoch
        )
        for at in wanted.topic_partitions
    }
    failed: dict[Any, KafkaError] = {}
    try:
        admin.alter_group_offsets(wanted.group_id, offsets, timeout=seconds)
    except errors.KafkaError as error:
        if not error.code:
            raise
        failed = {at: to_kafka_error(one) for at, one in error.failures.items()}
        if not failed:
            return [to_kafka_error(error)]
    made = []
    for at in wanted.topic_partitions:
        one = TopicPartition(at.topic, at.partition, at.offset, at.metadata, at.leader_epoch)
        one.error = failed.get(ottla.TopicPartition(at.topic, at.partition))
        made.append(one)
    return [results.package().ConsumerGroupTopicPartitions(wanted.group_id, made)]
