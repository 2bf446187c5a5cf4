"""What admin calls take, in the form in which the engine reads it: lists of objects with attributes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ottla._later import uuid
from ottla._types import OffsetAndMetadata, TopicPartition
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from ottla._admin.configs import AlterConfigOp, ConfigResource
    from ottla._admin.users import ScramDeletion, ScramUpsertion
    from ottla._types import Partition

OffsetSpec: TypeAlias = (
    Literal["earliest", "latest", "max_timestamp", "earliest_local", "latest_tiered", "earliest_pending_upload"]
    | int
    | datetime
)
"""Which offset of a log: by name, or the first whose record is of a time or later (in ms since 1970 UTC)."""

_SPECS = {
    "latest": -1,
    "earliest": -2,
    "max_timestamp": -3,
    "earliest_local": -4,
    "latest_tiered": -5,
    "earliest_pending_upload": -6,
}


def timestamp(spec: OffsetSpec) -> int:
    """Get the number by which ListOffsets knows an offset.

    Raises:
        ArgumentError: The name is unknown, the time is negative, or it has no time zone.
    """
    if isinstance(spec, str):
        if spec not in _SPECS:
            raise ArgumentError(f"an offset is one of {', '.join(_SPECS)} or a time, not {spec!r}")
        return _SPECS[spec]
    if isinstance(spec, datetime):
        return milliseconds_of(spec)
    if spec < 0:
        raise ArgumentError(f"a time is not negative: {spec}")
    return spec


def milliseconds_of(time: datetime) -> int:
    """Get a time in milliseconds since 1970 UTC.

    Raises:
        ArgumentError: It has no time zone.
    """
    if time.tzinfo is None:
        raise ArgumentError(f"{time.isoformat()} has no time zone: say datetime.now(UTC), or datetime(..., tzinfo=UTC)")
    return round(time.timestamp() * 1000)


def topics(given: str | uuid.UUID | Iterable[str | uuid.UUID]) -> list[SimpleNamespace]:
    """Get topics by name or id: one, or several.

    Raises:
        TypeError: It is something else.
    """
    listed = [given] if isinstance(given, (str, uuid.UUID)) else given
    return [_topic(each) for each in listed]


def _topic(given: str | uuid.UUID) -> SimpleNamespace:
    if isinstance(given, str):
        return SimpleNamespace(name=given, id=b"")
    if isinstance(given, uuid.UUID):
        return SimpleNamespace(name=None, id=given.bytes)
    raise TypeError(f"a topic is a name or a UUID, not {given!r}")


def pair(partition: Partition) -> SimpleNamespace:
    """Get a partition's attributes."""
    topic, number = TopicPartition(*partition)
    return SimpleNamespace(topic=topic, partition=number)


def offset_queries(specs: Mapping[Any, OffsetSpec]) -> list[SimpleNamespace]:
    """Get partitions with the numbers of their offsets."""
    return [SimpleNamespace(**vars(pair(partition)), timestamp=timestamp(spec)) for partition, spec in specs.items()]


def named_offsets(offsets: Mapping[Any, int]) -> list[SimpleNamespace]:
    """Get partitions with offsets."""
    return [SimpleNamespace(**vars(pair(partition)), offset=offset) for partition, offset in offsets.items()]


def group_offsets(offsets: Mapping[Any, int | OffsetAndMetadata]) -> list[SimpleNamespace]:
    """Get partitions with offsets to commit."""
    made = []
    for partition, offset in offsets.items():
        full = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(operator.index(offset))
        made.append(SimpleNamespace(**vars(pair(partition)), **full._asdict()))
    return made


def group_queries(
    groups: str | Iterable[str] | Mapping[str, Iterable[Partition] | None],
) -> list[SimpleNamespace]:
    """Get groups with the partitions whose offsets are wanted."""
    if isinstance(groups, Mapping):
        return [
            SimpleNamespace(group=group, partitions=None if partitions is None else list(partitions))
            for group, partitions in groups.items()
        ]
    return [
        SimpleNamespace(group=group, partitions=None) for group in ([groups] if isinstance(groups, str) else groups)
    ]


def resource(given: ConfigResource | tuple[str, str]) -> SimpleNamespace:
    """Get a resource's attributes."""
    kind, name = given if isinstance(given, tuple) else (given.type, given.name)
    return SimpleNamespace(type=kind, name=name)


def resources(
    given: ConfigResource | tuple[str, str] | Iterable[ConfigResource | tuple[str, str]],
) -> list[SimpleNamespace]:
    """Get resources: one, or several."""
    if hasattr(given, "type") or (
        isinstance(given, tuple) and len(given) == 2 and all(isinstance(each, str) for each in given)
    ):
        return [resource(given)]  # type: ignore[arg-type]
    return [resource(each) for each in given]  # type: ignore[arg-type]


def config_changes(
    changes: Mapping[Any, Mapping[str, str | None] | Iterable[AlterConfigOp]],
) -> list[SimpleNamespace]:
    """Get resources with the changes of their configurations.

    In a mapping, None deletes.
    """
    made = []
    for of, given in changes.items():
        operations: Iterable[object] = given
        if isinstance(given, Mapping):
            operations = [
                SimpleNamespace(name=name, value=value, operation="DELETE" if value is None else "SET")
                for name, value in given.items()
            ]
        made.append(SimpleNamespace(resource=resource(of), operations=list(operations)))
    return made


def scram_alterations(given: Iterable[ScramUpsertion | ScramDeletion]) -> list[SimpleNamespace]:
    """Get credentials with the salted hashes of their passwords (RFC 5802)."""
    import hashlib
    import secrets

    made = []
    for each in given:
        password: str | None = getattr(each, "password", None)
        salted, salt, iterations = b"", b"", 0
        if password is not None:
            iterations = each.iterations  # type: ignore[union-attr]
            salt = each.salt or secrets.token_bytes(24)  # type: ignore[union-attr]
            kind = "sha512" if each.mechanism == "SCRAM-SHA-512" else "sha256"
            salted = hashlib.pbkdf2_hmac(kind, password.encode(), salt, iterations)
        made.append(
            SimpleNamespace(
                user=each.user, mechanism=each.mechanism, iterations=iterations, salt=salt, salted_password=salted
            )
        )
    return made


def quota_filter(entity: Mapping[str, str | None]) -> list[SimpleNamespace]:
    """Get the parts of an entity that a filter is about.

    The name `*` is any.
    """
    return [SimpleNamespace(type=kind, name=name, any=name == "*") for kind, name in entity.items()]


def quota_alterations(
    alterations: Iterable[tuple[Mapping[str, str | None], Mapping[str, float | None]]],
) -> list[SimpleNamespace]:
    """Get entities with the changes of their quotas."""
    return [
        SimpleNamespace(
            entity=[SimpleNamespace(type=kind, name=name) for kind, name in entity.items()],
            changes=[SimpleNamespace(key=key, value=value) for key, value in quotas.items()],
        )
        for entity, quotas in alterations
    ]


def reassignments(given: Mapping[Any, Iterable[int] | None]) -> list[SimpleNamespace]:
    """Get partitions with the brokers of their replicas."""
    return [
        SimpleNamespace(**vars(pair(partition)), replicas=None if replicas is None else list(replicas))
        for partition, replicas in given.items()
    ]


def reset_target(
    to: OffsetSpec | timedelta | Mapping[Any, int] | None, shift: int | None, now: datetime
) -> dict[str, Any]:
    """Get where offsets are reset to.

    Raises:
        ArgumentError: Neither `to` nor `shift` is given, or both are.
    """
    if (to is None) == (shift is None):
        raise ArgumentError("say where to: by `to`, or by `shift`")
    if isinstance(to, Mapping):
        return {"timestamp": None, "shift": None, "offsets": named_offsets(to)}
    if isinstance(to, timedelta):
        to = now - to
    return {"timestamp": None if to is None else timestamp(to), "shift": shift, "offsets": []}
