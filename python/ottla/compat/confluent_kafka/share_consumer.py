"""`ShareConsumer`: confluent-kafka's consumer of share groups (KIP-932) on ottla's."""

from __future__ import annotations

import importlib
import operator
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, Self

import ottla
from ottla import _ottla, errors
from ottla._ottla import Record
from ottla.compat.confluent_kafka.callbacks import SLICE, deadline_of
from ottla.compat.confluent_kafka.cluster import Cluster
from ottla.compat.confluent_kafka.errors import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaException,
    failure,
    to_exception,
    to_kafka_error,
)
from ottla.compat.confluent_kafka.message import Message, of_error
from ottla.compat.confluent_kafka.properties import Configuration, parse
from ottla.compat.confluent_kafka.topic_partition import TopicPartition

_CLOSED: Final = "Share consumer closed"
_KINDS: Final[dict[int, Literal["accept", "release", "reject"]]] = {1: "accept", 2: "release", 3: "reject"}
_INAPPLICABLE: Final = ("on_commit", "on_delivery")
_CLOSE: Final = 5.0


class _State:
    """What a share consumer consists of once it is initialized."""

    def __init__(self, config: Configuration) -> None:
        self.config = config
        self.cluster = Cluster(config)
        self.owner = threading.Lock()
        self.topics: list[str] = []
        self.records: dict[tuple[str, int, int], Record] = {}
        self.acknowledged: set[tuple[str, int, int]] = set()
        # The thread that runs the acknowledgement callback, which must not call the consumer.
        self.reporter: int | None = None
        self.most_between_polls = config.number("max.poll.interval.ms", 300_000) / 1000
        self.polled: float | None = None
        self.is_explicit = config.properties.get("share.acknowledgement.mode", "implicit").lower() == "explicit"
        self.client: ottla.ShareConsumer | None = None
        if self.cluster.is_connected:
            self.client = ottla.ShareConsumer(config=self.cluster.properties())
            if config.properties.get("share.acquire.mode", "").lower() != "record_limit":
                # As librdkafka, which returns the records of a batch at once.
                self.client._core.keep_batches()
            self.cluster.metrics = self.client.metrics
            self.cluster.name(self.client.metrics())
            if "error_cb" in config.callbacks:
                self.cluster.connect(60.0)

    def check_caller(self) -> None:
        """Refuse calls from the acknowledgement callback.

        Raises:
            IllegalStateException: The callback is running on this thread.
        """
        if self.reporter == threading.get_ident():
            raise IllegalStateException("a share consumer must not be called from its acknowledgement callback")

    def check_pace(self) -> None:
        """Report once that the last poll is longer ago than a member may take.

        Raises:
            KafkaException: `_MAX_POLL_EXCEEDED`.
        """
        polled, self.polled = self.polled, None
        if polled is not None and time.monotonic() - polled > self.most_between_polls:
            reason = f"Application maximum poll interval ({round(self.most_between_polls * 1000)}ms) exceeded"
            raise failure("_MAX_POLL_EXCEEDED", reason)

    def sent(self) -> None:
        """Forget the records whose acknowledgement was sent."""
        if not self.is_explicit:
            self.records.clear()
        for key in self.acknowledged:
            self.records.pop(key, None)
        self.acknowledged.clear()

    def report(self, callback: Callable[..., object], outcomes: list[ottla.Acknowledgement]) -> None:
        """Call the application once for each partition, and for each error of a partition."""
        groups: dict[tuple[TopicPartition, str], tuple[set[int], KafkaException | None]] = {}
        for outcome in outcomes:
            error = None if outcome.error is None else to_exception(outcome.error)
            partition = TopicPartition(outcome.partition.topic, outcome.partition.partition)
            offsets, _ = groups.setdefault((partition, str(error)), (set(), error))
            offsets.update(outcome.offsets)
        self.reporter = threading.get_ident()
        try:
            for (partition, _), (offsets, error) in groups.items():
                callback({partition: offsets}, error)
        finally:
            self.reporter = None


class ShareConsumer:
    """A member of a share group: records are delivered to one of its members, and acknowledged one by one.

    Args:
        config: A dict of librdkafka's properties, and callbacks; group.id is required.
    """

    __state: _State | None

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Make a consumer that is closed until its __init__."""
        made = super().__new__(cls)
        made.__state = None
        return made

    def __init__(self, *args: Any, **config: Any) -> None:
        if self.__state is not None:
            raise RuntimeError("ShareConsumer already initialized")
        for name in _INAPPLICABLE:
            if name in config or (args and isinstance(args[0], dict) and name in args[0]):
                raise ValueError(f"{name} is not supported by a ShareConsumer")
        parsed = parse("share-consumer", args, config)
        if "group.id" not in parsed.properties:
            raise ValueError("Failed to create share consumer: group.id must be set")
        try:
            self.__state = _State(parsed)
        except errors.KafkaError as error:
            raise ValueError(f"Failed to create share consumer: {error}") from error

    def __open(self) -> _State:
        """Return the state.

        Raises:
            IllegalStateException: The consumer is closed.
        """
        if self.__state is None:
            raise IllegalStateException(_CLOSED)
        self.__state.check_caller()
        return self.__state

    def subscribe(self, topics: Any) -> None:
        """Join the group for topics, in place of those before; an empty list leaves.

        Args:
            topics: A list of names.
        """
        state = self.__open()
        if not isinstance(topics, list):
            raise TypeError("expected list of topic unicode strings")
        names = [str(topic) for topic in topics]
        if "" in names or len(set(names)) < len(names):
            raise ValueError("Failed to subscribe: a topic's name is empty or given twice")
        with _owned(state):
            if state.client is not None:
                if names:
                    state.client.subscribe(names)
                elif state.topics:
                    state.client.unsubscribe(_CLOSE)
            state.topics = names

    def unsubscribe(self) -> None:
        """Leave the group.

        Raises:
            IllegalStateException: The consumer is closed.
        """
        self.subscribe([])

    def subscription(self) -> list[str]:
        """List the topics.

        Returns: Names, sorted.
        """
        return sorted(self.__open().topics)

    def poll(self, timeout: float = -1) -> Any:
        """Return records, and call callbacks. With implicit acknowledgement, it accepts the last records.

        Args:
            timeout: Seconds to wait at most; negative waits without end.

        Returns: Messages.
        """
        state = self.__open()
        deadline = deadline_of(timeout)
        made = importlib.import_module("confluent_kafka").Messages
        with _owned(state):
            state.cluster.callbacks.serve()
            if not state.topics:
                raise IllegalStateException("Failed to poll: the consumer is not subscribed to any topic")
            state.check_pace()
            while True:
                try:
                    found = _records(state, deadline)
                finally:
                    state.polled = time.monotonic()
                state.cluster.callbacks.serve()
                if found or time.monotonic() >= deadline:
                    return made(found)

    def acknowledge(self, message: Message, ack_type: Any = 1) -> None:
        """Acknowledge a record.

        Args:
            message: What poll returned.
            ack_type: An AcknowledgeType: ACCEPT, RELEASE or REJECT.
        """
        state = self.__open()
        if not isinstance(message, Message):
            raise TypeError(f"expected Message, not {type(message).__name__}")
        if message.topic() is None:
            raise ValueError("Failed to acknowledge: the message has no topic")
        partition, offset = message.partition(), message.offset()
        _acknowledge(
            state, message.topic(), -1 if partition is None else partition, -1 if offset is None else offset, ack_type
        )

    def acknowledge_offset(self, topic: str, partition: int, offset: int, ack_type: Any = 1) -> None:
        """Acknowledge a record by its offset.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            offset: The record's offset.
            ack_type: An AcknowledgeType: ACCEPT, RELEASE or REJECT.
        """
        state = self.__open()
        if not isinstance(topic, str):
            raise TypeError(f"topic must be str, not {type(topic).__name__}")
        _acknowledge(state, topic, operator.index(partition), operator.index(offset), ack_type)

    def commit_sync(self, timeout: float = 60) -> dict[TopicPartition, KafkaException | None]:
        """Send acknowledgements, and wait for the result.

        Args:
            timeout: Seconds to wait at most.

        Returns: A dict of None or KafkaException by partition.
        """
        state = self.__open()
        deadline = deadline_of(timeout)
        with _owned(state):
            state.cluster.callbacks.serve()
            if state.client is None or not state.records:
                return {}
            seconds = max(0.0, min(86_400.0, deadline - time.monotonic()))
            try:
                found = state.client.commit(timeout=seconds)
            except errors.KafkaError as error:
                raise to_exception(error, at_deadline="_TIMED_OUT") from error
            state.sent()
            return {
                TopicPartition(at.topic, at.partition): None if error is None else to_exception(error)
                for at, error in found.items()
            }

    def commit_async(self) -> None:
        """Send acknowledgements, and return at once.

        Raises:
            IllegalStateException: The consumer is closed.
        """
        state = self.__open()
        with _owned(state):
            state.cluster.callbacks.serve()
            if state.client is not None and state.records:
                state.client.commit(wait=False)
                state.sent()

    def set_acknowledgement_commit_callback(self, callback: Callable[..., object] | None) -> None:
        """Set what is called with the results of acknowledgements.

        Args:
            callback: Called as f(offsets by partition, exception); None ends it.
        """
        state = self.__open()
        if callback is not None and not callable(callback):
            raise TypeError("expected a callable or None")
        with _owned(state):
            if state.client is None:
                return
            if callback is None:
                state.client.set_acknowledgement_callback(None)
            else:
                state.client.set_acknowledgement_callback(lambda outcomes: state.report(callback, outcomes))

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set the credentials for the authentications from now on. Connections that are authenticated stay.

        Args:
            username: The user's name.
            password: The password.
        """
        self.__open().cluster.set_sasl_credentials(username, password)

    def close(self) -> None:
        """Acknowledge, leave the group, and disconnect. Closing twice does no harm.

        Raises:
            ConcurrentModificationException: Another thread uses the consumer.
        """
        state = self.__state
        if state is None:
            return
        state.check_caller()
        with _owned(state):
            try:
                state.cluster.callbacks.serve()
                if state.client is not None:
                    state.client.close(_CLOSE)
            except errors.KafkaError as error:
                raise to_exception(error) from error
            finally:
                self.__state = None
                state.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


ShareConsumer.__module__ = "confluent_kafka.cimpl"


class _owned(AbstractContextManager[None]):  # noqa: N801 used like a function
    """Refuse a call while another thread is in one."""

    def __init__(self, state: _State) -> None:
        self._owner = state.owner

    def __enter__(self) -> None:
        if not self._owner.acquire(blocking=False):
            raise ConcurrentModificationException("ShareConsumer is not safe for multi-threaded access")

    def __exit__(self, *_: object) -> None:
        self._owner.release()


def _records(state: _State, deadline: float) -> list[Message]:
    """Records of one poll of ottla, or the error that took their place."""
    left = max(0.0, min(SLICE, deadline - time.monotonic()))
    if state.client is None:
        time.sleep(left)
        return []
    try:
        batch = state.client.poll(left)
    except errors.ArgumentError as error:
        # Explicit acknowledgement, and a record of the last poll has none.
        raise IllegalStateException(str(error)) from error
    except (errors.UnreachableError, errors.KafkaTimeoutError):
        # For error_cb.
        time.sleep(max(0.0, min(SLICE, deadline - time.monotonic())))
        return []
    except errors.KafkaError as error:
        return [of_error(to_kafka_error(error), error.topic, -1 if error.partition is None else error.partition)]
    if len(batch):
        state.acknowledged.clear()
        state.records = {(record.topic, record.partition, record.offset): record for record in batch}
    return _ottla.messages_of(batch)


def _acknowledge(state: _State, topic: str, partition: int, offset: int, ack_type: Any) -> None:
    kind = getattr(ack_type, "value", ack_type)
    if partition < 0 or offset < 0:
        raise ValueError(f"Failed to acknowledge: partition {partition} and offset {offset} must not be negative")
    with _owned(state):
        if not state.is_explicit:
            raise IllegalStateException("Failed to acknowledge: share.acknowledgement.mode is not explicit")
        if kind not in _KINDS:
            raise ValueError(f"Failed to acknowledge: {kind} is not an AcknowledgeType")
        record = state.records.get((topic, partition, offset))
        if record is None or state.client is None:
            raise IllegalStateException(
                f"Failed to acknowledge: the last poll did not return {topic} {partition} {offset}"
            )
        state.client.acknowledge(record, _KINDS[kind])
        state.acknowledged.add((topic, partition, offset))
