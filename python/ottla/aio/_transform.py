"""Consume, transform, produce: for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import Any, Self

from ottla._closing import NOT_ABORTED, NOT_CLOSED, deadline_of, exit_timeout, noting
from ottla._hints import ArrowArray, ArrowStream, ConfigValue, Servers
from ottla._ottla import Batch
from ottla._transforming import (
    CLOSE_TIMEOUT,
    SLICE,
    FunctionError,
    NewRecord,
    Progress,
    Settings,
    cause,
    checked,
    is_table,
)
from ottla._types import SubscriptionPattern, TopicPartition
from ottla.aio._consumer import Consumer
from ottla.aio._producer import Producer
from ottla.errors import FatalError, FencedError, KafkaError, UnknownOutcomeError

Given = Iterable[NewRecord] | ArrowArray | ArrowStream | None
# For threads: `Outgoing = Given`
Outgoing = Given | Awaitable[Given] | AsyncIterable[NewRecord]


class Transform:
    """Reads records of a group, and writes what a function makes of them, each record once. `transform` makes it."""

    __slots__ = ("_function", "_settings", "_stopped")

    def __init__(self, function: Callable[[Batch], Outgoing], settings: Settings) -> None:
        self._function = function
        self._settings = settings
        # No lock: a signal handler may interrupt the holder of the lock, and wait for it on the
        # same thread.
        self._stopped = False

    @property
    def transactional_id(self) -> str:
        """The `transactional.id` of its producer."""
        return self._settings.transactional_id

    async def run(self) -> None:
        """Work in this task until `stop`, or until an error that a retry cannot fix.

        It joins the group, and leaves it at its end, however it ends. After `stop` the open transaction is committed;
        if anything is raised, such as `CancelledError`, it is aborted.

        Raises:
            FencedError: Another producer took over the `transactional_id` that was given, or its transaction was open
                for longer than `transaction.timeout.ms`; or another member has the same `group.instance.id`.
            AuthorizationError: The client may not read or write a topic, not join the group, or not have transactions.
            TransactionAbortableError: A record was refused, such as one that is too large; or no transaction was
                committed for `retry_for` seconds.
            KafkaError: Any other error of polls and transactions. Nothing is lost: the next `run` continues from the
                last commit.
            Exception: What the function raised.
        """
        try:
            async with _Run(self) as running:
                await running.work()
        except FunctionError as failed:
            error = failed.error
        else:
            return
        raise error

    def stop(self) -> None:
        """Make `run` commit what is done and return.

        Threads and signal handlers may call it, also before `run`.

        While no broker responds, each step times out after 5 s: the last commit, its abort, and the close of each
        client. A commit that is in progress may take `max.block.ms` of the producer first.
        """
        self._stopped = True


def transform(
    bootstrap_servers: Servers,
    function: Callable[[Batch], Outgoing],
    *,
    topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
    group_id: str,
    to: str | None = None,
    transactional_id: str | None = None,
    max_records: int | None = None,
    commit_interval: float = 0.1,
    retry_for: float = 300.0,
    config: Mapping[str, ConfigValue] | None = None,
    consumer: Mapping[str, ConfigValue] | None = None,
    producer: Mapping[str, ConfigValue] | None = None,
) -> Transform:
    """Prepare to read topics as a member of a group, and to write what a function makes of them, exactly once.

    The records that the function returns and the offsets of its input are committed in one transaction.
    Before partitions go to another member, the transaction is committed; if that fails, it is aborted and its records
    are read again. A member that the group has replaced can commit nothing (KIP-447), which needs brokers since 2.5.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        function: Is called with each batch, in order, in the task of `run`; it may be async. It returns or yields
            `NewRecord`s; or returns a table, as `Producer.send_arrow` takes it; or None. It may be given a record again
            whose transaction was aborted. What it raises ends `run`.
        topics: What to read: a topic, several, or a pattern, as `Consumer.subscribe` takes them.
        group_id: The group.
        to: The topic to write to. Without it, each record or row names its own.
        transactional_id: The `transactional.id` of the producer, which no other running producer has. With the same id
            after a crash, the new run aborts at once the transaction that the old run left open, and fences the old run
            if it still works. None generates an id.
        max_records: The most records to read in a transaction.
        commit_interval: Seconds after which a transaction is committed.
        retry_for: Seconds for which transactions may fail, one after the other, before `run` raises.
        config: Properties of both clients by Kafka's names, such as `{"security.protocol": "SSL"}`.
        consumer: Properties of the consumer alone, such as `{"auto.offset.reset": "earliest"}`.
        producer: Properties of the producer alone. `transaction.timeout.ms` is 10,000 without it: readers of committed
            records wait this long for a transaction that a killed member left open. A call of the function should take
            less.

    Returns:
        The transform: `run` starts it, and `stop` ends it.

    Raises:
        ArgumentError: A number is out of range.
        ConfigError: A property is given that the transform sets itself.

    Example:
        ```python
        async def enrich(batch):
            for record in batch:
                yield ottla.NewRecord(await look_up(record.value), key=record.key)


        enrichment = aio.transform(
            "localhost:9092", enrich, topics="flights", group_id="enrichers", to="flights-enriched"
        )
        await enrichment.run()
        ```
    """
    settings = Settings.of(
        bootstrap_servers,
        topics=topics,
        group_id=group_id,
        to=to,
        transactional_id=transactional_id,
        max_records=max_records,
        commit_interval=commit_interval,
        retry_for=retry_for,
        config=config,
        consumer=consumer,
        producer=producer,
    )
    return Transform(function, settings)


class _Run:
    """The clients of one `run`, and the transaction that is open."""

    def __init__(self, transform: Transform) -> None:
        self._transform = transform
        self._function, self._settings = transform._function, transform._settings  # noqa: SLF001 what it runs
        self._progress = Progress(self._settings)
        self._consumer = Consumer(config=self._settings.consumer)
        self._producer: Producer | None = None
        self._is_open = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        limit = CLOSE_TIMEOUT
        try:
            if error is not None:
                with noting(cause(error), NOT_ABORTED):
                    interrupt = exit_timeout(self._consumer._core, error)  # noqa: SLF001 its setting
                    limit = limit if interrupt is None else interrupt
                    refusal = await self._abort(error, limit)
                    if refusal is not None:
                        raise refusal
        finally:
            try:
                await self._close_consumer(error, limit)
            finally:
                await self._close_producer(limit)

    async def work(self) -> None:
        self._consumer.subscribe(
            self._settings.topics, on_assign=self._progress.forget, on_revoke=self._revoked, on_lost=self._lost
        )
        while not self._is_stopped():
            try:
                await self._turn()
            except KafkaError as error:
                await self._rest(await self._recover(error))
        try:
            await self._commit(CLOSE_TIMEOUT)
        except KafkaError as error:
            # Nothing is lost: the next owner of the partitions does this work again.
            await self._recover(error, CLOSE_TIMEOUT)

    def _is_stopped(self) -> bool:
        return self._transform._stopped  # noqa: SLF001 what it runs

    async def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        # Any thread may call `stop`, without a loop to set an event of.
        while not self._is_stopped() and (left := end - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, SLICE))

    async def _turn(self) -> None:
        progress = self._progress
        if self._producer is None and self._settings.is_named:
            # An earlier producer of this name may have left a transaction open, which blocks
            # readers of committed records. It ends only now.
            await self._open()
        if progress.is_behind:
            await self._go_back()
        batch = await self._consumer.poll(progress.wait(), max_records=progress.space())
        if len(batch):
            progress.read(batch)
            if progress.is_behind:
                return  # a listener aborted the transaction in between: these records are read again, too
            await self._write(batch)
        else:
            progress.read_nothing()
        if progress.is_due():
            await self._commit()

    async def _write(self, batch: Batch) -> None:
        to = self._settings.to
        outgoing = await self._call(batch)
        producer = await self._open()
        if outgoing is None:
            return
        if is_table(outgoing):
            await producer.send_arrow(to, outgoing)
            return
        async with contextlib.aclosing(self._each(outgoing)) as each:
            async for given in each:
                record, topic = checked(given, to)
                await producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=record.headers,
                )

    async def _call(self, batch: Batch) -> Any:
        try:
            # For threads: `return self._function(batch)`
            return await given if inspect.isawaitable(given := self._function(batch)) else given
        except Exception as error:
            raise FunctionError(error) from error

    async def _each(self, outgoing: Any) -> AsyncGenerator[NewRecord]:
        """A generator runs while it is read, so that the function may raise here, too."""
        try:
            # For threads: `yield from outgoing`
            if hasattr(outgoing, "__aiter__"):
                async with contextlib.AsyncExitStack() as stack:
                    if hasattr(outgoing, "aclose"):
                        # Else it would end at some later time, next to the next call for the same
                        # records.
                        await stack.enter_async_context(contextlib.aclosing(outgoing))
                    async for given in outgoing:
                        yield given
            else:
                for given in outgoing:
                    yield given
        except Exception as error:
            raise FunctionError(error) from error

    async def _open(self) -> Producer:
        """Open a transaction, if none is."""
        if self._producer is None:
            self._producer = Producer(config=self._settings.producer)
        if not self._is_open:
            await self._producer.begin_transaction()
            self._is_open = True
        return self._producer

    async def _commit(self, timeout: float | None = None) -> None:
        """Commit what was read and written, if there is anything, and none of it has failed."""
        progress = self._progress
        member = self._consumer.group_metadata()
        if progress.is_behind or not progress.next or member is None:
            return
        deadline = deadline_of(timeout)
        producer = await self._open()
        offsets = self._consumer._core.with_epochs(progress.next)  # noqa: SLF001 batches lack the epochs
        await producer.send_offsets(offsets, member, timeout)
        await producer.commit_transaction(None if deadline is None else max(deadline - time.monotonic(), 0))
        self._is_open = False
        progress.committed()

    async def _recover(self, error: KafkaError, timeout: float | None = None) -> float:
        """Abort the open transaction after a failure; return the seconds to wait.

        Raise what no retry can fix.
        """
        pause = self._progress.failed(error)
        refusal = await self._abort(error, timeout)
        # A partition leader that rejects a producer may have stale state; the coordinator decides.
        return self._progress.failed(refusal) if isinstance(refusal, FencedError) else pause

    async def _abort(self, error: BaseException | None, timeout: float | None = None) -> KafkaError | None:
        """End the open transaction.

        A producer that cannot do so is closed; its successor ends the transaction.

        Returns:
            Why it cannot.
        """
        producer = self._producer
        if producer is None:
            return None
        is_gone = isinstance(error, (FatalError, FencedError))
        refusal: KafkaError | None = None
        if self._is_open and not is_gone:
            try:
                if not isinstance(error, UnknownOutcomeError):
                    await producer.abort_transaction(timeout)
            except KafkaError as failed:
                is_gone, refusal = True, failed
        self._is_open = False
        if is_gone:
            self._producer = None
            with contextlib.suppress(KafkaError):
                await producer.close(0)
        return refusal

    async def _go_back(self) -> None:
        """Set positions to what the group has committed, when that is settled."""
        progress = self._progress
        partitions = [partition for partition in self._consumer.assignment() if partition in progress.first]
        if partitions:
            # Another transaction begins only when the outcome of the last one is known.
            producer = await self._open()
            await producer.abort_transaction()
            self._is_open = False
            for partition, offset in progress.starts(await self._consumer.committed(partitions)):
                self._consumer.seek(partition, offset)
        progress.restarted()

    # --- the rebalance listeners that polls call

    async def _revoked(self, partitions: list[TopicPartition]) -> None:
        # The group waits for this at most as long as for a poll.
        limit = self._consumer._core.listener_timeout() / 4  # noqa: SLF001 the limit of listeners
        try:
            await self._commit(limit)
        except KafkaError as error:
            await self._recover(error, limit)
        self._progress.forget(partitions)

    async def _lost(self, partitions: list[TopicPartition]) -> None:
        self._progress.is_behind = True
        await self._abort(None, self._consumer._core.listener_timeout() / 4)  # noqa: SLF001 the limit of listeners
        self._progress.forget(partitions)

    # --- the end

    async def _close_consumer(self, error: BaseException | None, timeout: float) -> None:
        # Records that were read and not committed are dropped: listeners that the close calls must
        # not commit them.
        self._progress.restarted()
        with noting(cause(error), NOT_CLOSED):
            await self._consumer.close(timeout)

    async def _close_producer(self, timeout: float) -> None:
        # It holds no record of a transaction that counts.
        if self._producer is not None:
            with contextlib.suppress(KafkaError):
                await self._producer.close(timeout)
