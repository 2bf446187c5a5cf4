"""`Producer`: confluent-kafka's producer on ottla's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, Never, Self

from ottla import _ottla
from ottla.compat.confluent_kafka.callbacks import SLICE, deadline_of
from ottla.compat.confluent_kafka.cluster import Cluster
from ottla.compat.confluent_kafka.errors import raised
from ottla.compat.confluent_kafka.handle import Handle
from ottla.compat.confluent_kafka.outbox import wait
from ottla.compat.confluent_kafka.properties import Configuration, parse
from ottla.compat.confluent_kafka.transactions import Transactions

_CLOSED: Final = "Producer has been closed"
# What librdkafka counts for a record beside its key and value.
_MOST_MESSAGES: Final = 100_000
_MOST_KBYTES: Final = 1_048_576
_MAX_REQUEST: Final = 1_000_000


class State:
    """What a producer consists of once it is initialized."""

    def __init__(self, config: Configuration) -> None:
        self.config = config
        self.cluster = Cluster(config)
        self.core = self._open()
        timeout = int(config.properties["delivery.timeout.ms"]) / 1000
        self.timeout = timeout
        self.outbox = _ottla.Outbox(
            self.core,
            max_messages=config.number("queue.buffering.max.messages", _MOST_MESSAGES) or 2**31,
            max_bytes=config.number("queue.buffering.max.kbytes", _MOST_KBYTES) * 1024,
            max_message_bytes=int(config.properties.get("max.request.size", _MAX_REQUEST)),
            timeout=timeout,
            on_delivery=config.callbacks.get("on_delivery"),
            errors_only=config.flag("delivery.report.only.error", False),
            is_watched=self.cluster.callbacks.are_watched,
        )
        self.cluster.pending = self.outbox.__len__
        self.is_watched = self.cluster.callbacks.are_watched
        self.serve_events, self._serve_reports = self.cluster.callbacks.serve, self.outbox.serve
        self.transactions = Transactions(self.core, config)
        if self.core is not None and "error_cb" in config.callbacks:
            self.cluster.connect(timeout)

    def _open(self) -> _ottla.ProducerCore | None:
        """Make the producer of ottla, if there are brokers."""
        if not self.cluster.is_connected:
            return None
        with raised(at_deadline="_INVALID_ARG"):
            core = _ottla.ProducerCore(config=self.cluster.properties())
        self.cluster.metrics = core.metrics
        self.cluster.name(core.metrics())
        return core

    def serve(self) -> int:
        """Call all callbacks.

        Returns: The number of callbacks that were called.
        """
        return self.serve_events() + self._serve_reports()

    def wait(self, seconds: float) -> None:
        """Wait for something to serve, at most so long."""
        wait(self.outbox, seconds, is_watched=self.is_watched)

    def flush(self, deadline: float) -> int:
        """Serve until nothing is left or the time is up."""
        self.serve()
        for seconds in self.waits_of_flush(deadline):
            self.wait(seconds)
            self.serve()
        return len(self.outbox)

    def waits_of_flush(self, deadline: float) -> Iterator[float]:
        """Flush until nothing is left or the time is up.

        A flush does not send records that wait until their topic is known, so another flush begins while there are any.

        Yields:
            How many seconds the caller waits for something to serve, at most. It serves after that.
        """
        flushing: _ottla.Operation | None = None
        while len(self.outbox) and (left := deadline - time.monotonic()) > 0:
            is_partial = self.outbox.has_unsent()
            flushing = flushing or self._begin_flush(left)
            yield min(left, SLICE) if is_partial else left
            if is_partial:
                flushing = None

    def _begin_flush(self, seconds: float) -> _ottla.Operation | None:
        """Send records that wait for more records of their batch.

        Args:
            seconds: How long the caller waits at most.

        Returns: The flush, which ends when it is dropped; None without brokers.
        """
        if self.core is None:
            return None
        flushing = self.core.flush(min(seconds, self.timeout + 1))
        flushing.poll(_ottla.CompletionQueue(), 0)
        return flushing


class Producer(Handle, _ottla.ReportingProducer):
    """A producer of records: produce() queues, poll() and flush() call the delivery callbacks.

    Args:
        config: A dict of librdkafka's properties, and callbacks.
    """

    __state: State | None

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Make a producer that is closed until its __init__."""
        made = super().__new__(cls)
        made.__state = None
        return made

    def __init__(self, *args: Any, **config: Any) -> None:
        state = State(parse("producer", args, config))
        self._ottla_write(state.outbox)
        self.__state = state

    def __open(self) -> State:
        """Return the state.

        Raises:
            RuntimeError: The producer is closed.
        """
        if self.__state is None:
            raise RuntimeError(_CLOSED)
        return self.__state

    def produce_batch(
        self, topic: Any, messages: Any, partition: Any = -1, callback: Any = None, on_delivery: Any = None
    ) -> int:
        """Queue many records.

        Args:
            topic: The topic's name.
            messages: A list of dicts with value, key, partition, headers and callback.
            partition: The partition of records that name none.
            callback: The same as on_delivery.
            on_delivery: The callback of records that name none.

        Returns: The number of records that were queued. A record that was not has its error as _error.
        """
        state = self.__open()
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        if not isinstance(partition, int):
            raise TypeError(f"'{type(partition).__name__}' object cannot be interpreted as an integer")
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        for at, message in enumerate(messages):
            _check_entry(at, message)
        queued = 0
        for message in messages:
            target = message.get("partition", partition)
            called = message.get("callback") or message.get("on_delivery") or on_delivery or callback
            failed = state.outbox.add(
                topic, message.get("value"), message.get("key"), target, called, message.get("headers")
            )
            if failed is None:
                queued += 1
            else:
                message["_error"] = failed
        return queued

    def _ottla_poll(self, timeout: Any) -> int:
        """Call callbacks, and wait for the first event: `poll` where there is more to do than to call delivery reports.

        Returns: The number of callbacks that were called.
        """
        state = self.__state or self.__open()
        deadline = deadline_of(-1 if timeout is None else timeout)
        while True:
            served = state.serve()
            if served or not deadline or (left := deadline - time.monotonic()) <= 0:
                return served
            state.wait(left)

    def flush(self, timeout: float | None = -1) -> int:
        """Wait until all records have a result, and call their callbacks.

        Args:
            timeout: Seconds to wait at most; negative or None waits without end.

        Returns: The number of records that have no result.
        """
        return self.__open().flush(deadline_of(-1 if timeout is None else timeout))

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:  # noqa: ARG002 confluent-kafka's argument
        """Purge records; their callbacks get _PURGE_QUEUE or _PURGE_INFLIGHT.

        Args:
            in_queue: Whether to purge records that wait in the buffer.
            in_flight: Whether to purge records that may be written already.
            blocking: Ignored: the call never waits.
        """
        self.__open().outbox.purge(in_queue, in_flight)

    def init_transactions(self, timeout: float = -1) -> None:
        """Get the transactional id's producer id, and settle what an earlier instance left.

        Args:
            timeout: Seconds to wait at most; negative waits without end.
        """
        self.__open().transactions.init(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises:
            KafkaException: init_transactions was not called (_STATE).
        """
        self.__open().transactions.begin()

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1) -> None:
        """Commit offsets of a group with the transaction.

        Args:
            positions: A list of TopicPartition with the offsets of the next records.
            group_metadata: What consumer_group_metadata() returned.
            timeout: Seconds to wait at most; negative waits without end.
        """
        self.__open().transactions.send_offsets(positions, group_metadata, timeout)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Deliver all records of the transaction, and commit it.

        Args:
            timeout: Seconds to wait at most; negative waits without end.
        """
        state = self.__open()
        state.transactions.check("commit_transaction")
        state.flush(deadline_of(timeout))
        state.transactions.commit(timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort the transaction.

        Args:
            timeout: Seconds to wait at most; negative waits without end.
        """
        state = self.__open()
        # What was not sent is not part of the transaction, and must not become part of the next one.
        state.outbox.purge(in_queue=True, in_flight=False)
        state.transactions.abort(timeout)
        state.flush(time.monotonic() + 1)

    def _ottla_state(self) -> State:
        """Return the state, for confluent-kafka's asyncio layer.

        Raises:
            RuntimeError: The producer is closed.
        """
        return self.__open()

    def _ottla_cluster(self) -> Cluster | None:
        """Return the cluster: None if the client is closed."""
        return None if self.__state is None else self.__state.cluster

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set the credentials for the authentications from now on. Connections that are authenticated stay.

        Args:
            username: The user's name.
            password: The password.
        """
        self.__open().cluster.set_sasl_credentials(username, password)

    def close(self, *_: Never) -> bool:
        """Deliver what is queued, call the callbacks, and disconnect.

        Returns: True: the producer is closed.
        """
        state = self.__state
        if state is None:
            return True
        try:
            state.flush(time.monotonic() + state.timeout + 1)
        finally:
            self.__state = None
            state.outbox.close()
            if state.core is not None:
                state.core.close(1.0).wait()
            state.cluster.close()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Producer.__module__ = "confluent_kafka.cimpl"


def _check_data(data: Any, text: str) -> None:
    if data is not None and not isinstance(data, str | bytes | bytearray | memoryview):
        raise TypeError(text.format(type(data).__name__))


def _check_entry(at: int, message: Any) -> None:
    if not isinstance(message, dict):
        raise TypeError(f"Message at index {at} must be a dict")
    for name in ("value", "key"):
        _check_data(message.get(name), f"Message {name} at index {at} must be bytes or str")
    if not isinstance(message.get("partition", -1), int):
        raise TypeError(f"Message partition at index {at} must be int")
    if "timestamp" in message:
        raise NotImplementedError("Message timestamps are not currently supported in batch mode")
