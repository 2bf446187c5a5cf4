"""Records on their way: from a call of produce to the delivery result that waits for a poll."""

from __future__ import annotations

import itertools
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ottla import _ottla, errors
from ottla.compat.confluent_kafka.callbacks import LONG_SLICE, SLICE, Callbacks
from ottla.compat.confluent_kafka.constants import OFFSET_INVALID
from ottla.compat.confluent_kafka.errors import KafkaError, code, to_kafka_error
from ottla.compat.confluent_kafka.message import Message, of_fields

_CREATE_TIME: Final = 1


class Pending:
    """A record whose delivery result is not known yet."""

    __slots__ = (
        "headers",
        "is_done",
        "key",
        "made",
        "on_delivery",
        "partition",
        "size",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: Any,
        on_delivery: Callable[[KafkaError | None, Message], object] | None,
        size: int,
    ) -> None:
        self.topic, self.value, self.key, self.partition = topic, value, key, partition
        self.timestamp, self.headers, self.on_delivery, self.size = timestamp, headers, on_delivery, size
        self.made = time.monotonic()
        self.is_done = False

    def message(self, found: Any, error: KafkaError | None) -> Message:
        """The message that the callback gets. As with librdkafka, it has no headers."""
        if error is None:
            partition, offset, timestamp = found.partition, found.offset, found.timestamp
        else:
            partition, offset, timestamp = self.partition, OFFSET_INVALID, self.timestamp or 0
        key, value = self.key, self.value
        return of_fields(
            (
                self.topic,
                -1 if partition is None else partition,
                OFFSET_INVALID if offset < 0 else offset,
                key if key is None or type(key) is bytes else _bytes(key),
                value if value is None or type(value) is bytes else _bytes(value),
                None,
                error,
                (_CREATE_TIME, timestamp) if timestamp else (0, timestamp),
                time.monotonic() - self.made,
                -1,
                -1,
            )
        )


def _bytes(data: Any) -> bytes | None:
    if isinstance(data, str):
        return data.encode()
    return None if data is None else bytes(data)


class Outbox:
    """All records of a producer that have no delivery result, and the results that no poll has taken.

    A thread sends records of unknown topics. It starts with the first such record, and ends after the last.

    Args:
        core: The producer, or None without brokers.
        callbacks: Where results are queued for a poll.
        timeout: Seconds until a record without brokers expires.
    """

    def __init__(self, core: _ottla.ProducerCore | None, callbacks: Callbacks, timeout: float) -> None:
        self._core, self._callbacks, self._timeout = core, callbacks, timeout
        self.count = 0
        self.bytes = 0
        self._lock = threading.Lock()
        self._queue = _ottla.CompletionQueue()
        self._tokens = itertools.count()
        self._results: deque[tuple[Pending, Any, KafkaError | None]] = deque()
        self._sent: dict[int, tuple[Pending, _ottla.Watched]] = {}
        # By topic, what was not handed to the core: in order, and later records of the topic come after them.
        self._unsent: dict[str, deque[Pending]] = {}
        self._sender: threading.Thread | None = None

    def add(self, pending: Pending) -> None:
        """Send a record, or queue it where its topic is not known yet. Raise what is wrong with the record."""
        if self._core is None or pending.topic in self._unsent:
            self._queue_unsent(pending)
            return
        sent = self._send(pending)
        if isinstance(sent, _ottla.Operation):
            self._queue_unsent(pending)
        else:
            self._track(pending, sent)

    def _send(self, pending: Pending) -> _ottla.AsyncDelivery | _ottla.Operation:
        core = self._core
        if core is None:
            raise RuntimeError("the producer has no brokers")
        return core.send(
            pending.topic, pending.value, pending.key, pending.partition, pending.timestamp, pending.headers
        )

    def _track(self, pending: Pending, delivery: _ottla.AsyncDelivery, *, is_counted: bool = False) -> None:
        watched = delivery._watch()
        token = next(self._tokens)
        with self._lock:
            self._sent[token] = (pending, watched)
            if not is_counted:
                self.count += 1
                self.bytes += pending.size
        watched._notify(self._queue, token)

    def _queue_unsent(self, pending: Pending) -> None:
        with self._lock:
            self.count += 1
            self.bytes += pending.size
            self._unsent.setdefault(pending.topic, deque()).append(pending)
            if self._core is not None and self._sender is None:
                arguments = (weakref.ref(self),)
                self._sender = threading.Thread(target=_send_unsent, args=arguments, name="ottla-produce", daemon=True)
                self._sender.start()

    def next_unsent(self, active: set[str]) -> list[Pending]:
        """For the sending thread: the first record of each topic that it is not working on."""
        with self._lock:
            found = [queue[0] for topic, queue in self._unsent.items() if queue and topic not in active]
            if not found and not active:
                self._sender = None
        return found

    def start(self, pending: Pending) -> _ottla.Operation | None:
        """For the sending thread: send a record; None if it went out, or failed."""
        if pending.is_done:
            self.drop(pending)
            return None
        try:
            sent = self._send(pending)
        except Exception as error:  # noqa: BLE001 the delivery result has it
            self._fail(pending, error)
            return None
        if isinstance(sent, _ottla.Operation):
            return sent
        self._sent_late(pending, sent)
        return None

    def finish(self, pending: Pending, operation: _ottla.Operation) -> None:
        """For the sending thread: take what an operation that is done returned."""
        try:
            delivery = operation.take()
        except Exception as error:  # noqa: BLE001 the delivery result has it
            self._fail(pending, error)
        else:
            self._sent_late(pending, delivery)

    def _sent_late(self, pending: Pending, delivery: _ottla.AsyncDelivery) -> None:
        # A record that was purged meanwhile has its result.
        if not pending.is_done:
            self._track(pending, delivery, is_counted=True)
        self.drop(pending)

    def _fail(self, pending: Pending, error: Exception) -> None:
        self._settle(pending, None, _result(error))
        self.drop(pending)

    def drop(self, pending: Pending) -> None:
        """Take a record out of those that were not sent."""
        with self._lock:
            queue = self._unsent.get(pending.topic)
            if queue and queue[0] is pending:
                queue.popleft()
                if not queue:
                    del self._unsent[pending.topic]

    def _settle(self, pending: Pending, found: Any, error: KafkaError | None) -> None:
        """Queue the result for a poll, once."""
        with self._lock:
            if not pending.is_done:
                pending.is_done = True
                self._results.append((pending, found, error))

    def collect(self) -> None:
        """Queue the results that came in, and expire records that have no broker to go to."""
        tokens = self._queue.drain()
        if tokens:
            with self._lock:
                for token in tokens:
                    pending, watched = self._sent.pop(token)
                    if not pending.is_done:
                        pending.is_done = True
                        found = watched.found()
                        failed = isinstance(found, BaseException)
                        self._results.append((pending, found, _result(found) if failed else None))
        if self._core is None:
            self._expire(time.monotonic() - self._timeout)

    def serve(self) -> int:
        """Call the callbacks of results; what one raises is raised, and the others wait for the next poll.

        Returns: The number of results.
        """
        self.collect()
        served = 0
        while True:
            try:
                pending, found, error = self._results.popleft()
            except IndexError:
                return served
            with self._lock:
                self.count -= 1
                self.bytes -= pending.size
            served += 1
            if pending.on_delivery is not None:
                pending.on_delivery(error, pending.message(found, error))

    def _expire(self, made_before: float) -> None:
        for topic in list(self._unsent):
            queue = self._unsent[topic]
            while queue and queue[0].made <= made_before:
                self._settle(queue.popleft(), None, KafkaError(code("_MSG_TIMED_OUT")))
            with self._lock:
                if not queue:
                    self._unsent.pop(topic, None)

    def wait(self, seconds: float) -> None:
        """Wait for a result, at most a slice."""
        is_watched = bool(self._unsent) or self._callbacks.are_watched
        seconds = min(seconds, SLICE if is_watched else LONG_SLICE)
        if self._core is None:
            # Records without a broker expire by the clock.
            firsts = [queue[0].made for queue in list(self._unsent.values()) if queue]
            if firsts:
                seconds = max(0.001, min(seconds, min(firsts) + self._timeout - time.monotonic()))
        _wait_for(self._queue.fileno(), seconds)

    def purge(self, in_queue: bool, in_flight: bool) -> None:
        """Give up records: those that wait for their topic, and those that were handed over."""
        if in_queue:
            with self._lock:
                waiting = [pending for queue in self._unsent.values() for pending in queue]
                if self._core is None:
                    self._unsent.clear()
            for pending in waiting:
                self._settle(pending, None, KafkaError(code("_PURGE_QUEUE")))
        if in_flight:
            with self._lock:
                sent = [pending for pending, _ in self._sent.values()]
            for pending in sent:
                self._settle(pending, None, KafkaError(code("_PURGE_INFLIGHT")))


def _wait_for(descriptor: int, seconds: float) -> None:
    if hasattr(select, "poll"):
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        poller.poll(seconds * 1000)
    else:
        select.select([descriptor], [], [], seconds)


def _result(error: Any) -> KafkaError:
    """A delivery result: a record that found no broker in time has timed out."""
    translated = to_kafka_error(error, at_deadline="_MSG_TIMED_OUT")
    if translated.code() == code("_MSG_TIMED_OUT"):
        return KafkaError(code("_MSG_TIMED_OUT"), f"Local: Message timed out: {error}")
    if isinstance(error, errors.NotFoundError) and error.code:
        return KafkaError(code("_UNKNOWN_TOPIC"), f"Local: Unknown topic: {error}")
    return translated


def _send_unsent(reference: weakref.ref[Outbox]) -> None:
    """Send records whose topics were not known, one topic beside the other, until there is none."""
    sending = _Sending()
    while True:
        box = reference()
        if box is None or not sending.step(box):
            return
        del box
        sending.wait()


class _Sending:
    """The operations that wait for topics: at most one a topic, so that records keep their order."""

    def __init__(self) -> None:
        self._queue = _ottla.CompletionQueue()
        self._tokens = itertools.count()
        self._waiting: dict[int, tuple[Pending, _ottla.Operation]] = {}

    def step(self, box: Outbox) -> bool:
        """Start what can be started, and finish what is done; False if nothing is left."""
        firsts = box.next_unsent({pending.topic for pending, _ in self._waiting.values()})
        if not firsts and not self._waiting:
            return False
        for pending in firsts:
            operation = box.start(pending)
            if operation is not None:
                self._poll(box, next(self._tokens), pending, operation)
        for token in self._queue.drain():
            if token in self._waiting:
                self._poll(box, token, *self._waiting.pop(token))
        for token in [token for token, (pending, _) in self._waiting.items() if pending.is_done]:
            box.drop(self._waiting.pop(token)[0])
        return True

    def _poll(self, box: Outbox, token: int, pending: Pending, operation: _ottla.Operation) -> None:
        if operation.poll(self._queue, token):
            box.finish(pending, operation)
        else:
            self._waiting[token] = (pending, operation)

    def wait(self) -> None:
        """Wait for a topic, at most a slice: records may have been purged."""
        if self._waiting:
            _wait_for(self._queue.fileno(), SLICE)
