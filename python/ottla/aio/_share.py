"""The share consumer for asyncio."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from ottla import _ottla
from ottla._acknowledgement import Acknowledgement
from ottla._app_metrics import AppMetrics
from ottla._closing import CLOSE_TIMEOUT, NOT_CLOSED, exit_timeout, failure, left, noting
from ottla._habits import missing
from ottla._hints import AcknowledgeKind, ConfigValue, Rows, Servers, keywords
from ottla._later import uuid
from ottla._metrics import Metrics, check_callback
from ottla._numbers import after
from ottla._ottla import Batch, Record
from ottla._types import TopicPartition
from ottla.aio._closing import disconnecting, ended
from ottla.aio._pace import Pace

# For threads: `from ottla import _reporting`
from ottla.aio._reporting import Reports
from ottla.aio._sasl import with_loop
from ottla.errors import ClosedError, KafkaError


class ShareConsumer(AppMetrics):
    """Reads records in a share group (KIP-932), for asyncio. Tasks may share it, with explicit acknowledgement.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topics: A topic, or several, to subscribe to.
        config: Properties by Kafka's names, such as `{"share.acknowledgement.mode": "explicit"}`.
        on_metrics: A function, or an async one, that is called with `metrics()` every `metrics.interval.ms`, and once
            more by `close`. It runs on the loop, from the moment at which the client is made or entered there.
        **properties: The same properties as keywords, such as `group_id="workers"`. `ottla config share-consumer` lists
            them all; `group_id` is required.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    The members of a share group share records one by one, as workers share a queue: there may be more members than
    partitions, and a record goes to another member if the one that has it does not acknowledge it in time, dies, or
    releases it. Order is not kept, and a record may be delivered more than once: `delivery_count` of a batch or a
    record counts the deliveries. Where a new group begins, how long the lock on a record lasts, how often it is
    delivered at most and whether records of open transactions are hidden is configured for the group:
    `share.auto.offset.reset`, `share.record.lock.duration.ms`, `share.delivery.count.limit` and
    `share.isolation.level`. It needs brokers of Kafka 4.1 or newer.

    With `share.acknowledgement.mode=implicit`, the next poll or commit accepts what was returned before. With
    `explicit`, call `acknowledge` for every record of a poll; until then the next poll raises an error.
    Acknowledgements are sent with the next poll or commit.

    Polls of several tasks wait for each other. With implicit acknowledgement, the poll or commit of one task also
    accepts the records that others still work on, and a crash then loses those: let each task have a consumer of its
    own, or acknowledge explicitly. An explicit poll is refused until the records of all tasks are acknowledged.

    Nothing connects before the first call that needs a broker. Close it, or use it in an `async with` statement, which
    closes it: records that are not acknowledged are then free for other members at once.

    Example:
        ```python
        async with aio.ShareConsumer("localhost:9092", topics=["jobs"], group_id="workers") as consumer:
            async for batch in consumer.batches():
                for record in batch:
                    print(record.value, record.delivery_count)
        ```
    """

    __slots__ = ("__weakref__", "_callback", "_core", "_reports")

    def __init__(
        self,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        on_metrics: Callable[[Metrics], object] | None = None,
        **properties: Unpack[keywords.ShareConsumerProperties],
    ) -> None:
        check_callback(on_metrics)
        self._core = _ottla.ShareConsumerCore(
            bootstrap_servers, topics=topics, config=with_loop(config), **with_loop(properties)
        )
        # Not for threads.
        self._core.poll_briefly()
        self._callback: Callable[[list[Acknowledgement]], object] | None = None
        # For threads: `self._reports = _reporting.start(self._core, on_metrics)`
        self._reports = Reports(self._core, on_metrics)

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Join the group, and read records of these topics and no others.

        The join begins at once.

        Args:
            topics: A topic, or several.

        Raises:
            ArgumentError: There is no topic.
            ClosedError: The consumer is closed.
        """
        self._core.subscribe(topics)

    def subscription(self) -> list[str]:
        """List the topics that are subscribed to.

        Returns:
            The names of the topics, sorted.

        Raises:
            ClosedError: The consumer is closed.
        """
        return self._core.subscription()

    def assignment(self) -> list[TopicPartition]:
        """List the partitions that this member takes records of at the moment; others may do so too.

        Returns:
            The partitions, sorted by topic and number.

        Raises:
            ClosedError: The consumer is closed.
        """
        return self._core.assignment()

    def lock_timeout(self) -> float | None:
        """Return for how long brokers lock records for this member.

        Returns:
            Seconds; None before the first records came.

        Raises:
            ClosedError: The consumer is closed.
        """
        return self._core.lock_timeout()

    async def unsubscribe(self, timeout: float | None = None) -> None:
        """Leave the group.

        It sends pending acknowledgements; all other records are free for other members.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            ClosedError: The consumer is closed.
        """
        await self._core.unsubscribe(timeout)
        await self._report()

    async def poll(self, timeout: float | None = 1.0, *, max_records: int | None = None) -> Batch:
        """Wait for records, and return as soon as there is one.

        It sends pending acknowledgements; with implicit acknowledgement, it accepts the records of the last poll.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.
            max_records: The most records to return; without it, `max.poll.records`.

        Returns:
            The records, as columns; an empty batch if there were none. During an outage it is empty, too.

        Raises:
            ArgumentError: Nothing is subscribed to; or, with explicit acknowledgement, some record of the last poll is
                not acknowledged.
            UnreachableError: No broker of the cluster was ever reached, and each address failed or timed out.
            AuthenticationError: A broker does not accept the client.
            AuthorizationError: The client may not read a topic, or not join the group.
            NotFoundError: A topic does not exist.
            UnsupportedError: The brokers have no share groups, or do not support the settings; or a header's key is not
                UTF-8, and its record was released.
            CorruptRecordError: Records were damaged; they were rejected, and the next poll continues after them.
            TooLargeError: Records were not decompressed, because of `decompress.max.bytes` or a lack of memory; their
                whole batch was released. It is raised again for each delivery, up to `share.delivery.count.limit`.
            ClosedError: The consumer is closed.
        """
        # An exception of the callback must not replace records: call it while the poll has none.
        await self._report()
        batch: Batch = await self._core.poll(timeout, max_records)
        if not len(batch):
            await self._report()
        return batch

    async def batches(self) -> AsyncIterator[Batch]:
        """Iterate over batches without end; none of them is empty.

        It waits while there are no records. Other tasks have their turn every few milliseconds.

        Yields:
            Batches of at least one record and at most `max.poll.records`.

        Raises:
            KafkaError: As `poll` raises it; the next loop continues.
        """
        # Not for threads.
        pace = Pace()
        while True:
            batch = await self.poll(None)
            if len(batch):
                yield batch
            # Not for threads.
            await pace.turn()

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over records without end.

        Leaving the loop loses nothing: the next loop continues there.

        Other tasks have their turn every few milliseconds.
        """
        core = self._core
        # Not for threads.
        pace = Pace()
        while True:
            # For threads: `while (record := core.next_record()) is not None: yield record`
            for _ in range(pace.run()):
                record = core.next_record()
                if record is None:
                    break
                yield record
            else:
                await pace.turn(full=True)
                continue
            # Not for threads.
            await pace.turn()
            await self._report()
            await core.poll_to_iterate()

    def acknowledge(self, records: Batch | Record, kind: AcknowledgeKind = "accept", rows: Rows | None = None) -> None:
        """Acknowledge records, with `share.acknowledgement.mode=explicit`.

        It does not wait.

        The next poll or commit sends the acknowledgements; until then they can be changed. "renew" restarts the lock of
        the records (KIP-1222), which can be acknowledged later.

        Args:
            records: A batch that a poll returned, or a part of it, or one record.
            kind: "accept" for records that were processed, "release" to have them delivered again, "reject" for records
                that cannot be processed, "renew" for those that take longer.
            rows: Which records of the batch: a mask, such as a boolean array of numpy or Arrow, or indices. None takes
                all.

        Raises:
            ArgumentError: Acknowledgement is implicit, the records came from another consumer, or their final
                acknowledgement was sent before. The records before such a record are acknowledged.
            UnsupportedError: The broker cannot renew locks, which Kafka supports since 4.2.
            ClosedError: The consumer is closed.
        """
        self._core.acknowledge(records, kind, rows)

    async def commit(
        self, *, wait: bool = True, timeout: float | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Send pending acknowledgements; with implicit acknowledgement, accept what polls and loops have returned.

        Args:
            wait: Whether to wait for the responses. If not, failures are logged, and the result is empty.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            By partition with acknowledgements, None, or the first error: acknowledgements of some of its records
            failed, or their outcome is unknown (`UnknownOutcomeError`). These records may be delivered again.

        Raises:
            ClosedError: The consumer is closed.
        """
        if not wait:
            self._core.commit_later()
            return {}
        await self._report()
        found: dict[TopicPartition, KafkaError | None] = await self._core.commit(timeout)
        await self._report()
        return found

    def set_acknowledgement_callback(self, callback: Callable[[list[Acknowledgement]], object] | None) -> None:
        """Set a function that is called with the results of acknowledgements, whether or not a commit waited for them.

        Args:
            callback: A function, or an async one, which is awaited. `poll`, `commit`, `unsubscribe`, `close` and loops
                call it, on the loop. None ends it.

        A poll calls it before it requests records, and a loop before it continues; `commit` calls it before it sends
        anything and when it has its result; `unsubscribe` and `close` at their end. If the callback raises, they raise
        its exception. No record is lost: a poll or a commit that the exception stops at its begin has accepted and sent
        nothing, and can be called again. At the end of a commit the exception replaces the result, which the callback
        was given.

        Raises:
            ClosedError: The consumer is closed.
        """
        self._core.keep_outcomes(callback is not None)
        self._callback = callback

    async def _report(self) -> None:
        """Call the callback, if there are results to report."""
        if self._callback is not None:
            outcomes = self._core.take_outcomes()
            # For threads: `if outcomes: self._callback(outcomes)`
            if outcomes and inspect.isawaitable(result := self._callback(outcomes)):
                await result

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
        """Leave the group as `unsubscribe` does, and disconnect.

        Closing twice does no harm.

        With implicit acknowledgement too, records that no later poll or commit accepted are delivered again.
        So the records that a block was working on when its body raised are delivered again.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits 5.

        Raises:
            KafkaTimeoutError: Not all tasks ended in time. The consumer is closed anyway.
        """
        # Not for threads.
        if ended(self._core):
            return
        deadline = after(CLOSE_TIMEOUT if timeout is None else timeout)
        try:
            async with disconnecting(self._core, deadline):
                with contextlib.suppress(ClosedError):
                    await self._core.unsubscribe(left(deadline))
        finally:
            # For threads: `_reporting.finish(self._core, left(deadline))`
            await self._reports.finish(left(deadline))
            await self._report()

    async def __aenter__(self) -> Self:
        self._core.check()
        # Not for threads.
        self._reports.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with noting(failure(exc), NOT_CLOSED):
            await self.close(exit_timeout(self._core, exc))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a ShareConsumer holds connections and cannot be pickled: send its options, "
            "and make the consumer where it is used"
        )

    if not TYPE_CHECKING:  # A type checker would take every name for one that is there.

        def __getattr__(self, name: str) -> Any:
            raise missing("aio.ShareConsumer", name)
