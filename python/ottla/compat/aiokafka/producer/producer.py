"""`AIOKafkaProducer` and its transactions."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from ottla import _ottla, aio
from ottla import errors as native
from ottla._types import OffsetAndMetadata as NativeOffset
from ottla.compat.aiokafka._connection import abandon, as_value_error, loop_of
from ottla.compat.aiokafka._offsets import checked_offsets
from ottla.compat.aiokafka._translation import translate, translated
from ottla.compat.aiokafka.abc import AbstractTokenProvider
from ottla.compat.aiokafka.client import AIOKafkaClient
from ottla.compat.aiokafka.errors import IllegalOperation, MessageSizeTooLargeError, ProducerClosed
from ottla.compat.aiokafka.partitioner import DefaultPartitioner
from ottla.compat.aiokafka.producer._sender import Sender
from ottla.compat.aiokafka.producer.message_accumulator import BatchBuilder, checked, size_of
from ottla.compat.aiokafka.producer.transaction_manager import TransactionManager, TransactionState
from ottla.compat.aiokafka.structs import RecordMetadata, TopicPartition

__all__ = ["AIOKafkaProducer", "TransactionContext"]
# FastStream takes it as the default of parameters.
_missing: Final = object()
_DEFAULT_PARTITIONER: Final = DefaultPartitioner()
_numbers = itertools.count(1)
# Turns of the loop before a transaction ends: the end of an empty one needs no broker.
_TURNS: Final = 3
Future = asyncio.Future[RecordMetadata | None]
Headers = Iterable[tuple[str, bytes | None]]


class AIOKafkaProducer:
    """Sends records.

    Args:
        loop: Deprecated.
        bootstrap_servers: `host[:port]` of one or more brokers, as text with commas or a list.
        client_id: The name of this client in brokers' logs.
        metadata_max_age_ms: Milliseconds until metadata are fetched again.
        request_timeout_ms: Milliseconds until a request fails; a record fails after twice that time.
        api_version: Deprecated, without effect.
        acks: 0, 1, or "all" and -1. 1 is the default, "all" with idempotence.
        key_serializer: Makes bytes of keys.
        value_serializer: Makes bytes of values.
        compression_type: "gzip", "snappy", "lz4", "zstd" or None.
        max_batch_size: Bytes of a batch.
        partitioner: Called as `f(key_bytes, all_partitions, available_partitions)` for records without a partition.
        max_request_size: The most bytes of a record.
        linger_ms: Milliseconds that a batch waits for more records.
        retry_backoff_ms: Milliseconds before a retry.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        ssl_context: The context for TLS; see `ottla.compat.aiokafka.helpers`.
        connections_max_idle_ms: Milliseconds until an idle connection is closed; None keeps it.
        enable_idempotence: Whether retries never write a record twice.
        transactional_id: The id for transactions.
        transaction_timeout_ms: Milliseconds until brokers abort an open transaction.
        sasl_mechanism: PLAIN, GSSAPI, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
        sasl_plain_password: The password for PLAIN and SCRAM.
        sasl_plain_username: The user.
        sasl_kerberos_service_name: The first part of the brokers' principal.
        sasl_kerberos_domain_name: The host in the brokers' principals; None takes that of each broker's address.
        sasl_oauth_token_provider: Provides tokens for OAUTHBEARER.

    Raises:
        ValueError: A parameter has a value that is not allowed.

    Attributes:
        client: Knows the cluster.
    """

    _closed: bool | None = None
    _source_traceback: traceback.StackSummary | None = None

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str] = "localhost",
        client_id: str | None = None,
        metadata_max_age_ms: int = 300000,
        request_timeout_ms: int = 40000,
        api_version: str | None = None,
        acks: Any = _missing,
        key_serializer: Callable[[Any], bytes] | None = None,
        value_serializer: Callable[[Any], bytes] | None = None,
        compression_type: str | None = None,
        max_batch_size: int = 16384,
        partitioner: Callable[[bytes | None, Sequence[int], Sequence[int]], int] = _DEFAULT_PARTITIONER,
        max_request_size: int = 1048576,
        linger_ms: int = 0,
        retry_backoff_ms: int = 100,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        connections_max_idle_ms: int | None = 540000,
        enable_idempotence: bool = False,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60000,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
    ) -> None:
        self._loop = loop_of(loop, api_version)
        if self._loop.get_debug():
            self._source_traceback = traceback.extract_stack(sys._getframe(1))
        if acks is not _missing and acks not in (0, 1, -1, "all"):
            raise ValueError(f"Invalid ACKS parameter: acks must be 0, 1, -1 or 'all', and is {acks!r}")
        if compression_type not in ("gzip", "snappy", "lz4", "zstd", None):
            raise ValueError(f"Invalid compression type! It is {compression_type!r}")
        is_idempotent = enable_idempotence or transactional_id is not None
        if is_idempotent and acks not in (_missing, -1, "all"):
            raise ValueError(f"acks={acks} not supported if enable_idempotence=True: leave acks out")
        self._acks = (-1 if is_idempotent else 1) if acks is _missing else -1 if acks == "all" else acks
        # Health checks of programs look at its task.
        self._sender = Sender(self._acks)
        self._txn_manager = TransactionManager(transactional_id, self._sender.fail) if is_idempotent else None
        self._key_serializer, self._value_serializer = key_serializer, value_serializer
        self._partitioner = partitioner
        self._is_default_partitioner = type(partitioner) is DefaultPartitioner
        self._max_batch_size, self._max_request_size = max_batch_size, max_request_size
        self.client = AIOKafkaClient(
            loop=self._loop,
            bootstrap_servers=bootstrap_servers,
            client_id=f"aiokafka-producer-{next(_numbers)}" if client_id is None else client_id,
            metadata_max_age_ms=metadata_max_age_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            ssl_context=ssl_context,
            security_protocol=security_protocol,
            connections_max_idle_ms=connections_max_idle_ms,
            sasl_mechanism=sasl_mechanism,
            sasl_plain_username=sasl_plain_username,
            sasl_plain_password=sasl_plain_password,
            sasl_kerberos_service_name=sasl_kerberos_service_name,
            sasl_kerberos_domain_name=sasl_kerberos_domain_name,
            sasl_oauth_token_provider=sasl_oauth_token_provider,
        )
        self._metadata = self.client.cluster
        properties = {
            **self.client._connection.properties,
            "acks": self._acks,
            "enable.idempotence": is_idempotent,
            "compression.type": compression_type or "none",
            "batch.size": max_batch_size,
            "max.request.size": max_request_size,
            "linger.ms": linger_ms,
            "max.block.ms": request_timeout_ms,
            "delivery.timeout.ms": 2 * request_timeout_ms + linger_ms,
        }
        if transactional_id is not None:
            properties |= {"transactional.id": transactional_id, "transaction.timeout.ms": transaction_timeout_ms}
        self._properties = properties
        self._producer: aio.Producer | None = None
        self._pending: set[Future] = set()
        # Numbers of partitions by topic, and when they are asked for again: for partitioners and for checks.
        self._known: dict[str, tuple[list[int], float]] = {}
        self._closed = False

    def __del__(self, _warnings: Any = warnings) -> None:
        if self._closed is False:
            if not self._loop.is_closed():
                self._sender.cancel()
            self.client._abandon()
            if self._producer is not None:
                abandon(self._producer)
            _warnings.warn(f"Unclosed AIOKafkaProducer {self!r}", ResourceWarning, source=self)
            context: dict[str, Any] = {"producer": self, "message": "Unclosed AIOKafkaProducer"}
            if self._source_traceback is not None:
                context["source_traceback"] = self._source_traceback
            self._loop.call_exception_handler(context)

    async def start(self) -> None:
        """Connect, and with a `transactional_id` end what an earlier producer of that id left open.

        Raises:
            KafkaConnectionError: No broker can be reached, or none accepts the client.
            KafkaError: The producer may not have transactions of this id.
        """
        await self.client.bootstrap()
        try:
            self._producer = aio.Producer(config=self._properties)
        except native.ConfigError as error:
            raise as_value_error(error) from error
        manager = self._txn_manager
        if manager is not None:
            if manager.transactional_id is not None:
                with translated():
                    await self._producer.init_transactions()
            manager.state = TransactionState.READY
        self._sender.start()

    def __open(self) -> aio.Producer:
        """The producer.

        Raises:
            ProducerClosed: It is stopped, or not started.
        """
        if self._closed or self._producer is None:
            raise ProducerClosed("the producer is stopped" if self._closed else "call start() first")
        return self._producer

    async def flush(self) -> None:
        """Wait until all records that were sent are delivered or have failed. Their futures have the results."""
        producer = self.__open()
        pending = list(self._pending)
        try:
            await producer.flush()
        except native.ClosedError:
            raise ProducerClosed("the producer is stopped") from None
        except native.KafkaError:
            pass  # the future of the record has it
        if pending:
            await asyncio.wait(pending)

    async def stop(self) -> None:
        """Deliver what was sent, and close the connections. Stopping twice does no harm."""
        if self._closed:
            return
        self._closed = True
        producer, pending = self._producer, list(self._pending)
        try:
            if producer is not None:
                await producer.close()
        except native.KafkaError:
            pass  # the futures of the records have it
        finally:
            await self._sender.close()
            await self.client.close()
        if pending:
            await asyncio.wait(pending)

    async def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions. The topic is created where brokers do that.

        Args:
            topic: The topic's name.

        Raises:
            UnknownTopicOrPartitionError: The topic does not exist.
        """
        self.__open()
        return await self.client._wait_on_metadata(topic)

    def _partition(
        self,
        topic: str,
        partition: int | None,
        _key: Any,
        _value: Any,
        serialized_key: bytes | None,
        _serialized_value: bytes | None,
    ) -> int:
        """The partition of a record, by the metadata that are known. Instrumentations call it."""
        if partition is not None:
            return partition
        numbers = sorted(self._metadata.partitions_for_topic(topic) or {0})
        available = sorted(self._metadata.available_partitions_for_topic(topic) or numbers)
        return self._partitioner(serialized_key, numbers, available)

    async def _chosen(self, topic: str, partition: int | None, key: Any) -> int | None:
        """The partition to send to; None where ottla chooses as the default partitioner does.

        Raises:
            AssertionError: There is no such partition.
        """
        if partition is None and self._is_default_partitioner and key is not None:
            return None
        numbers = await self._numbers(topic)
        if partition is None:
            return self._partitioner(key, numbers, numbers)
        if partition not in numbers:
            self._known.pop(topic, None)
            if partition not in await self._numbers(topic):
                raise AssertionError(f"Unrecognized partition: {topic} has no partition {partition}")
        return partition

    async def _numbers(self, topic: str) -> list[int]:
        known = self._known.get(topic)
        if known is None or time.monotonic() > known[1]:
            numbers = sorted(await self.client._wait_on_metadata(topic))
            known = self._known[topic] = numbers, time.monotonic() + self.client._connection.metadata_max_age
        return known[0]

    def __check_transaction(self) -> None:
        manager = self._txn_manager
        if manager is not None and manager.transactional_id is not None:
            manager.require(TransactionState.IN_TRANSACTION, call="Can't send messages while not in transaction: send")

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> Future:
        """Put a record into its batch.

        Args:
            topic: The topic's name.
            value: The value: bytes after `value_serializer`; None is a tombstone, which needs a key.
            key: The key: bytes after `key_serializer`.
            partition: The partition; without it the partitioner chooses.
            timestamp_ms: Milliseconds since 1970 UTC; without it, the current time.
            headers: Pairs of a name and bytes.

        Returns: A future: the `RecordMetadata`, or None with `acks=0`. Cancelling it does not stop the record.

        Raises:
            MessageSizeTooLargeError: The record is larger than `max_request_size`.
            TypeError: The key or the value is not bytes after serialization.
            ProducerClosed: The producer is stopped.
            IllegalOperation: The producer has a `transactional_id`, and no transaction is open.
            KafkaTimeoutError: The buffer stayed full for `request_timeout_ms`.
            UnknownTopicOrPartitionError: The topic does not exist.
        """
        if value is None and key is None:
            raise AssertionError("Need at least one: key or value")
        producer = self.__open()
        self.__check_transaction()
        key_bytes = checked("key", key if self._key_serializer is None else self._key_serializer(key))
        value_bytes = checked("value", value if self._value_serializer is None else self._value_serializer(value))
        if isinstance(headers, Mapping):
            raise TypeError("headers must be a list of pairs (str, bytes), not a dict: pass list(headers.items())")
        listed = list(headers) if headers else None
        self.__check_size(size_of(key_bytes, value_bytes, listed or ()))
        if partition is not None or key_bytes is None or not self._is_default_partitioner:
            partition = await self._chosen(topic, partition, key_bytes)
        with translated():
            sent: Any = producer._core.send(topic, value_bytes, key_bytes, partition, timestamp_ms, listed)
            while isinstance(sent, _ottla.Operation):
                sent = await sent
        return self.__followed(sent, timestamp_ms, is_batch=False)

    def __check_size(self, size: int) -> None:
        if size > self._max_request_size:
            raise MessageSizeTooLargeError(
                f"the record has {size} bytes, and max_request_size is {self._max_request_size}: send less, or raise it"
            )

    def __followed(self, sent: Any, timestamp: int | None, *, is_batch: bool) -> Future:
        """Make the future of a delivery."""
        future: Future = self._loop.create_future()
        self._pending.add(future)
        settle = _settle_batch if is_batch else _settle
        sent.add_done_callback(partial(settle, future, self._pending, self._txn_manager, timestamp, self._acks == 0))
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata | None:
        """Send a record, and wait for its delivery.

        Args:
            topic: As `send`.
            value: As `send`.
            key: As `send`.
            partition: As `send`.
            timestamp_ms: As `send`.
            headers: As `send`.

        Raises:
            KafkaError: The record was not delivered; see also `send`.
        """
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def create_batch(self) -> BatchBuilder:
        """An empty batch for `send_batch`."""
        return BatchBuilder(
            self._max_batch_size, key_serializer=self._key_serializer, value_serializer=self._value_serializer
        )

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int | None) -> Future:
        """Send the records of a batch.

        Args:
            batch: The batch; it takes no further record.
            topic: The topic's name.
            partition: The partition; None lets the partitioner choose one for all.

        Returns: A future: the `RecordMetadata` of the first record.

        Raises:
            ProducerClosed: The producer is stopped.
            IllegalOperation: The producer has a `transactional_id`, and no transaction is open.
            AssertionError: There is no such partition.
        """
        producer = self.__open()
        self.__check_transaction()
        number = await self._chosen(topic, partition, None)
        batch.close()
        if not batch.keys:
            done: Future = self._loop.create_future()
            done.set_result(None)
            return done
        with translated():
            sent = await producer.send_many(
                topic,
                batch.values,
                keys=batch.keys,
                partitions=number,
                timestamps=batch.timestamps,
                headers=[headers or None for headers in batch.headers],
            )
        first = batch.timestamps[0]
        future = self.__followed(sent, first, is_batch=True)
        future._ottla_topic = topic  # type: ignore[attr-defined]
        return future

    def __transactional(self) -> tuple[aio.Producer, TransactionManager]:
        manager = self._txn_manager
        if manager is None or manager.transactional_id is None:
            raise IllegalOperation("the producer has no transactional_id: pass one to have transactions")
        return self.__open(), manager

    async def begin_transaction(self) -> None:
        """Open a transaction.

        Raises:
            IllegalOperation: The producer has no `transactional_id`, or a transaction is open.
            ProducerFenced: Another producer has the same `transactional_id`.
        """
        producer, manager = self.__transactional()
        manager.require(TransactionState.READY, call="begin_transaction")
        # A call that is cancelled at once begins nothing.
        await asyncio.sleep(0)
        try:
            await producer.begin_transaction()
        except native.KafkaError as error:
            manager_state = manager.state
            raised = manager.fail(error)
            if not manager.is_fatal_error():
                manager.state = manager_state
            raise raised from error
        manager.state = TransactionState.IN_TRANSACTION

    async def commit_transaction(self) -> None:
        """Deliver the records of the transaction, and commit it. A cancelled call commits, too.

        Raises:
            IllegalOperation: No transaction is open.
            KafkaError: A record or the offsets failed: abort the transaction.
            ProducerFenced: Another producer has the same `transactional_id`.
        """
        producer, manager = self.__transactional()
        manager.require(TransactionState.IN_TRANSACTION, call="commit_transaction")
        manager.state = TransactionState.COMMITTING_TRANSACTION
        await self.__end(producer.commit_transaction, manager)

    async def abort_transaction(self) -> None:
        """Abort the transaction. A cancelled call aborts, too.

        Raises:
            IllegalOperation: No transaction is open.
            ProducerFenced: Another producer has the same `transactional_id`.
        """
        producer, manager = self.__transactional()
        manager.require(TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR, call="abort_transaction")
        manager.state = TransactionState.ABORTING_TRANSACTION
        await self.__end(producer.abort_transaction, manager)

    async def __end(self, end: Callable[[], Coroutine[Any, Any, None]], manager: TransactionManager) -> None:
        pending = list(self._pending)

        async def ending() -> None:
            try:
                # A program that cancels its call sees the state before the end, as with aiokafka.
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                await end()
            except native.KafkaError as error:
                raise manager.fail(error) from error
            finally:
                if pending:
                    await asyncio.wait(pending)
            manager.state = TransactionState.READY

        await asyncio.shield(asyncio.ensure_future(ending()))

    def transaction(self) -> TransactionContext:
        """A transaction for an `async with` statement: it is committed at its end, and aborted if the body raises."""
        return TransactionContext(self)

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_id: str) -> None:
        """Make offsets of a group part of the transaction.

        Args:
            offsets: By partition, the offset of the next record, or the offset and a text.
            group_id: The group.

        Raises:
            IllegalOperation: No transaction is open.
            ValueError: `group_id` or `offsets` is empty.
            KafkaError: The group does not take the offsets: abort the transaction.
        """
        producer, manager = self.__transactional()
        manager.require(TransactionState.IN_TRANSACTION, call="send_offsets_to_transaction")
        if not group_id or not isinstance(group_id, str):
            raise ValueError(f"group_id must be the name of a group, and is {group_id!r}")
        listed = checked_offsets(offsets)
        found = {(tp.topic, tp.partition): NativeOffset(at.offset, at.metadata) for tp, at in listed.items()}
        try:
            await producer.send_offsets(found, group_id)
        except native.KafkaError as error:
            raise manager.fail(error) from error

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.stop()


def _settle(
    future: Future,
    pending: set[Future],
    manager: TransactionManager | None,
    timestamp: int | None,
    is_unacknowledged: bool,
    delivery: Any,
) -> None:
    """Give a delivery's result to its future."""
    pending.discard(future)
    error = delivery.exception()
    if error is not None:
        _fail(future, manager, error)
    elif not future.done():
        if is_unacknowledged:
            future.set_result(None)
            return
        found = delivery.result()
        is_replaced = timestamp is not None and found.timestamp != timestamp
        where = TopicPartition(found.topic, found.partition)
        future.set_result(RecordMetadata(*where, where, found.offset, found.timestamp, int(is_replaced), None))


def _settle_batch(
    future: Future,
    pending: set[Future],
    manager: TransactionManager | None,
    timestamp: int | None,
    is_unacknowledged: bool,
    deliveries: Any,
) -> None:
    """Give the result of a batch's first record to the future."""
    pending.discard(future)
    error = deliveries.exception()
    if error is not None:
        _fail(future, manager, error)
    elif not future.done():
        if is_unacknowledged:
            future.set_result(None)
            return
        partitions, offsets = deliveries.result()
        where = TopicPartition(future._ottla_topic, partitions[0])  # type: ignore[attr-defined]
        future.set_result(RecordMetadata(*where, where, offsets[0], timestamp, 0, None))


def _fail(future: Future, manager: TransactionManager | None, error: BaseException) -> None:
    is_transactional = manager is not None and manager.transactional_id is not None
    if (
        is_transactional
        and manager is not None
        and manager.state
        in {
            TransactionState.IN_TRANSACTION,
            TransactionState.COMMITTING_TRANSACTION,
        }
    ):
        raised = manager.fail(error)
    else:
        raised = translate(error)
    if not future.done():
        future.set_exception(raised)
        # A program that does not look at the future gets the error of the transaction.
        if is_transactional:
            future.exception()


class TransactionContext:
    """A transaction in an `async with` statement.

    Args:
        producer: The producer.
    """

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self._producer.commit_transaction()
            return
        manager = self._producer._txn_manager
        if manager is not None and not manager.is_fatal_error():
            await self._producer.abort_transaction()
