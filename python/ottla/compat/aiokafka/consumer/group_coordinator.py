"""A consumer's membership in its group, as programs look at it."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.compat.aiokafka.consumer._reader import Reader

__all__ = ["GroupCoordinator"]


@dataclass(frozen=True)
class GroupCoordinator:
    """The membership. FastStream logs the id of the member.

    Attributes:
        group_id: The group.
    """

    group_id: str | None
    _reader: Reader
    _session_timeout_ms: int
    _heartbeat_interval_ms: int
    _retry_backoff_ms: int
    _auto_commit_interval_ms: int
    _exclude_internal_topics: bool
    _enable_auto_commit: bool

    @property
    def member_id(self) -> str:
        """The id that the group's coordinator gave this member; empty before the first assignment."""
        found = self._reader.client.group_metadata() if self._reader.client is not None else None
        return "" if found is None else found.member_id

    @property
    def generation(self) -> int:
        """The generation of the last assignment; -1 before the first one."""
        found = self._reader.client.group_metadata() if self._reader.client is not None else None
        return -1 if found is None else found.generation
