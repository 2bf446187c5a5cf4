"""Shared parts of both `transform` functions: settings, progress, and the reaction to failures."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ottla._hints import ConfigValue, Servers
from ottla._ottla import Batch
from ottla._types import Data, Headers, OffsetAndMetadata, SubscriptionPattern, TopicPartition
from ottla.errors import (
    ArgumentError,
    ConfigError,
    FatalError,
    FencedError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortableError,
    UnknownOutcomeError,
)

# Seconds that a poll waits at most, so that a stop is seen soon.
SLICE = 0.2
# Seconds for the close of each client of a transform, and for the end of the open transaction.
CLOSE_TIMEOUT = 5.0
# As in Kafka Streams: readers of committed records wait this long for the transaction of a killed
# member.
_TRANSACTION_TIMEOUT_MS = 10_000
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
# Seconds without records after a failure, after which the next one counts as the first.
_QUIET = 5.0
_OURS = {
    "group.id": "pass group_id",
    "enable.auto.commit": "offsets are committed with the records, in one transaction",
    "isolation.level": "only committed records are read, and only settled offsets",
    "transactional.id": "pass transactional_id",
}
# The topic of what was read was deleted, so that no offset of it is committed.
_DELETED = "UNKNOWN_TOPIC_ID"
# Doing the work again does not fix these.
_HOPELESS = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "FENCED_INSTANCE_ID",
        "GROUP_AUTHORIZATION_FAILED",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_TRANSACTION_TIMEOUT",
        "MESSAGE_TOO_LARGE",
        "OFFSET_METADATA_TOO_LARGE",
        "POLICY_VIOLATION",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "UNSUPPORTED_VERSION",
    }
)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write, as the function of `transform` gives it.

    Attributes:
        value: Bytes, a str, or None for a tombstone, as `Producer.send` takes it.
        key: The same of the key, which chooses the partition.
        topic: The topic; None is that of `transform`.
        partition: The partition; None leaves it to the partitioner.
        timestamp: Milliseconds since 1970 UTC, or a datetime with a time zone; None is the time of sending.
        headers: A dict, or a list of pairs.
    """

    value: Data | None
    key: Data | None = None
    topic: str | None = None
    partition: int | None = None
    timestamp: int | datetime | None = None
    headers: Headers | None = None


class Settings(NamedTuple):
    """What `transform` was given, checked."""

    topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern
    to: str | None
    max_records: int | None
    commit_interval: float
    retry_for: float
    transactional_id: str
    is_named: bool
    consumer: dict[str, Any]
    producer: dict[str, Any]

    def __repr__(self) -> str:
        # Properties may be secret.
        return f"Settings(topics={self.topics!r}, to={self.to!r}, transactional_id={self.transactional_id!r})"

    @staticmethod
    def of(
        bootstrap_servers: Servers,
        *,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        group_id: str,
        to: str | None,
        transactional_id: str | None,
        max_records: int | None,
        commit_interval: float,
        retry_for: float,
        config: Mapping[str, ConfigValue] | None,
        consumer: Mapping[str, ConfigValue] | None,
        producer: Mapping[str, ConfigValue] | None,
    ) -> Settings:
        """Check what was given, as far as that can be done without the clients.

        Raises:
            ArgumentError: A number is out of range.
            ConfigError: A property is given that the transform sets itself.
        """
        if max_records is not None and max_records < 1:
            raise ArgumentError(f"max_records is {max_records}: a transaction needs at least one record")
        if commit_interval < 0 or retry_for < 0:
            raise ArgumentError(
                f"commit_interval is {commit_interval} and retry_for is {retry_for}: both must be at least 0 seconds"
            )
        both, read, write = (_by_names_of_kafka(each) for each in (config, consumer, producer))
        for properties in (both, read, write):
            for name in _OURS.keys() & properties.keys():
                raise ConfigError(f"{name} cannot be set, because transform() sets it: {_OURS[name]}")
        name = transactional_id or f"{group_id}-{os.urandom(16).hex()}"
        shared = both | {"bootstrap.servers": bootstrap_servers}
        writes = {"transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS} | shared | write
        reads = shared | read
        return Settings(
            topics=list(topics) if isinstance(topics, Iterable) and not isinstance(topics, str) else topics,
            to=to,
            max_records=max_records,
            commit_interval=commit_interval,
            retry_for=retry_for,
            transactional_id=name,
            is_named=transactional_id is not None,
            consumer=reads | {"group.id": group_id, "enable.auto.commit": False, "isolation.level": "read_committed"},
            producer=writes | {"transactional.id": name},
        )


def _by_names_of_kafka(properties: Mapping[str, ConfigValue] | None) -> dict[str, Any]:
    """Properties whose names may have underscores, so that one that is given twice is seen."""
    return {name.replace("_", "."): value for name, value in (properties or {}).items()}


class Progress:
    """How far a transform has read since its last commit, and for how long its transactions have failed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # By partition: where the records begin that are not committed yet, and where they end.
        self.first: dict[TopicPartition, int] = {}
        self.next: dict[TopicPartition, int] = {}
        self._records = 0
        self._since = 0.0
        # A transaction failed, so that what was read has to be read again.
        self.is_behind = False
        self._failures = 0
        self._failing_since = 0.0
        # Since when polls have brought nothing after a failure.
        self._quiet_since: float | None = None

    def read_nothing(self) -> None:
        """Take in that a poll brought nothing.

        A failure is over if there is nothing to do for a while after it.
        """
        if self._records or self.is_behind or not self._failures:
            return
        now = time.monotonic()
        if self._quiet_since is None:
            self._quiet_since = now
        elif now - self._quiet_since >= _QUIET:
            self._failures = 0

    def read(self, batch: Batch) -> None:
        """Take in what a poll brought."""
        self._quiet_since = None
        if not self._records:
            self._since = time.monotonic()
        self._records += len(batch)
        for partition, span in batch.spans.items():
            # It is lower where the topic was deleted and created again since.
            self.first[partition] = min(self.first.get(partition, span.start), span.start)
        self.next.update(batch.next_offsets)

    def wait(self) -> float:
        """Seconds that a poll may wait."""
        if not self._records:
            return SLICE
        return min(max(self._since + self._settings.commit_interval - time.monotonic(), 0), SLICE)

    def space(self) -> int | None:
        """How many more records the transaction takes."""
        most = self._settings.max_records
        return None if most is None else max(most - self._records, 1)

    def is_due(self) -> bool:
        """Whether the transaction is to be committed now; after a failure at once, so that it stays short."""
        if not self._records:
            return False
        most = self._settings.max_records
        is_full = most is not None and self._records >= most
        return is_full or self._failures > 0 or time.monotonic() >= self._since + self._settings.commit_interval

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions came or went: they are read from what the group has committed."""
        for partition in partitions:
            self.first.pop(partition, None)
            self.next.pop(partition, None)

    def committed(self) -> None:
        """Everything that was read is committed."""
        self.restarted()
        self._failures = 0

    def restarted(self) -> None:
        """Nothing is read that is not committed."""
        self.first.clear()
        self.next.clear()
        self._records = 0
        self.is_behind = False

    def failed(self, error: KafkaError) -> float:
        """A transaction or a poll failed.

        Returns:
            Seconds to wait before the work is done again.

        Raises:
            KafkaError: The error itself, if a retry is useless or the time for retries is up.
        """
        now = time.monotonic()
        self.is_behind = True
        self._quiet_since = None
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        if not self._can_pass(error):
            raise error
        if error.name == _DELETED:
            # The consumer continues at the beginning of the recreated topic: old offsets are
            # invalid.
            self.forget([partition for partition in self.first if partition.topic == error.topic])
        if now - self._failing_since > self._settings.retry_for:
            error.add_note(
                f"no transaction was committed for {self._settings.retry_for:g} s, in {self._failures} attempts"
            )
            raise error
        # Programs that log nothing do not need the import.
        import logging

        name = self._settings.transactional_id
        logging.getLogger("ottla.transform").warning(
            "%s: the work since the last commit is done again: %s", name, error
        )
        return min(_SHORTEST_PAUSE * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE)

    def _can_pass(self, error: KafkaError) -> bool:
        if error.name in _HOPELESS:
            return False
        if isinstance(error, FencedError) and self._settings.is_named:
            error.add_note(
                f"transactional_id={self._settings.transactional_id!r}: each running transform() needs its own, "
                "or None, which generates one"
            )
            return False
        passing = (FatalError, FencedError, KafkaTimeoutError, TransactionAbortableError, UnknownOutcomeError)
        return error.retriable or isinstance(error, passing)

    def starts(
        self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]
    ) -> Iterator[tuple[TopicPartition, int | OffsetAndMetadata]]:
        """Where to read on after a failure: at what is committed, and where nothing is, at what was read first."""
        for partition, found in committed.items():
            yield partition, self.first[partition] if found is None else found


class FunctionError(Exception):
    """An exception of the caller's function, which is not a failure of a transaction."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def cause(error: BaseException | None) -> BaseException | None:
    """What `run` raises."""
    return error.error if isinstance(error, FunctionError) else error


def is_table(given: object) -> bool:
    """Whether the function gave Arrow data, rather than records."""
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")


def checked(given: Any, to: str | None) -> tuple[NewRecord, str]:
    """A record that the function returned, and its topic.

    Raises:
        FunctionError: It is not a `NewRecord`, or has no topic.
    """
    if not isinstance(given, NewRecord):
        kind = type(given).__name__
        raise FunctionError(
            TypeError(f"the function of transform() must return NewRecords or an Arrow table, not {kind}")
        )
    topic = given.topic or to
    if not topic:
        text = "a NewRecord has no topic: set its topic, or pass to= to transform(), the default topic"
        raise FunctionError(ArgumentError(text))
    return given, topic
