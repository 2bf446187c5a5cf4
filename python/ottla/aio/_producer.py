"""The producer for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Never, NoReturn, Self, Unpack

from ottla import _ottla
from ottla._app_metrics import AppMetrics
from ottla._closing import NOT_CLOSED, deadline_of, exit_timeout, failure, left_of, noting
from ottla._habits import mark
from ottla._hints import ArrowArray, ArrowStream, ConfigValue, Servers, keywords
from ottla._later import two_phase, uuid
from ottla._metrics import Metrics, check_callback
from ottla._ottla import AsyncDeliveries as Deliveries
from ottla._ottla import AsyncDelivery as Delivery
from ottla._ottla import Operation
from ottla._types import Data, GroupMetadata, Headers, Offsets
from ottla.aio._closing import disconnect, ended

# For threads: `from ottla import _reporting`
from ottla.aio._reporting import Reports

# For threads: `from ottla._callbacks import settling`
from ottla.aio._sasl import with_loop
from ottla.aio._transaction import Transaction


class Producer(AppMetrics):
    """Sends records, for asyncio. It belongs to no loop: several threads, with a loop each, may share it.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        config: Properties by Kafka's names, such as `{"linger.ms": 5}`.
        on_metrics: A function, or an async one, that is called with `metrics()` every `metrics.interval.ms`, and once
            more by `close`. It runs on the loop, from the moment at which the client is made or entered there.
        **properties: The same properties as keywords, such as `linger_ms=5`. `ottla config producer` lists them all.
            `partitioner` may also be a function, which is called as `f(topic, keys, partitions)` for the records of a
            call that name no partition: `keys` is a `Keys`, which numpy and Arrow take as an array, and `partitions`
            the number of partitions. It returns a partition for each key, as any array or list; None leaves a record
            to the default. It runs on the thread of the loop.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    Nothing connects before the first call that needs a broker. Close it, or use it in an `async with` statement, which
    closes it. If the body of that statement raises, its exception reaches the caller, and an error of the close is a
    note on it. After Ctrl-C, `sys.exit` or a cancelled task the close waits only `close.interrupt.timeout.ms`.

    Example:
        ```python
        async with aio.Producer("localhost:9092", compression_type="zstd") as producer:
            delivery = await producer.send("flights", b"N123", key=b"JFK")
            print((await delivery).offset)
        ```
    """

    __slots__ = ("__weakref__", "_core", "_reports")

    def __init__(
        self,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        config: Mapping[str, ConfigValue] | None = None,
        on_metrics: Callable[[Metrics], object] | None = None,
        **properties: Unpack[keywords.ProducerProperties],
    ) -> None:
        check_callback(on_metrics)
        self._core = _ottla.ProducerCore(bootstrap_servers, config=with_loop(config), **with_loop(properties))
        self._reports = Reports(self._core, on_metrics)

    async def send(
        self,
        topic: str,
        value: Data | None = None,
        *_positional: Never,
        key: Data | None = None,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        headers: Headers | None = None,
    ) -> Delivery:
        """Put a record into its batch, and return its delivery.

        It waits only while the buffer is full, or the topic or the partition is not known yet, up to `max.block.ms`.

        Args:
            topic: The topic's name.
            value: bytes, a bytes-like object, or a str, which is sent as UTF-8; None is a tombstone.
            key: As `value`. Records with the same key go to the same partition; unless `partitioner` is set, the one
                that Java's client chooses.
            partition: The partition's number; without it, the key or the partitioner chooses.
            timestamp: Milliseconds since 1970 UTC, or a datetime with a time zone; without it, the current time.
            headers: Pairs of a str and a value, or a dict of them.

        Returns:
            The record's delivery, a handle to its outcome: await it to learn where the record was written. The
            `TimeoutError` of `asyncio.wait_for` names no cause; `flush(timeout)` raises one that does.

        Raises:
            TypeError: A value is of another type.
            ArgumentError: The topic's name is empty or longer than 249 characters, or the timestamp is negative or a
                datetime without a time zone.
            TooLargeError: The record is larger than `max.request.size`.
            ClosedError: The producer is closed.
            KafkaError: The buffer stayed full or the topic unknown until the time was up; the cause names the reason.
        """
        if _positional:
            raise TypeError(
                "send takes only the topic and the value by position; name the others: send(topic, value, key=..., "
                "partition=...)"
            )
        sent: Delivery | Operation = self._core.send(topic, value, key, partition, timestamp, headers)
        while isinstance(sent, _ottla.Operation):
            sent = await sent
        return sent

    async def send_many(
        self,
        topic: str,
        values: Iterable[Data | None] | ArrowArray | ArrowStream,
        *,
        keys: Iterable[Data | None] | ArrowArray | ArrowStream | Data | None = None,
        partitions: Iterable[int | None] | int | None = None,
        timestamps: Iterable[int | datetime | None] | int | datetime | None = None,
        headers: Iterable[Headers | None] | Headers | None = None,
    ) -> Deliveries:
        """Send many records in one call, which is far cheaper than one call of `send` per record.

        Args:
            topic: The topic's name.
            values: An iterable of what `send` takes as a value, or an Arrow column of binary or text values.
            keys: One key per value, each as in `send`, or an Arrow column of binary or text keys; or one for all.
            partitions: One partition number per value, where None lets the partitioner choose; or one for all.
            timestamps: One timestamp per value, each as in `send`; or one for all.
            headers: Headers per value, each as in `send`; or one dict or list of pairs for all.

        Returns:
            The deliveries of all records, in columns.

        Raises:
            TypeError: A value is of another type; nothing was sent.
            ArgumentError: A column is longer or shorter than the values, a timestamp is negative or a datetime without
                a time zone, the topic's name is empty or longer than 249 characters, or the partitioner gave no
                partitions; nothing was sent.
            ClosedError: The producer is closed.
            KafkaError: The buffer had no space for any of them in time.
        """
        return await self._ended(self._core.send_many(topic, values, keys, partitions, timestamps, headers))

    async def send_arrow(self, topic: str | None, data: ArrowArray | ArrowStream) -> Deliveries:
        """Send the rows of a table.

        Args:
            topic: The topic's name; None takes each row's topic from the column `topic`.
            data: Anything with `__arrow_c_stream__` or `__arrow_c_array__`: a table of pyarrow, polars, pandas or
                DuckDB, a `RecordBatchReader`, a `Batch`. Its columns are found by name:

                - `value`, which is needed, and `key`: binary or string in any of their forms, or a dictionary of
                  them. A null value is a tombstone.
                - `topic`: string in any of its forms, or a dictionary of it.
                - `partition`: an integer of any width; null lets the partitioner choose.
                - `timestamp`: a timestamp of any unit, or int64 in milliseconds; null is the current time.
                - `headers`: a list of structs of `key` and `value`, or a map.

                The columns `offset` and `timestampType` of a `Batch` are skipped, and so is a pandas index. A stream is
                read only as fast as the buffer has space.

        Returns:
            The deliveries of all rows, in columns.

        Raises:
            TypeError: The data is not Arrow data, or not a table.
            ArgumentError: A column is missing, has another type or a name that stands for nothing; nothing was sent.
                A topic's name is empty or longer than 249 characters, or the partitioner returned no partitions: a note
                counts the rows of the chunks before that were sent.
            ClosedError: The producer is closed.
            KafkaError: The buffer had no space for any of them in time.
        """
        return await self._ended(self._core.send_arrow(topic, data))

    @staticmethod
    async def _ended(operation: Operation) -> Deliveries:
        """What is known when the last of several operations ended."""
        ended: Deliveries | Operation = operation
        while isinstance(ended, _ottla.Operation):
            operation = ended
            ended = await operation
        return ended

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything without lingering, and wait until each record sent so far is delivered or has failed.

        The callbacks of these records run on the loop, and are not waited for.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits until
                `delivery.timeout.ms` has decided about each record.

        Raises:
            KafkaError: Some records are undecided when the time is up; the cause names what delays them. Or a record
                failed whose delivery was not looked at; other failures are reported by their deliveries.
        """
        # For threads: `with settling(timeout): self._core.flush(timeout).wait()`
        await self._core.flush(timeout)

    def transaction(self) -> Transaction:
        """Make a transaction, for an `async with` statement.

        It begins with the block, is committed at its end, and aborted if the block raises any exception. A
        commit that fails raises; the transaction is aborted then, unless it may have been committed. What was ended in
        the block stays so, and what was prepared in it stays prepared, for its owner to end.

        Returns:
            The transaction, whose `send_offsets` makes offsets part of it. Records are part of it that this producer
            sends meanwhile, from whichever thread or task.

        Example:
            ```python
            async with producer.transaction() as transaction:
                await producer.send("flights-enriched", value, key=key)
                await transaction.send_offsets({ottla.TopicPartition("flights", 0): 42}, "enrichers")
            ```
        """
        return Transaction(self, self._core)

    async def init_transactions(self, timeout: float | None = None, *, keep_prepared: bool = False) -> None:
        """Get the producer's identity, and end what an earlier producer of the same `transactional.id` left open.

        The earlier producer is fenced, if it still runs. `begin_transaction` calls this if needed.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `max.block.ms`.
            keep_prepared: Whether a transaction that the earlier producer prepared stays open, for this one to end
                (KIP-939). `complete_transaction` does it if needed.

        Raises:
            ConfigError: The producer has no `transactional.id`; or it is to keep what was prepared, without
                `transaction.two.phase.commit.enable`.
            ArgumentError: A transaction is open, or prepared.
            AuthorizationError: The principal may not have transactions of this id, or not in two phases.
            UnsupportedError: The brokers are older than 0.11; or they lack two-phase commits, or the second half of
                them, as Kafka 4.4 does.
            KafkaError: The coordinator did not respond in time, or returned an error; the call may be repeated.
        """
        await self._core.init_transactions(timeout, keep_prepared)

    async def begin_transaction(self, timeout: float | None = None) -> None:
        """Open a transaction: from here on records can be sent.

        It waits only if the producer has no identity yet, or if the outcome of its last transaction is unknown: it then
        finds that out first. What an earlier producer prepared is aborted, unless `complete_transaction` was called
        before.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `max.block.ms`.

        Raises:
            ConfigError: The producer has no `transactional.id`.
            ArgumentError: A transaction is open, or prepared.
            FencedError: Another producer with the same `transactional.id` took over.
            KafkaError: As for `init_transactions`.
        """
        await self._core.begin_transaction(timeout)

    async def send_offsets(self, offsets: Offsets, group: str | GroupMetadata, timeout: float | None = None) -> None:
        """Make offsets of a consumer group part of the transaction: they take effect when it is committed.

        Args:
            offsets: By partition, the offset of the next record to read, as an int or an `OffsetAndMetadata`.
            group: What `Consumer.group_metadata` returns of the consumer that has read up to these offsets: a member
                that the group has replaced can then commit nothing (KIP-447, brokers since 2.5). Or the group's name,
                for offsets that do not come from a member.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `max.block.ms`.

        Raises:
            ArgumentError: No transaction is open, an offset is negative, or the consumer is not in its group yet.
            TransactionAbortableError: The transaction can only be aborted.
            FencedError: Another producer with the same `transactional.id` took over.
        """
        await self._core.send_offsets(offsets, group, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver the records of the transaction, and commit it with its offsets: all of it takes effect, at once.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `max.block.ms`.

        Raises:
            ArgumentError: No transaction is open.
            TransactionAbortableError: A record or the offsets failed. Call `abort_transaction`, and do the work again.
            KafkaTimeoutError: Records are still undelivered. The transaction is open: call this again, or abort it.
            UnknownOutcomeError: The coordinator did not confirm the commit, and may have carried it out, also where a
                retry was refused. Call this again if the transaction was prepared. Otherwise the next
                `begin_transaction` finds out.
            FencedError: Another producer with the same `transactional.id` took over, or the transaction was open for
                longer than `transaction.timeout.ms`. Close this producer.
            FatalError: The producer can have no further transaction. Close it.
        """
        await self._core.commit_transaction(timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: nothing of it takes effect.

        Records that were not sent yet fail.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `max.block.ms`.

        Raises:
            ArgumentError: No transaction is open.
            UnknownOutcomeError: The transaction was prepared, and the coordinator did not confirm the abort. Call this
                again.
            KafkaTimeoutError: The coordinator did not confirm the abort. Call this again, or begin another transaction.
            AuthenticationError: The login was refused. Call this again, or begin another transaction, when it works.
            FencedError: Another producer with the same `transactional.id` took over, or the transaction was open for
                longer than `transaction.timeout.ms`. Close this producer.
            FatalError: The producer can have no further transaction. Close it.
        """
        await self._core.abort_transaction(timeout)

    async def prepare_transaction(self, timeout: float | None = None) -> two_phase.PreparedTransaction:
        """Deliver the records of the transaction, which from then on can only be ended: the first half of KIP-939.

        The transaction waits for `commit_transaction`, `abort_transaction` or `complete_transaction`, here or in a
        later process, for as long as that takes: no broker aborts it, nor does `close`. Readers of committed records
        wait too. Called again, it gives the same token again.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `max.block.ms`.

        Returns:
            The transaction's name. Write it down, with what else is to be committed, before you end the transaction.

        Raises:
            ConfigError: `transaction.two.phase.commit.enable` is false.
            UnsupportedError: The cluster has the first protocol of transactions only, whose epochs stay, so that all
                transactions of a producer would have one name: it needs `transaction.version` 2 (KIP-890).
            ArgumentError: No transaction is open.
            TransactionAbortableError: A record or the offsets failed. Call `abort_transaction`, and do the work again.
            KafkaTimeoutError: Records are still undelivered. The transaction is open: call this again, or abort it.
            FencedError: Another producer with the same `transactional.id` took over.

        Example:
            ```python
            prepared = producer.prepare_transaction()
            database.commit(flights, token=str(prepared))
            producer.complete_transaction(prepared)
            ```
        """
        prepared: two_phase.PreparedTransaction = await self._core.prepare_transaction(timeout)
        return prepared

    async def complete_transaction(
        self, prepared: two_phase.PreparedTransaction | str | None, *, commit: bool = True, timeout: float | None = None
    ) -> bool | None:
        """End the prepared transaction: commit it if it is `prepared`, else abort it (KIP-939).

        After a crash, call it on a new producer with the same `transactional.id`, and with the token that was last
        written down. A transaction of the old producer with another token was never decided, so it is aborted. To
        complete a transaction twice does no harm.

        Args:
            prepared: What `prepare_transaction` gave, or its text; None if nothing was written down, which aborts.
            commit: Whether to commit; False aborts what is prepared in any case.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `max.block.ms`.

        Returns:
            True if the transaction was committed, False if what was prepared was aborted, None if nothing was open:
            the transaction has ended before.

        Raises:
            ConfigError: `transaction.two.phase.commit.enable` is false, or there is no `transactional.id`.
            ArgumentError: An open transaction is not prepared, or the other outcome was requested before.
            ValueError: The text is not a token.
            UnknownOutcomeError: The coordinator did not confirm the end. Make the same call again, here or in another
                process.
            AuthorizationError: The principal may not have transactions of this id, or not in two phases.
            UnsupportedError: The brokers lack two-phase commits, or cannot hand a prepared transaction to another
                producer, as Kafka 4.4 cannot.
            FencedError: Another producer with the same `transactional.id` took over. Close this producer.
            FatalError: Another client has ended the transaction otherwise. Close this producer.
        """
        if prepared is None:
            prepared, commit = two_phase.PreparedTransaction(0, 0), False  # whichever it is, it is not to be committed
        token = two_phase.PreparedTransaction.parse(prepared) if isinstance(prepared, str) else prepared
        committed: bool | None
        committed = await self._core.complete_transaction(token.producer_id, token.epoch, commit, timeout)
        return committed

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
        """Flush, then disconnect.

        Records undelivered when the time is up fail. Closing twice does no harm.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `close.timeout.ms`.

        Raises:
            KafkaError: Some records were undecided in time, or as with `flush`. The producer is closed anyway.
        """
        # Not for threads.
        if ended(self._core):
            return
        deadline = deadline_of(timeout)
        try:
            # For threads: `with settling(timeout): disconnect(self._core, timeout)`
            await disconnect(self._core, timeout)
        finally:
            # For threads: `_reporting.finish(self._core, left_of(deadline))`
            await self._reports.finish(left_of(deadline))

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """List the numbers of a topic's partitions.

        Args:
            topic: The topic's name.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `max.block.ms`.

        Returns:
            The numbers, from 0, in order.

        Raises:
            ClosedError: The producer is closed.
            KafkaError: The topic does not exist, or no broker responded in time.
        """
        partitions: list[int] = await self._core.partitions_for(topic, timeout)
        return partitions

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
            "a Producer holds connections and cannot be pickled: send its options, "
            "and make the producer where it is used"
        )


mark(Producer, "aio.Producer")
