"""The offsets of a consumer's group: what is stored, what is committed when, and `on_commit`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import ottla
from ottla import _ottla, errors
from ottla.compat.confluent_kafka.callbacks import Callbacks
from ottla.compat.confluent_kafka.constants import OFFSET_INVALID
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException, code, failure, to_kafka_error
from ottla.compat.confluent_kafka.properties import Configuration
from ottla.compat.confluent_kafka.statistics import PartitionOffsets
from ottla.compat.confluent_kafka.topic_partition import TopicPartition, committed, to_commit

Pair = tuple[str, int]
# Seconds that a commit waits at most: librdkafka retries as long as the client lives.
_COMMIT: Final = 60.0
_LAST_COMMIT: Final = 5.0
_NO_POSITION: Final = (OFFSET_INVALID, None)


class Offsets:
    """Stored and committed offsets.

    Args:
        client: The consumer, or None without brokers.
        inbox: Reports which records were returned.
        config: Its configuration.
        callbacks: Where `on_commit` is queued for a poll.
    """

    def __init__(
        self, client: ottla.Consumer | None, inbox: _ottla.Inbox, config: Configuration, callbacks: Callbacks
    ) -> None:
        self._client, self._inbox, self._callbacks = client, inbox, callbacks
        self.is_automatic = config.flag("enable.auto.commit", True)
        self.stores = config.flag("enable.auto.offset.store", True)
        self._interval = config.number("auto.commit.interval.ms", 5000) / 1000
        self._next = time.monotonic() + self._interval
        self._on_commit: Callable[..., object] | None = config.callbacks.get("on_commit")
        self._stored: dict[Pair, ottla.OffsetAndMetadata] = {}
        self._position: dict[Pair, tuple[int, int | None]] = {}
        self._committed: dict[Pair, ottla.OffsetAndMetadata] = {}
        self._queue = _ottla.CompletionQueue()
        self._under_way: list[tuple[_ottla.Operation, dict[Pair, ottla.OffsetAndMetadata], list[Pair]]] = []

    def _update(self) -> None:
        """Take in which records were returned."""
        for topic, partition, offset, epoch in self._inbox.take_positions():
            self._position[topic, partition] = offset, epoch
            if self.stores:
                self._stored[topic, partition] = ottla.OffsetAndMetadata(offset, "", epoch)

    @property
    def stored(self) -> dict[Pair, ottla.OffsetAndMetadata]:
        """By partition, what the next commit commits."""
        self._update()
        return self._stored

    def position(self, partition: Pair) -> tuple[int, int | None]:
        """The offset after the last record that was returned, or OFFSET_INVALID, and that record's leader epoch."""
        self._update()
        return self._position.get(partition, _NO_POSITION)

    def forget_position(self, partition: Pair) -> None:
        """Forget which record of a partition was returned last."""
        self._update()
        self._position.pop(partition, None)

    def positions(self) -> list[Pair]:
        """The partitions that have a position."""
        self._update()
        return list(self._position)

    def by_partition(self) -> dict[Pair, PartitionOffsets]:
        """Where the consumer is, for statistics."""
        stored = self.stored
        return {
            pair: PartitionOffsets(
                self._position.get(pair, _NO_POSITION)[0],
                stored[pair].offset if pair in stored else OFFSET_INVALID,
                self._committed[pair].offset if pair in self._committed else OFFSET_INVALID,
            )
            for pair in {*self._position, *stored, *self._committed}
        }

    def store(self, partition: Pair, offset: int, metadata: str | None, epoch: int | None) -> None:
        """Store the offset of the next record."""
        self._stored[partition] = ottla.OffsetAndMetadata(offset, to_commit(metadata), epoch)

    def forget(self, partitions: Iterable[Pair]) -> None:
        """Forget what is stored of partitions that are not assigned any more."""
        self._update()
        for partition in partitions:
            self._position.pop(partition, None)
            self._stored.pop(partition, None)
            self._committed.pop(partition, None)

    def _changed(self, partitions: Iterable[Pair] | None = None) -> dict[Pair, ottla.OffsetAndMetadata]:
        stored = self.stored
        wanted = stored if partitions is None else partitions
        return {pair: stored[pair] for pair in wanted if pair in stored and self._committed.get(pair) != stored[pair]}

    def serve(self) -> None:
        """Commit what is due, and queue `on_commit` for commits that ended."""
        if self.is_automatic and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._interval
            changed = self._changed()
            if changed:
                self.commit_later(changed)
        if not self._under_way:
            return
        self._queue.drain()
        under_way, self._under_way = self._under_way, []
        for operation, offsets, shown in under_way:
            if not operation.poll(self._queue, 0):
                self._under_way.append((operation, offsets, shown))
                continue
            failed = None
            try:
                operation.take()
            except errors.KafkaError as error:
                failed = to_kafka_error(error, at_deadline="_TIMED_OUT")
            else:
                self._committed.update(offsets)
            self.report(failed, to_list(offsets, failed, shown))

    def report(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Queue `on_commit`."""
        on_commit = self._on_commit
        if on_commit is not None:
            self._callbacks.add(lambda: on_commit(error, partitions))

    def commit_later(self, offsets: dict[Pair, ottla.OffsetAndMetadata], shown: Iterable[Pair] = ()) -> None:
        """Begin a commit; `serve` notices its end. `shown` are partitions that `on_commit` gets in any case."""
        if self._client is None:
            return
        operation = self._client._core.commit(offsets, _COMMIT)
        operation.poll(self._queue, 0)
        self._under_way.append((operation, offsets, list(shown)))

    def commit(
        self, offsets: dict[Pair, ottla.OffsetAndMetadata], shown: Iterable[Pair] = (), seconds: float = _COMMIT
    ) -> list[TopicPartition]:
        """Commit, and wait for the result. `shown` are partitions that are returned in any case."""
        if self._client is None:
            raise failure("_TIMED_OUT", "Commit failed: Local: Timed out")
        try:
            self._client.commit(offsets, timeout=seconds)
        except errors.KafkaError as error:
            raise KafkaException(to_kafka_error(error, at_deadline="_TIMED_OUT")) from error
        self._committed.update(offsets)
        return to_list(offsets, None, shown)

    def last_commit(self, partitions: Iterable[Pair] | None = None) -> None:
        """With automatic commits, commit what is stored of partitions that go, and wait a moment for it."""
        changed = self._changed(partitions) if self.is_automatic and self._client is not None else {}
        if changed:
            try:
                self.commit(changed, seconds=_LAST_COMMIT)
            except KafkaException as error:
                self.report(error.args[0], to_list(changed, error.args[0]))
            else:
                self.report(None, to_list(changed, None))


def to_list(
    offsets: dict[Pair, ottla.OffsetAndMetadata], error: KafkaError | None, shown: Iterable[Pair] = ()
) -> list[TopicPartition]:
    """Offsets as a list of partitions, with those of `shown` that have none."""
    made = []
    for pair in dict.fromkeys([*shown, *offsets]):
        at = offsets.get(pair)
        if at is None:
            made.append(TopicPartition(*pair, OFFSET_INVALID))
        else:
            made.append(TopicPartition(*pair, at.offset, committed(at.metadata)))
    for partition in made:
        partition.error = error
    return made


def wanted(message: Any, offsets: list[TopicPartition] | None) -> dict[Pair, ottla.OffsetAndMetadata]:
    """What a call is to commit or store: the offset after a message, or a list of offsets."""
    if message is not None:
        if message.error() is not None:
            reason = message.error().str()
            raise failure("_INVALID_ARG", f"Cannot commit or store offsets for message with error: '{reason}'")
        if message.topic() is None or message.offset() is None:
            return {}
        epoch = message.leader_epoch()
        return {(message.topic(), message.partition()): ottla.OffsetAndMetadata(message.offset() + 1, "", epoch)}
    return {
        (at.topic, at.partition): ottla.OffsetAndMetadata(at.offset, to_commit(at.metadata), at.leader_epoch)
        for at in offsets or []
        if at.offset >= 0
    }


def no_offset(assigned: Iterable[Pair]) -> tuple[KafkaError, list[TopicPartition]]:
    """The error of a commit with nothing to commit, and the partitions it is about."""
    error = KafkaError(code("_NO_OFFSET"), "Commit failed: Local: No offset stored")
    return error, [TopicPartition(topic, partition, OFFSET_INVALID) for topic, partition in assigned]
