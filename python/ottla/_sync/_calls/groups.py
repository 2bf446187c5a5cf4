# Written by scripts/unasync.py from python/ottla/aio/_calls/groups.py. Change that file, and run the script.
"""Groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from ottla import _admin as results
from ottla import _ottla
from ottla._admin import arguments
from ottla._types import (
    GroupListing,
    OffsetAndMetadata,
    Offsets,
    Partition,
    TopicPartition,
)


class Groups:
    """Calls about groups of all protocols."""

    __slots__ = ()
    _core: _ottla.AdminCore

    def list_groups(
        self,
        *,
        states: str | Iterable[str] = (),
        types: str | Iterable[str] = (),
        protocol_types: str | Iterable[str] = (),
        timeout: float | None = None,
    ) -> results.Rows[GroupListing]:
        """List the groups that this client may see, sorted by id.

        Every broker returns those that it coordinates.

        Without the permission to describe the cluster these are the groups that this client may describe.

        Args:
            states: Only groups in these states, such as `"Stable"` or `"Empty"` (KIP-518, Kafka 2.6 and later).
            types: Only groups of these types: `"classic"`, `"consumer"`, `"share"` or `"streams"` (KIP-848, Kafka 3.8
                and later).
            protocol_types: Only groups of these protocol types, such as `"consumer"` or `"connect"`; `""` for those
                that only have committed offsets.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Groups of every protocol and type.

        Raises:
            UnsupportedError: A broker is older than Kafka 0.9, or too old for a filter.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or one did not respond in time.
        """
        groups: results.Rows[GroupListing]
        groups = self._core.call(
            "list_groups", timeout, states=states, types=types, protocol_types=protocol_types
        ).wait()
        return groups

    def describe_groups(
        self,
        groups: str | Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, results.GroupDescription]:
        """Describe groups of the classic and of the consumer protocol (KIP-848), and their members.

        The request goes to the coordinator of each group. A second request describes groups that are not classic ones.

        Args:
            groups: Ids of groups.
            include_authorized_operations: Whether to return the operations that the client is authorized for (KIP-430,
                Kafka 2.3 and later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Descriptions by id.

        Raises:
            NotFoundError: There is no such group, or it is of a protocol that is neither of the two.
            AuthorizationError: This client may not describe the group.
            UnsupportedError: A broker is older than Kafka 0.9.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        described: dict[str, results.GroupDescription] = self._core.call(
            "describe_groups", timeout, groups=groups, include_authorized_operations=include_authorized_operations
        ).wait()
        return described

    def describe_share_groups(
        self,
        groups: str | Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, results.GroupDescription]:
        """Describe share groups and their members (KIP-932, Kafka 4.1 and later).

        Args:
            groups: Ids of groups.
            include_authorized_operations: Whether to return the operations that the client is authorized for.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Descriptions by id.

        Raises:
            NotFoundError: There is no such share group.
            AuthorizationError: This client may not describe the group.
            UnsupportedError: A broker is too old for share groups.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        described: dict[str, results.GroupDescription] = self._core.call(
            "describe_share_groups",
            timeout,
            groups=groups,
            include_authorized_operations=include_authorized_operations,
        ).wait()
        return described

    def describe_streams_groups(
        self,
        groups: str | Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, results.StreamsGroupDescription]:
        """Describe groups of Kafka Streams, their topologies and their members (KIP-1071, Kafka 4.1 and later).

        Args:
            groups: Ids of groups.
            include_authorized_operations: Whether to return the operations that the client is authorized for.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Descriptions by id.

        Raises:
            NotFoundError: There is no such group of Kafka Streams.
            AuthorizationError: This client may not describe the group.
            UnsupportedError: A broker is too old for such groups.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        described: dict[str, results.StreamsGroupDescription] = self._core.call(
            "describe_streams_groups",
            timeout,
            groups=groups,
            include_authorized_operations=include_authorized_operations,
        ).wait()
        return described

    def delete_groups(self, groups: str | Iterable[str], *, timeout: float | None = None) -> None:
        """Delete groups without members, of any type, with their committed offsets (KIP-229, Kafka 1.1 and later).

        Args:
            groups: Ids of groups.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: There is no such group. `may_be_done` is true if an earlier attempt of this call, whose
                response was lost, may have deleted it.
            AuthorizationError: This client may not delete the group.
            KafkaError: `name` is `"NON_EMPTY_GROUP"` while a group has members.
            ClosedError: The client is closed.
        """
        self._core.call("delete_groups", timeout, groups=groups).wait()

    def list_group_offsets(
        self,
        groups: str | Iterable[str] | Mapping[str, Iterable[Partition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """List the offsets that groups have committed.

        Groups of Kafka Streams have them too.

        Args:
            groups: Ids of groups, for all of their offsets (Kafka 0.10.2 and later); or the wanted partitions by group.
            require_stable: Whether to wait for open transactions that may still commit offsets (KIP-447, Kafka 2.5 and
                later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Offsets by group and partition; None for a wanted partition that has none. A group that does not exist has
            no offsets.

        Raises:
            AuthorizationError: This client may not describe the group.
            UnsupportedError: The coordinator is too old for what is wanted.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: dict[str, dict[TopicPartition, OffsetAndMetadata | None]]
        found = self._core.call(
            "list_group_offsets", timeout, groups=arguments.group_queries(groups), require_stable=require_stable
        ).wait()
        return found

    def alter_group_offsets(self, group: str, offsets: Offsets, *, timeout: float | None = None) -> None:
        """Commit offsets for a group that has no members.

        Args:
            group: The id of the group. One that does not exist is created.
            offsets: By partition, the offset of the next record to read, as an int or as `OffsetAndMetadata`.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not read by the group, or may not read a topic.
            KafkaError: `name` is `"UNKNOWN_MEMBER_ID"` while the group has members.
            ClosedError: The client is closed.
        """
        rows = arguments.group_offsets(offsets)
        self._core.call("alter_group_offsets", timeout, group=group, offsets=rows).wait()

    def delete_group_offsets(
        self, group: str, partitions: Iterable[Partition], *, timeout: float | None = None
    ) -> None:
        """Delete committed offsets of topics that no member subscribes to (KIP-496, Kafka 2.4 and later).

        Args:
            group: The id of the group.
            partitions: Partitions as `TopicPartition`s or pairs.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: There is no such group.
            AuthorizationError: This client may not delete the group's offsets.
            KafkaError: `name` is `"GROUP_SUBSCRIBED_TO_TOPIC"` if a member subscribes to the topic.
            ClosedError: The client is closed.
        """
        self._core.call("delete_group_offsets", timeout, group=group, partitions=partitions).wait()

    def remove_group_members(
        self,
        group: str,
        group_instance_ids: Iterable[str] | None = None,
        *,
        reason: str = "removed by an administrator",
        timeout: float | None = None,
    ) -> None:
        """Remove members from a group of the classic protocol (KIP-345, Kafka 2.4 and later).

        A member that still runs joins again.

        Args:
            group: The id of the group.
            group_instance_ids: The `group.instance.id`s of static members; None for all members of the group.
            reason: What the coordinator logs (KIP-800).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: There is no such group.
            AuthorizationError: This client may not read by the group.
            KafkaError: `name` is `"UNKNOWN_MEMBER_ID"` if there is no such member.
            ClosedError: The client is closed.
        """
        self._core.call(
            "remove_group_members",
            timeout,
            group=group,
            group_instance_ids=None if group_instance_ids is None else list(group_instance_ids),
            reason=reason,
        ).wait()

    def list_share_group_offsets(
        self,
        groups: str | Iterable[str] | Mapping[str, Iterable[Partition] | None],
        *,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, results.ShareGroupOffset]]:
        """List where share groups begin to read (KIP-932, Kafka 4.1 and later).

        Args:
            groups: Ids of groups, for all partitions that they read; or the wanted partitions by group.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Offsets by group and partition.

        Raises:
            NotFoundError: There is no such share group.
            AuthorizationError: This client may not describe the group.
            UnsupportedError: A broker is too old.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: dict[str, dict[TopicPartition, results.ShareGroupOffset]]
        found = self._core.call("list_share_group_offsets", timeout, groups=arguments.group_queries(groups)).wait()
        return found

    def alter_share_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int],
        *,
        timeout: float | None = None,
    ) -> None:
        """Set where a share group without members begins to read (KIP-932, Kafka 4.1 and later).

        Args:
            group: The id of the group.
            offsets: The offset of the first record to read, by partition.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: There is no such share group.
            AuthorizationError: This client may not read by the group.
            KafkaError: `name` is `"NON_EMPTY_GROUP"` while the group has members.
            ClosedError: The client is closed.
        """
        rows = arguments.named_offsets(offsets)
        self._core.call("alter_share_group_offsets", timeout, group=group, offsets=rows).wait()

    def delete_share_group_offsets(
        self, group: str, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Delete topics from the offsets of a share group without members (KIP-932, Kafka 4.1 and later).

        Args:
            group: The id of the group.
            topics: Names of topics.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: There is no such share group, or no such topic.
            AuthorizationError: This client may not delete the group's offsets.
            KafkaError: `name` is `"NON_EMPTY_GROUP"` while the group has members.
            ClosedError: The client is closed.
        """
        self._core.call("delete_share_group_offsets", timeout, group=group, topics=topics).wait()

    def lag(
        self,
        groups: str | Iterable[str],
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout: float | None = None,
    ) -> results.Rows[results.GroupLag]:
        """List the lag of groups, for each partition that a group has an offset for, or that a member reads.

        Args:
            groups: Ids of groups of the classic or of the consumer protocol.
            isolation_level: Whether the end of a log is before records of open transactions.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Rows by group, topic and partition; `to_arrow` makes them a table.

        Raises:
            NotFoundError: There is no such group.
            AuthorizationError: This client may not describe a group or a topic.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        rows: results.Rows[results.GroupLag]
        rows = self._core.call("lag", timeout, groups=groups, read_committed=isolation_level == "read_committed").wait()
        return rows

    def reset_group_offsets(
        self,
        group: str,
        to: arguments.OffsetSpec
        | timedelta
        | Mapping[TopicPartition, int]
        | Mapping[tuple[str, int], int]
        | None = None,
        *,
        shift: int | None = None,
        topics: str | Iterable[str] = (),
        partitions: Iterable[Partition] = (),
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> results.Rows[results.OffsetReset]:
        """Move the offsets of a group that has no members.

        What would be outside of a log moves to its nearest end.

        Args:
            group: The id of the group.
            to: `"earliest"`, `"latest"`, a time as a datetime or in milliseconds since 1970 UTC, how long ago as a
                timedelta, or offsets by partition, such as those of a file.
            shift: By how many offsets, forward or, if it is negative, back.
            topics: Only the partitions of these topics; without topics and partitions, all that the group has offsets
                of.
            partitions: These partitions, as `TopicPartition`s or pairs.
            dry_run: Whether nothing is changed.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Each partition with its old and its new offset.

        Raises:
            ArgumentError: Neither `to` nor `shift` is given, or both are; or there is no offset to shift.
            NotFoundError: A topic does not exist.
            KafkaError: `name` is `"UNKNOWN_MEMBER_ID"` while the group has members.
            ClosedError: The client is closed.
        """
        rows: results.Rows[results.OffsetReset]
        rows = self._core.call(
            "reset_group_offsets",
            timeout,
            group=group,
            topics=topics,
            partitions=partitions,
            dry_run=dry_run,
            **arguments.reset_target(to, shift, datetime.now(UTC)),
        ).wait()
        return rows
