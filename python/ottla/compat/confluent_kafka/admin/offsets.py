"""Calls about partitions: their offsets, their records and their leaders."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import ottla
from ottla.compat.confluent_kafka.admin import results
from ottla.compat.confluent_kafka.admin.base import AdminBase
from ottla.compat.confluent_kafka.admin.checks import check_options
from ottla.compat.confluent_kafka.constants import (
    OFFSET_SPEC_EARLIEST,
    OFFSET_SPEC_LATEST,
    OFFSET_SPEC_MAX_TIMESTAMP,
)
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException
from ottla.compat.confluent_kafka.topic_partition import TopicPartition

_SPECS: Final = {
    OFFSET_SPEC_EARLIEST: "earliest",
    OFFSET_SPEC_LATEST: "latest",
    OFFSET_SPEC_MAX_TIMESTAMP: "max_timestamp",
}


class OffsetCalls(AdminBase):
    """Find offsets, delete records, elect leaders."""

    def list_offsets(
        self,
        topic_partitions: Any,
        future: Any,
        isolation_level_value: int | None = None,
        request_timeout: float | None = None,
    ) -> None:
        """Find offsets of partitions.

        Args:
            topic_partitions: A list of TopicPartition with OffsetSpec's numbers, or times.
            future: Gets a dict of ListOffsetsResultInfo or KafkaError by partition.
            isolation_level_value: The number of an IsolationLevel.
            request_timeout: Seconds to wait at most.
        """
        self._ottla_open()
        if any(not at.topic or at.partition < 0 for at in topic_partitions):
            raise ValueError("list_offsets: expected a topic's name and a partition that is not negative")
        level = "read_committed" if isolation_level_value else "read_uncommitted"
        self._ottla_run("list_offsets", future, request_timeout, partial(_list_offsets, topic_partitions, level))

    def delete_records(
        self,
        topic_partition_offsets: Any,
        future: Any,
        request_timeout: float | None = None,
        operation_timeout: float | None = None,
    ) -> None:
        """Delete records of partitions before offsets.

        Args:
            topic_partition_offsets: A list of TopicPartition; OFFSET_END deletes all that are there.
            future: Gets a dict of DeletedRecords or KafkaError by partition.
            request_timeout: Seconds to wait at most.
            operation_timeout: Seconds for the brokers; ottla uses request_timeout.
        """
        self._ottla_open()
        check_options(False, operation_timeout)
        call = partial(_delete_records, topic_partition_offsets)
        self._ottla_run("delete_records", future, request_timeout, call)

    def elect_leaders(
        self,
        election_type: int,
        partitions: Any,
        future: Any,
        request_timeout: float | None = None,
        operation_timeout: float | None = None,
    ) -> None:
        """Elect leaders of partitions.

        Args:
            election_type: The number of an ElectionType.
            partitions: A list of TopicPartition; None for all partitions.
            future: Gets a dict of None or KafkaError by partition.
            request_timeout: Seconds to wait at most.
            operation_timeout: Seconds for the brokers; ottla uses request_timeout.
        """
        self._ottla_open()
        check_options(False, operation_timeout)
        self._ottla_run("elect_leaders", future, request_timeout, partial(_elect, election_type, partitions))


def _pair(at: TopicPartition) -> ottla.TopicPartition:
    return ottla.TopicPartition(at.topic, at.partition)


def _list_offsets(
    partitions: list[TopicPartition], level: Any, admin: ottla.Admin, seconds: float
) -> dict[TopicPartition, Any]:
    info = results.kinds().ListOffsetsResultInfo
    specs: dict[ottla.TopicPartition, Any] = {_pair(at): _SPECS.get(at.offset, at.offset) for at in partitions}
    found, failed = results.partly(
        list(specs),
        lambda: admin.list_offsets(specs, isolation_level=level, timeout=seconds),
        absent="_UNKNOWN_PARTITION",
    )
    made: dict[TopicPartition, Any] = {}
    for at in partitions:
        if _pair(at) in failed:
            made[at] = failed[_pair(at)]
            continue
        one = found[_pair(at)]
        numbers = (one.offset, one.timestamp, one.leader_epoch)
        made[at] = info(*(-1 if number is None else number for number in numbers))
    return made


def _delete_records(partitions: list[TopicPartition], admin: ottla.Admin, seconds: float) -> dict[TopicPartition, Any]:
    kind = results.kinds().DeletedRecords
    offsets = {_pair(at): at.offset for at in partitions}
    found, failed = results.partly(
        list(offsets), lambda: admin.delete_records(offsets, timeout=seconds), absent="_UNKNOWN_PARTITION"
    )
    return {at: failed[_pair(at)] if _pair(at) in failed else kind(found[_pair(at)]) for at in partitions}


def _elect(
    election: int, partitions: list[TopicPartition] | None, admin: ottla.Admin, seconds: float
) -> dict[TopicPartition, KafkaError | None]:
    """Elect leaders. `ottla.Admin.elect_leaders` hides that an election was not needed, which programs look for."""
    wanted: dict[str, list[int]] = {}
    for at in partitions or []:
        wanted.setdefault(at.topic, []).append(at.partition)
    message = {
        "electionType": election,
        "topicPartitions": None
        if partitions is None
        else [{"topic": topic, "partitions": numbers} for topic, numbers in wanted.items()],
        "timeoutMs": round(seconds * 1000),
    }
    broker = results.controller(admin, seconds)
    found = admin.request("ElectLeaders", message, broker=broker, timeout=seconds)
    if found["errorCode"]:
        raise KafkaException(KafkaError(found["errorCode"]))
    return {
        TopicPartition(topic["topic"], one["partitionId"]): results.code_error(one["errorCode"], one["errorMessage"])
        for topic in found["replicaElectionResults"]
        for one in topic["partitionResult"]
    }
