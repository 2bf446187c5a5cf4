"""What calls return: named tuples with the fields that programs read of aiokafka's responses.

`to_object` of each returns dicts, as that of aiokafka's responses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ottla import errors as native
from ottla._admin.groups import GroupDescription
from ottla._types import TopicDescription

_OPERATIONS: Final = [
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
]


_MEMBER: Final = ("member_id", "client_id", "client_host", "member_metadata", "member_assignment")
_GROUP: Final = ("error_code", "group", "state", "protocol_type", "protocol", "members", "authorized_operations")


def named(names: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Tuples of a response as dicts."""
    return [dict(zip(names, row, strict=False)) for row in rows]


class Created(NamedTuple):
    """The response of `create_topics` and `create_partitions`: a topic, an error code and an error's text each."""

    topic_errors: list[tuple[str, int, str | None]]
    throttle_time_ms: int = 0

    def to_object(self) -> dict[str, Any]:
        """The response as dicts."""
        errors = named(("topic", "error_code", "error_message"), self.topic_errors)
        return {"throttle_time_ms": self.throttle_time_ms, "topic_errors": errors}


class Deleted(NamedTuple):
    """The response of `delete_topics`: a topic and an error code each."""

    topic_error_codes: list[tuple[str, int]]
    throttle_time_ms: int = 0

    def to_object(self) -> dict[str, Any]:
        """The response as dicts."""
        codes = named(("topic", "error_code"), self.topic_error_codes)
        return {"throttle_time_ms": self.throttle_time_ms, "topic_error_codes": codes}


class Groups(NamedTuple):
    """A response of `describe_consumer_groups`."""

    groups: list[tuple[Any, ...]]
    throttle_time_ms: int = 0

    def to_object(self) -> dict[str, Any]:
        """The response as dicts."""
        groups = named(_GROUP, self.groups)
        for each in groups:
            each["members"] = named(_MEMBER, each["members"])
        return {"throttle_time_ms": self.throttle_time_ms, "groups": groups}


class Metadata(NamedTuple):
    """The brokers and topics of a cluster."""

    brokers: list[dict[str, Any]]
    topics: list[dict[str, Any]]


def topic(found: TopicDescription) -> dict[str, Any]:
    """A topic as `describe_topics` returns it."""
    return {
        "error_code": 0,
        "topic": found.name,
        "is_internal": found.internal,
        "partitions": [
            {
                "error_code": 0 if each.leader != -1 else 5,
                "partition": each.partition,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "isr": list(each.in_sync),
            }
            for each in found.partitions
        ],
    }


def group(found: GroupDescription) -> Groups:
    """A group as `describe_consumer_groups` returns it."""
    members = [
        (each.member_id, each.client_id, each.client_host, each.metadata, each.assignment_data)
        for each in found.members
    ]
    one = (0, found.group_id, found.state, found.protocol_type, found.protocol, members)
    operations = found.authorized_operations
    return Groups([one if operations is None else (*one, _bits(operations))])


def _bits(operations: frozenset[str]) -> int:
    """Operations as the protocol has them: a bit each, by Kafka's order."""
    return sum(1 << _OPERATIONS.index(name) for name in operations if name in _OPERATIONS)


def code_of(error: native.KafkaError, name: str) -> tuple[int, str | None]:
    """The code and the text for one of the topics of a call that failed.

    Raises:
        KafkaError: It failed without a response.
    """
    failure = error.failures.get(name)
    if failure is None and error.failures:
        return 0, None
    one = failure or error
    if one.code is None:
        raise one
    return one.code, one.cause or str(one)
