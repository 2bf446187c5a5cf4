"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, Unpack

from ottla import _ottla
from ottla._app_metrics import AppMetrics
from ottla._assignors import answer_on_loop
from ottla._closing import CLOSE_TIMEOUT, NOT_CLOSED, deadline_of, exit_timeout, failure, in_listener, left, noting
from ottla._habits import missing
from ottla._hints import ConfigValue, Servers, keywords
from ottla._later import uuid
from ottla._metrics import Metrics, check_callback
from ottla._numbers import after
from ottla._ottla import Batch, Operation, Record
from ottla._types import (
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    Partition,
    SubscriptionPattern,
    TopicPartition,
)
from ottla.aio._closing import disconnecting, ended
from ottla.aio._pace import Pace

# For threads: `from ottla import _reporting`
from ottla.aio._reporting import Reports
from ottla.aio._sasl import with_loop
from ottla.errors import ClosedError

# Not for threads.
LISTENER: ContextVar[object | None] = ContextVar("LISTENER", default=None)  # stands for the listener of a task


class Consumer(AppMetrics):
    """Reads records, for asyncio. Tasks may share it: their polls wait for each other.

    With `enable.auto.commit` such tasks need a consumer each: the poll of one commits what the others work on.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topics: A topic, or several. With `group_id` it is subscribed to. Without, all their partitions are read, also
            partitions that are added later. The first poll finds them; they start at the position of
            `auto.offset.reset`, added ones at their beginning.
        config: Properties by Kafka's names, such as `{"auto.offset.reset": "earliest"}`.
        on_metrics: A function, or an async one, that is called with `metrics()` every `metrics.interval.ms`, and once
            more by `close`. It runs on the loop, from the moment at which the client is made or entered there.
        **properties: The same properties as keywords, such as `auto_offset_reset="earliest"`. `ottla config consumer`
            lists them all.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    Nothing connects before the first call that needs a broker. Close it, or use it in an `async with` statement, which
    closes it. With `group_id`, the members of that group share the partitions of `topics`, or of what they `subscribe`
    to; heartbeats need neither the caller's loop nor its polls, but an application that does not poll for
    `max.poll.interval.ms` leaves the group until it does. Without it, `topics` and `assign` choose partitions.

    With `enable.auto.commit`, a poll commits what earlier polls returned, and `close` commits everything that was
    returned. An `async with` block whose body raises commits only what earlier polls returned; in a loop, only the
    records before the one that the body was working on. A consumer that is not closed commits nothing when it is
    garbage collected, or when the program ends.

    Iteration yields records without end and fetches them in batches. Leaving a loop loses nothing: the next poll or
    loop continues with the next record. Any other call is allowed inside the loop; positions count from the record that
    the loop yields next.

    Records that cannot be read stop their own partition only. All before them come; then a `CorruptRecordError` names
    them, once. The next poll or loop goes on with other partitions. Use `seek` with the error's `next_offset` to skip
    the damaged records. Until then the error is raised again only when no other partition has records: at the end of a
    poll's timeout, in a loop after `default.api.timeout.ms`.

    Example:
        ```python
        async with aio.Consumer("localhost:9092", topics=["flights"], auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                print(record.offset, record.value)
        ```
    """

    __slots__ = ("__weakref__", "_core", "_reports", "_telling")

    def __init__(
        self,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        on_metrics: Callable[[Metrics], object] | None = None,
        **properties: Unpack[keywords.ConsumerProperties],
    ) -> None:
        check_callback(on_metrics)
        self._core = _ottla.ConsumerCore(
            bootstrap_servers, topics=topics, config=with_loop(config), **with_loop(properties)
        )
        self._core.poll_briefly()
        self._reports = Reports(self._core, on_metrics)
        # Stands for the listener that runs.
        self._telling: object | None = None

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions and no others.

        Args:
            partitions: `TopicPartition`s or `(topic, partition)` pairs. A partition with an offset is read from that
                offset. One without keeps its position if it was assigned before, else it starts at the group's
                committed offset, if there is a `group.id`, or at the position of `auto.offset.reset`.

        Raises:
            ArgumentError: A partition or an offset is negative, or topics are subscribed to; nothing was changed.
            ClosedError: The consumer is closed.
        """
        self._core.assign(partitions)

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        *,
        on_assign: Callable[[list[TopicPartition]], object] | None = None,
        on_revoke: Callable[[list[TopicPartition]], object] | None = None,
        on_lost: Callable[[list[TopicPartition]], object] | None = None,
    ) -> None:
        """Join the group `group.id`, and read the partitions of these topics that it assigns.

        The first poll joins.

        Polls call the listeners in the task that polls, before they return any further record. A listener may call
        the consumer, to seek or to commit, but not `poll`, and may be async; `max.poll.interval.ms` is its deadline.
        If it raises, the poll raises that exception once, and the rebalance continues. No record of a revoked or lost
        partition is returned after its listener.

        Args:
            topics: A topic, several, or a pattern made by `re.compile`: every topic whose whole name matches it, also
                topics that are made later, and no internal ones. Patterns have no look-around and no back-references.
                A `SubscriptionPattern` is matched by the group's coordinator, which needs the consumer protocol.
            on_assign: A function, or an async one, that is called with the partitions that were added, after each
                rebalance; the list is empty if there are none.
            on_revoke: Called with the partitions that other members get next. Their offsets can still be committed;
                with `enable.auto.commit` they were committed already.
            on_lost: Called with partitions that other members own already, because the group removed this consumer;
                their offsets cannot be committed any more. Without it, `on_revoke` is called.

        Raises:
            ArgumentError: The consumer has no `group.id`, partitions were assigned by hand, or a pattern is of no use.
            ClosedError: The consumer is closed.

        Example:
            ```python
            consumer = aio.Consumer("localhost:9092", group_id="enrichers")
            consumer.subscribe(["flights"], on_revoke=lambda partitions: print("goes", partitions))
            ```
        """
        self._core.subscribe(topics, on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)

    async def unsubscribe(self, timeout: float | None = None) -> None:
        """Leave the group, after a last commit with `enable.auto.commit`; or clear the manual assignment.

        Listeners are called, as by a poll, but have no longer than is left of the call's time; what they raise is
        raised at the end. Without a response in time the group removes the consumer after its session timeout.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            ClosedError: The consumer is closed.
            ArgumentError: A rebalance listener calls this.
        """
        if self._is_telling():
            raise in_listener("unsubscribe")
        deadline = after(self._core.api_timeout() if timeout is None else timeout)
        await self._leave(self._core.unsubscribe, deadline)

    async def commit(self, offsets: Offsets | None = None, *, wait: bool = True, timeout: float | None = None) -> None:
        """Commit these offsets for the group.

        Args:
            offsets: By partition, the offset of the next record to read, as an int or an `OffsetAndMetadata`. Without
                it, the positions of all assigned partitions: everything that polls and loops have returned.
            wait: Whether to wait for the response. If not, a failure is logged.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            CommitFailedError: The group has removed this consumer, or rebalances: call `poll`, and continue with what
                it returns.
            FencedError: Another member of the group has the same `group.instance.id`.
            ArgumentError: The consumer has no `group.id`, or an offset is negative.
            AuthorizationError: The client may not commit for the group.
            ClosedError: The consumer is closed.
            KafkaError: No broker responded in time; it may still be committed.
        """
        if wait:
            await self._core.commit(offsets, timeout)
        else:
            self._core.commit_later(offsets)

    async def committed(
        self, partitions: Iterable[Partition] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Find the offsets that the group has committed.

        Args:
            partitions: `TopicPartition`s or `(topic, partition)` pairs; without it, those that are assigned.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The offset of the next record to read, with its metadata; None where nothing was committed.

        Raises:
            ArgumentError: The consumer has no `group.id`.
            ClosedError: The consumer is closed.
            KafkaError: No broker responded in time.
        """
        wanted = self._core.assignment() if partitions is None else partitions
        found: dict[TopicPartition, OffsetAndMetadata | None]
        found = await self._core.committed(wanted, timeout)
        return found

    def group_metadata(self) -> GroupMetadata | None:
        """Return the consumer's membership in its group, as of its last assignment.

        It stays the same after the group has removed the consumer, until the next assignment. The broker then rejects
        offsets that `send_offsets` adds to a transaction as this member.

        Returns:
            The group's name, the member's id and its generation, for `send_offsets`; None without a `group.id`.

        Raises:
            ClosedError: The consumer is closed.
        """
        return self._core.group_metadata()

    def assignment(self) -> list[TopicPartition]:
        """List the assigned partitions.

        Those of `topics` in the constructor appear with the first poll.

        Returns:
            The partitions, sorted by topic and number.

        Raises:
            ClosedError: The consumer is closed.
        """
        return self._core.assignment()

    def paused(self) -> list[TopicPartition]:
        """List the partitions that are paused.

        Returns:
            The partitions, sorted by topic and number.

        Raises:
            ClosedError: The consumer is closed.
        """
        return self._core.paused()

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata | None = None) -> None:
        """Set the offset at which a partition is read next.

        Args:
            partition: A partition that is assigned.
            offset: The offset of the next record; without it, the offset of the `TopicPartition`. Of an
                `OffsetAndMetadata`, the leader epoch counts, too: a log that has no such record there was truncated
                (KIP-320).

        Raises:
            ArgumentError: The partition is not assigned, or the offset is negative.
            ClosedError: The consumer is closed.
        """
        self._core.seek(partition, offset)

    def seek_to_beginning(self, partitions: Iterable[Partition] | None = None) -> None:
        """Move partitions to the first record that they hold.

        Args:
            partitions: Assigned partitions; without it, all assigned partitions and those of `topics` in the
                constructor.

        Raises:
            ArgumentError: A partition is not assigned; without `partitions`, the group has not assigned any yet.
            ClosedError: The consumer is closed.
        """
        self._core.seek_to(partitions, end=False)

    def seek_to_end(self, partitions: Iterable[Partition] | None = None) -> None:
        """Move partitions to their end, after the last record.

        Args:
            partitions: Assigned partitions; without it, all assigned partitions and those of `topics` in the
                constructor.

        Raises:
            ArgumentError: A partition is not assigned; without `partitions`, the group has not assigned any yet.
            ClosedError: The consumer is closed.
        """
        self._core.seek_to(partitions, end=True)

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Stop returning records of these partitions until `resume`.

        Other partitions are not affected.

        Args:
            partitions: Partitions that are assigned.

        Raises:
            ArgumentError: A partition is not assigned.
            ClosedError: The consumer is closed.
        """
        self._core.pause(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Return records of these partitions again.

        Args:
            partitions: Partitions that are assigned.

        Raises:
            ArgumentError: A partition is not assigned.
            ClosedError: The consumer is closed.
        """
        self._core.resume(partitions)

    async def poll(self, timeout: float | None = 1.0, *, max_records: int | None = None) -> Batch:
        """Wait for records, and return as soon as there is one.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.
            max_records: The most records to return; without it, `max.poll.records`.

        Returns:
            The records, as columns; an empty batch if there were none. During an outage it is empty, too.

        Raises:
            UnreachableError: No broker of the cluster was ever reached, and each address failed or timed out.
            AuthenticationError: A broker does not accept the client: the leader of a partition, if not all of them.
            AuthorizationError: The client may not read a topic, or not join the group.
            FencedError: Another member of the group has the same `group.instance.id`.
            OffsetOutOfRangeError: A position is not in the log, and `auto.offset.reset` is `none`; a
                `LogTruncatedError` if records were read there that are lost.
            NotFoundError: A topic does not exist.
            CorruptRecordError: Records do not decode. The records before them were returned first. The partition stays
                there until a seek to the error's `next_offset`; other partitions are read on. It is raised again when
                no other partition has records in time.
            ClosedError: The consumer is closed.
        """
        deadline = deadline_of(timeout)
        batch: Batch | None = await self._core.poll(timeout, max_records)
        while batch is None:
            await self._tell()
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            batch = await self._core.poll(left, max_records)
        return batch

    async def _tell(self, left: float | None = None) -> None:
        """Call the listener or the assignor that a rebalance waits for, for at most `left` seconds.

        If it raises, this raises that exception, and the rebalance continues.
        """
        call = self._core.take_question()
        if call is not None:
            limit = self._core.assignor_timeout()
            await answer_on_loop(*call, limit if left is None else min(limit, left))
            return
        taken = self._core.take_rebalance()
        if taken is None:
            return
        listener, partitions = taken
        before = LISTENER.get()
        self._telling = object()
        LISTENER.set(self._telling)
        try:
            result = listener(partitions)
            if inspect.isawaitable(result):
                limit = self._core.listener_timeout()
                await asyncio.wait_for(self._listen(result), limit if left is None else min(limit, left))
        finally:
            LISTENER.set(before)
            self._telling = None
            self._core.told_rebalance()

    # Not for threads.
    async def _listen(self, listener: Awaitable[object]) -> None:
        """Await a listener.

        What it started and does not wait for may close the consumer from then on.
        """
        try:
            await listener
        finally:
            self._telling = None

    # Not for threads.
    def _is_telling(self) -> bool:
        """Whether a listener calls, or a task that it started and that it may wait for."""
        return self._telling is not None and self._telling is LISTENER.get()

    async def batches(self) -> AsyncIterator[Batch]:
        """Iterate over batches without end; none of them is empty.

        It waits while there are no records. Other tasks have their turn every few milliseconds.

        Yields:
            Batches of at least one record and at most `max.poll.records`.

        Raises:
            KafkaError: As `poll` raises it; the next loop continues.
        """
        pace = Pace()
        while True:
            batch = await self.poll(None)
            if len(batch):
                yield batch
            await pace.turn()

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over records without end.

        Other tasks have their turn every few milliseconds.
        """
        core, pace = self._core, Pace()
        while True:
            run = core.run(pace.run())
            for record in run:
                yield record
            await pace.turn(full=run.is_full())
            if not run.is_full() and await core.poll_to_iterate(None):
                await self._tell()

    async def position(self, partition: Partition, timeout: float | None = None) -> int:
        """Find the offset of the next record.

        Args:
            partition: A partition that is assigned.
            timeout: Seconds to wait at most, for the whole call, if it needs a broker. 0 does not wait; None
                waits `default.api.timeout.ms`.

        Returns:
            The offset of the record that polls and loops return next.

        Raises:
            ArgumentError: The partition is not assigned.
            ClosedError: The consumer is closed.
            KafkaError: No broker responded in time.
        """
        offset: int = await self._core.position(partition, timeout)
        return offset

    async def beginning_offsets(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Find the first offset that each partition still holds.

        Args:
            partitions: `TopicPartition`s or `(topic, partition)` pairs; they need not be assigned.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The offset of the first record, by partition.

        Raises:
            ClosedError: The consumer is closed.
            KafkaError: A partition does not exist, or no broker responded in time.
        """
        offsets: dict[TopicPartition, int] = await self._core.beginning_offsets(partitions, timeout)
        return offsets

    async def end_offsets(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Find the offset after the last record of each partition.

        With `isolation.level=read_committed` it is the last stable offset, before which no transaction is open.

        Args:
            partitions: `TopicPartition`s or `(topic, partition)` pairs; they need not be assigned.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The offset that the next record will have, by partition.

        Raises:
            ClosedError: The consumer is closed.
            KafkaError: A partition does not exist, or no broker responded in time.
        """
        offsets: dict[TopicPartition, int] = await self._core.end_offsets(partitions, timeout)
        return offsets

    async def offsets_for_times(
        self,
        timestamps: Mapping[TopicPartition, int | datetime] | Mapping[tuple[str, int], int | datetime],
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record of each partition at or after a time.

        Args:
            timestamps: Milliseconds since 1970 UTC, or datetimes with a time zone, by partition.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Offset and timestamp by partition; None if the partition has no record at or after the time. Brokers
            before 0.10.1 know only the times of the log's files (ListOffsets 0): the offset is then the first of a
            file, at or before the record, and the timestamp is -1.

        Raises:
            ArgumentError: A time is negative, or a datetime without a time zone.
            ClosedError: The consumer is closed.
            KafkaError: A partition does not exist, or no broker responded in time.
        """
        found: dict[TopicPartition, OffsetAndTimestamp | None]
        found = await self._core.offsets_for_times(timestamps, timeout)
        return found

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """List the numbers of a topic's partitions.

        Args:
            topic: The topic's name.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The numbers, from 0, in order.

        Raises:
            ClosedError: The consumer is closed.
            KafkaError: The topic does not exist, or no broker responded in time.
        """
        partitions: list[int] = await self._core.partitions_for(topic, timeout)
        return partitions

    async def lag(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Count the offsets between the position and the end of each assigned partition.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The number of offsets that are still to be read, by partition.

        Raises:
            ClosedError: The consumer is closed.
            KafkaError: A position or an end could not be found in time.
        """
        lag: dict[TopicPartition, int] = await self._core.lag(timeout)
        return lag

    def metrics(self) -> Metrics:
        """Return the client's current metrics, under the same names as in the Java client of Kafka.

        Rates, averages and maxima are about the last `metrics.num.samples` samples of `metrics.sample.window.ms` each;
        totals count from the beginning. docs/reference/metrics.md lists all metrics.

        Returns:
            Values by `MetricName`.

        Raises:
            ClosedError: The client is closed.
        """
        return self._core.metrics()

    async def client_instance_id(self, timeout: float | None = None) -> uuid.UUID:
        """Request the id under which this client pushes its metrics to brokers (KIP-714).

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The id that a broker gave this client, the same for as long as the client exists.

        Raises:
            UnsupportedError: The brokers do not collect client metrics, or `enable.metrics.push` is false.
            ClosedError: The client is closed.
            KafkaError: No broker responded in time.
        """
        found: uuid.UUID = await self._core.client_instance_id(timeout)
        return found

    async def close(self, timeout: float | None = None) -> None:
        """Leave the group, if there is one, after a last commit with `enable.auto.commit`, and disconnect.

        The last commit covers all records that polls and loops have returned. An `async with` block whose body raises
        commits less: no record of the last poll, and in a loop not the record that the body was working on. A consumer
        that is never closed commits nothing at its end.

        Listeners are called, as by a poll, but have no longer than is left of the call's time; what they raise is
        raised when the consumer is closed. A static member (`group.instance.id`) does not leave: it keeps its
        partitions if it is back within `session.timeout.ms`. Closing twice does no harm.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits 5.

        Raises:
            KafkaTimeoutError: Not all tasks ended in time. The consumer is closed anyway.
            ArgumentError: A rebalance listener calls this. The consumer is not closed.
        """
        await self._close(timeout, "returned")

    async def _close(self, timeout: float | None, commit: Literal["returned", "earlier", "nothing"]) -> None:
        """Close after a last commit of all records that were returned, or of what earlier polls returned, or none."""
        # Not for threads.
        if ended(self._core):
            return
        if self._is_telling():
            raise in_listener("close")
        deadline = after(CLOSE_TIMEOUT if timeout is None else timeout)
        try:
            async with disconnecting(self._core, deadline):
                with contextlib.suppress(ClosedError):
                    await self._leave(partial(self._core.leave, commit=commit), deadline)
        finally:
            # For threads: `_reporting.finish(self._core, left(deadline))`
            await self._reports.finish(left(deadline))

    async def _leave(self, leave: Callable[[float], Operation], deadline: float) -> None:
        """Leave the group by repeating `leave`.

        All listeners are called, even if they raise.
        """
        failure: BaseException | None = None
        while await leave(left(deadline)):
            try:
                # For threads: `self._tell()`
                await self._tell(left(deadline))
            except Exception as error:  # noqa: BLE001 raised below
                failure = failure or error
        if failure is not None:
            raise failure

    async def __aenter__(self) -> Self:
        self._core.check()
        # Not for threads.
        self._reports.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        commit: Literal["returned", "earlier"] = "returned" if exc is None else "earlier"
        with noting(failure(exc), NOT_CLOSED):
            await self._close(exit_timeout(self._core, exc), commit)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Consumer holds connections and cannot be pickled: send its options, "
            "and make the consumer where it is used"
        )

    if not TYPE_CHECKING:  # A type checker would take every name for one that is there.

        def __getattr__(self, name: str) -> Any:
            raise missing("aio.Consumer", name)
