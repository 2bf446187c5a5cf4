"""What a consumer's polls return: buffered records, errors and ends of partitions, one message at a time."""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final

import ottla
from ottla import _ottla, errors
from ottla.compat.confluent_kafka.callbacks import LONG_SLICE, SLICE
from ottla.compat.confluent_kafka.cluster import Cluster
from ottla.compat.confluent_kafka.constants import OFFSET_BEGINNING, OFFSET_END
from ottla.compat.confluent_kafka.errors import KafkaError, code, to_exception, to_kafka_error
from ottla.compat.confluent_kafka.message import Message, of_error
from ottla.compat.confluent_kafka.offsets import Offsets, Pair
from ottla.compat.confluent_kafka.properties import Configuration
from ottla.compat.confluent_kafka.topic_partition import TopicPartition
from ottla.compat.confluent_kafka.watermarks import Watermarks

# The records that a poll for one message fetches ahead.
_AHEAD: Final = 500
# Seconds between two questions for the end of partitions, and until the same error is returned again.
_BETWEEN_ENDS: Final = 0.1
_BETWEEN_ERRORS: Final = 30.0
_METADATA: Final = 5.0
Listener = Callable[[list[TopicPartition]], object]


class Consumption:
    """The records of a consumer on their way to the application.

    Args:
        config: The consumer's configuration.
        cluster: Its cluster.
        listeners: The application's `on_assign`, `on_revoke` and `on_lost`, as functions of partitions.
    """

    def __init__(self, config: Configuration, cluster: Cluster) -> None:
        self.config, self.cluster = config, cluster
        self.client: ottla.Consumer | None = None
        if cluster.is_connected:
            try:
                self.client = ottla.Consumer(config=cluster.properties())
            except errors.KafkaError as error:
                raise to_exception(error) from error
            cluster.metrics = self.client.metrics
            cluster.name(self.client.metrics())
        interval = int(config.properties.get("max.poll.interval.ms", 300_000)) / 1000
        self._most_between_polls, self._polled = interval, time.monotonic()
        self.inbox = _ottla.Inbox(interval / 3)
        self.offsets = Offsets(self.client, self.inbox, config, cluster.callbacks)
        cluster.offsets = self.offsets.by_partition
        self.watermarks = Watermarks(self.client)
        self.subscribed: list[str] = []
        self.assigned: list[TopicPartition] = []
        self.is_manual = False
        self._reports_ends = config.flag("enable.partition.eof", False)
        self._ends: dict[Pair, int] = {}
        # Where the application let partitions begin.
        self._begins: dict[Pair, int] = {}
        self._next_ends = 0.0
        self._errors: dict[tuple[int, str | None, int | None], float] = {}
        has_callbacks = bool(config.callbacks) or config.logger is not None or self._reports_ends
        self._slice = SLICE if has_callbacks else LONG_SLICE

    def take(self, most: int, deadline: float) -> list[Message]:
        """As many messages as there are, at least one; none when the time is up."""
        is_fetched = False
        while True:
            self.cluster.callbacks.serve()
            self.offsets.serve()
            if self.inbox.is_due():
                # Between buffered records, so that the group does not take the application for dead.
                self._fetch(0, 1)
            found = self.inbox.take(most)
            if found:
                return found
            left = deadline - time.monotonic()
            if left <= 0 and is_fetched:
                return []
            self._fetch(max(left, 0.0), most)
            is_fetched = True

    def _fetch(self, left: float, most: int) -> None:
        """Get records from ottla, or what is returned instead."""
        self.inbox.polled()
        if self.client is None or not (self.subscribed or self.assigned):
            time.sleep(min(SLICE, left))
            self._polled = time.monotonic()
            return
        if self._is_late():
            return
        try:
            batch = self.client.poll(min(left, self._slice), max_records=max(most, _AHEAD))
        except errors.KafkaError as error:
            self._failed(error, left)
            return
        finally:
            self._polled = time.monotonic()
        if len(batch):
            self.inbox.put(batch)
            return
        if self._reports_ends and time.monotonic() >= self._next_ends:
            self._next_ends = time.monotonic() + _BETWEEN_ENDS
            self._find_ends()

    def _is_late(self) -> bool:
        """Whether the last poll is longer ago than a member of a group may take: the next message is the error."""
        now = time.monotonic()
        passed, self._polled = now - self._polled, now
        if not self.subscribed or passed <= self._most_between_polls:
            return False
        most, passed_ms = round(self._most_between_polls * 1000), round(passed * 1000)
        reason = f"Application maximum poll interval ({most}ms) exceeded by {passed_ms - most}ms"
        self.inbox.put_notice(None, -1, of_error(KafkaError(code("_MAX_POLL_EXCEEDED"), reason), None, -1))
        return True

    def _failed(self, error: errors.KafkaError, left: float) -> None:
        """Return an error as a message, once in a while; that no broker is reachable is for `error_cb`."""
        if isinstance(error, errors.ClosedError):
            raise RuntimeError("Consumer closed")  # noqa: TRY004 as the calls of a closed consumer
        key = (error.code or 0, error.topic, error.partition)
        now = time.monotonic()
        is_outage = isinstance(error, errors.UnreachableError | errors.KafkaTimeoutError)
        if is_outage or now - self._errors.get(key, -_BETWEEN_ERRORS) < _BETWEEN_ERRORS:
            time.sleep(min(SLICE, left))
            return
        self._errors[key] = now
        # librdkafka's errors of a topic have partition 0.
        partition = error.partition if error.partition is not None else -1 if error.topic is None else 0
        self.inbox.put_notice(error.topic, partition, of_error(to_kafka_error(error), error.topic, partition))
        beyond = getattr(error, "next_offset", None)
        if beyond is not None and self.client is not None and error.topic is not None and partition >= 0:
            # librdkafka passes over what does not decode.
            self.client.seek((error.topic, partition), beyond)

    def _find_ends(self) -> None:
        """Queue a message for each partition whose end was reached."""
        client = self.client
        if client is None:
            return
        try:
            paused = set(client.paused())
            reading = [tp for tp in client.assignment() if tp not in paused]
            if not reading:
                return
            ends = client.end_offsets(reading, timeout=_METADATA)
            for tp in reading:
                position = client.position(tp, timeout=_METADATA)
                pair = (tp.topic, tp.partition)
                if position >= ends[tp] and self._ends.get(pair) != position:
                    self._ends[pair] = position
                    end = KafkaError(code("_PARTITION_EOF"))
                    message = of_error(end, tp.topic, tp.partition, position)
                    self.inbox.put_notice(tp.topic, tp.partition, message)
        except errors.KafkaError:
            return  # Asked again with the next poll; an outage is for `error_cb`.

    def discard(self, partitions: Iterable[Pair], *, rewind: bool) -> None:
        """Drop buffered records of partitions; with `rewind`, they are fetched again."""
        firsts = self.inbox.discard(set(partitions))
        if not rewind or self.client is None:
            return
        for topic, partition, offset in firsts:
            self.client.seek((topic, partition), offset)

    def start(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin partitions where their offsets say."""
        if self.client is None:
            return
        for at in partitions:
            pair = (at.topic, at.partition)
            if at.offset >= 0:
                self.seek(pair, at.offset)
            elif at.offset in {OFFSET_BEGINNING, OFFSET_END}:
                self.client._core.seek_to([pair], end=at.offset == OFFSET_END)

    def seek(self, pair: Pair, offset: int) -> None:
        """Continue a partition at an offset."""
        if self.client is not None:
            self.client.seek(pair, offset)
            self._begins[pair] = offset
            self.offsets.forget_position(pair)

    def position(self, pair: Pair) -> tuple[int, int | None]:
        """The offset after the last record that was returned, and that record's leader epoch.

        Markers of transactions after the record count: programs read until the position is the end of the partition.
        """
        offset, epoch = self.offsets.position(pair)
        begin = offset if offset >= 0 else self._begins.get(pair)
        if begin is None or self.client is None or len(self.inbox):
            return offset, epoch
        try:
            reached = self.client.position(pair, timeout=0)
        except errors.KafkaError:
            return offset, epoch
        return (reached if reached > begin else offset), epoch

    def forget(self, partitions: Iterable[Pair]) -> None:
        """Forget partitions that are not assigned any more."""
        gone = list(partitions)
        self.discard(gone, rewind=False)
        self.offsets.forget(gone)
        for pair in gone:
            self._ends.pop(pair, None)
            self._begins.pop(pair, None)

    def subscribe(self, topics: list[str], listeners: dict[str, Listener | None]) -> None:
        """Join the group. The listeners are called by polls."""
        self.subscribed, self.is_manual, self.assigned = list(topics), False, []
        self._polled = time.monotonic()
        if self.client is None:
            return
        lost = listeners["on_lost"]
        # Weak, so that a consumer that the program drops leaves its group at once, not when Python collects garbage.
        mine = weakref.ref(self)

        def revoked(partitions: list[Any], called: Listener | None, *, commits: bool) -> None:
            pairs, living = [(tp.topic, tp.partition) for tp in partitions], mine()
            if living is None:
                return
            living.discard(pairs, rewind=False)
            try:
                if called is not None and partitions:
                    called([TopicPartition(topic, partition) for topic, partition in pairs])
            finally:
                if commits:
                    living.offsets.last_commit(pairs)
                living.forget(pairs)

        def assigned(partitions: list[Any]) -> None:
            called = listeners["on_assign"]
            if called is not None:
                called([TopicPartition(tp.topic, tp.partition) for tp in partitions])

        self.client.subscribe(
            _pattern(topics) if any(topic.startswith("^") for topic in topics) else topics,
            on_assign=assigned,
            on_revoke=lambda partitions: revoked(partitions, listeners["on_revoke"], commits=True),
            on_lost=lambda partitions: revoked(partitions, lost or listeners["on_revoke"], commits=False),
        )

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions and no others."""
        kept = {(at.topic, at.partition) for at in partitions}
        self.discard(kept, rewind=True)
        self.forget([pair for pair in self.pairs() if pair not in kept])
        self.is_manual, self.assigned, self.subscribed = True, list(partitions), []
        if self.client is not None:
            self.client.assign([(at.topic, at.partition) for at in partitions])

    def pairs(self) -> list[Pair]:
        """The assigned partitions."""
        if self.is_manual or self.client is None:
            return [(at.topic, at.partition) for at in self.assigned]
        return [(tp.topic, tp.partition) for tp in self.client.assignment()]


def _pattern(topics: list[str]) -> re.Pattern[str]:
    """Names and patterns as one pattern for the whole name: librdkafka's match anything after them."""
    parts = [
        f"(?:{topic[1:]})"
        if topic.endswith("$")
        else f"(?:{topic[1:]}).*"
        if topic.startswith("^")
        else re.escape(topic)
        for topic in topics
    ]
    return re.compile("|".join(parts))
