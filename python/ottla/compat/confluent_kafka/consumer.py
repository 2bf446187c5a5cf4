"""`Consumer`: confluent-kafka's consumer on ottla's."""

from __future__ import annotations

import time
import weakref
from typing import Any, Final, Never, Self

import ottla
from ottla import _ottla
from ottla.compat.confluent_kafka import offsets as committing
from ottla.compat.confluent_kafka.callbacks import deadline_of
from ottla.compat.confluent_kafka.cluster import Cluster
from ottla.compat.confluent_kafka.constants import OFFSET_END, OFFSET_INVALID
from ottla.compat.confluent_kafka.consumption import Consumption
from ottla.compat.confluent_kafka.errors import KafkaException, failure, raised
from ottla.compat.confluent_kafka.group_metadata import GroupMetadata
from ottla.compat.confluent_kafka.handle import Handle
from ottla.compat.confluent_kafka.message import Message
from ottla.compat.confluent_kafka.properties import parse
from ottla.compat.confluent_kafka.topic_partition import TopicPartition, partition_list
from ottla.compat.confluent_kafka.topic_partition import committed as shown_metadata

_CLOSED: Final = "Consumer closed"
_MOST: Final = 1_000_000
_FOREVER: Final = 86_400.0
_CLOSE: Final = 10.0


class Consumer(Handle, _ottla.PollingConsumer):
    """A consumer of records, alone or as a member of a group.

    Args:
        config: A dict of librdkafka's properties, and callbacks; group.id is required.
    """

    __state: Consumption | None

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Make a consumer that is closed until its __init__."""
        made = super().__new__(cls)
        made.__state = None
        return made

    def __init__(self, *args: Any, **config: Any) -> None:
        if self.__state is not None:
            raise RuntimeError("Consumer already initialized")
        parsed = parse("consumer", args, config)
        if "group.id" not in parsed.properties:
            raise ValueError("Failed to create consumer: group.id must be set")
        state = Consumption(parsed, Cluster(parsed))
        self._ottla_read(state.inbox)
        self.__state = state

    def __open(self) -> Consumption:
        """Return the state.

        Raises:
            RuntimeError: The consumer is closed.
        """
        if self.__state is None:
            raise RuntimeError(_CLOSED)
        return self.__state

    def subscribe(self, topics: Any, on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None) -> None:
        """Join the group for topics.

        Args:
            topics: A list of names; a name that begins with ^ is a pattern.
            on_assign: Called by a poll as f(consumer, partitions).
            on_revoke: Called by a poll as f(consumer, partitions).
            on_lost: Called by a poll as f(consumer, partitions); without it, on_revoke is called.
        """
        state = self.__open()
        if not isinstance(topics, list):
            raise TypeError("expected list of topic unicode strings")
        for listener, name in ((on_assign, "on_assign"), (on_revoke, "on_revoke"), (on_lost, "on_lost")):
            if listener is not None and not callable(listener):
                raise TypeError(f"{name} expects a callable")
        called = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        listeners = {name: None if f is None else self.__listener(f) for name, f in called.items()}
        with raised():
            state.subscribe([str(topic) for topic in topics], listeners)

    def __listener(self, called: Any) -> Any:
        """Bind a listener to the consumer, as long as the program refers to it.

        Returns: A function of partitions.
        """
        mine = weakref.ref(self)

        def call(partitions: Any) -> None:
            living = mine()
            if living is not None:
                called(living, partitions)

        return call

    def unsubscribe(self) -> None:
        """Leave the group, or remove the assignment.

        Raises:
            RuntimeError: The consumer is closed.
        """
        state = self.__open()
        with raised():
            state.offsets.last_commit()
            if state.client is not None and (state.subscribed or state.assigned):
                state.client.unsubscribe(_CLOSE)
        state.forget([*state.offsets.positions(), *state.pairs()])
        state.subscribed, state.assigned, state.is_manual = [], [], False

    def assign(self, partitions: Any) -> None:
        """Read these partitions and no others; in on_assign, begin them at their offsets.

        Args:
            partitions: A list of TopicPartition.
        """
        state = self.__open()
        wanted = partition_list(partitions)
        with raised():
            if not state.subscribed or state.client is None:
                state.assign(wanted)
            state.start(wanted)

    def unassign(self) -> None:
        """Read no partition.

        Raises:
            RuntimeError: The consumer is closed.
        """
        state = self.__open()
        with raised():
            if not state.subscribed or state.client is None:
                state.assign([])

    def incremental_assign(self, partitions: Any) -> None:
        """Read these partitions too; in on_assign, begin them at their offsets.

        Args:
            partitions: A list of TopicPartition.
        """
        state = self.__open()
        wanted = partition_list(partitions)
        with raised():
            if not state.subscribed or state.client is None:
                known = {(at.topic, at.partition) for at in state.assigned}
                if any((at.topic, at.partition) in known for at in wanted):
                    raise failure("_CONFLICT", "incremental_assign: a partition is assigned already")
                state.assign([*state.assigned, *wanted])
            state.start(wanted)

    def incremental_unassign(self, partitions: Any) -> None:
        """Read these partitions no longer.

        Args:
            partitions: A list of TopicPartition.
        """
        state = self.__open()
        gone = {(at.topic, at.partition) for at in partition_list(partitions)}
        with raised():
            if not state.subscribed or state.client is None:
                if not gone <= set(state.pairs()):
                    raise failure("_INVALID_ARG", "incremental_unassign: a partition is not assigned")
                state.assign([at for at in state.assigned if (at.topic, at.partition) not in gone])

    def assignment(self) -> list[TopicPartition]:
        """List the assigned partitions.

        Returns: A list of TopicPartition.
        """
        return [TopicPartition(topic, partition) for topic, partition in self.__open().pairs()]

    def _ottla_poll(self, timeout: Any) -> Message | None:
        """Call callbacks, and get more records: `poll` where there are none, or callbacks waited for long enough.

        Returns: A Message, or None when the time is up.
        """
        found = self.__open().take(1, deadline_of(-1 if timeout is None else timeout))
        return found[0] if found else None

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Return several records or errors, and call callbacks.

        Args:
            num_messages: The most messages to return.
            timeout: Seconds to wait for all of them; negative or None waits without end.

        Returns: A list of Message, which is short when the time is up.
        """
        state = self.__open()
        if not 0 <= num_messages <= _MOST:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        deadline = deadline_of(-1 if timeout is None else timeout)
        found: list[Message] = []
        while len(found) < num_messages:
            more = state.take(num_messages - len(found), deadline)
            if not more:
                break
            found += more
        return found

    def commit(self, message: Any = None, offsets: Any = None, asynchronous: bool = True) -> Any:
        """Commit offsets for the group.

        Args:
            message: Commit the offset after this message.
            offsets: A list of TopicPartition to commit. Without both, what is stored is committed.
            asynchronous: Whether to return at once; on_commit gets the result.

        Returns: None, or the partitions that were committed.
        """
        state = self.__open()
        if message is not None and offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        shown: list[tuple[str, int]] = []
        if message is None and offsets is None:
            wanted, shown = dict(state.offsets.stored), state.pairs()
        else:
            wanted = committing.wanted(message, None if offsets is None else partition_list(offsets))
        with raised():
            if not wanted:
                error, partitions = committing.no_offset(state.pairs())
                if not asynchronous:
                    raise KafkaException(error)
                state.offsets.report(error, partitions)
                return None
            if asynchronous:
                state.offsets.commit_later(wanted, shown)
                return None
            return state.offsets.commit(wanted, shown)

    def store_offsets(self, message: Any = None, offsets: Any = None) -> None:
        """Store offsets for the next commit; needs enable.auto.offset.store=false.

        Args:
            message: Store the offset after this message.
            offsets: A list of TopicPartition.
        """
        state = self.__open()
        if message is not None and offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        if message is None and offsets is None:
            raise ValueError("expected either message or offsets")
        if state.offsets.stores:
            raise failure("_INVALID_ARG", "StoreOffsets failed: enable.auto.offset.store must be false")
        wanted = committing.wanted(message, None if offsets is None else partition_list(offsets))
        named = {(at.topic, at.partition) for at in offsets or []} or set(wanted)
        if not named <= set(state.pairs()):
            raise failure("_UNKNOWN_PARTITION", "StoreOffsets failed: Local: Unknown partition")
        for pair, at in wanted.items():
            state.offsets.store(pair, at.offset, at.metadata, at.leader_epoch)

    def committed(self, partitions: Any, timeout: float | None = -1) -> list[TopicPartition]:
        """Find what the group committed.

        Args:
            partitions: A list of TopicPartition.
            timeout: Seconds to wait at most; negative or None waits without end.

        Returns: The partitions with their offsets; OFFSET_INVALID where nothing was committed.
        """
        state = self.__open()
        wanted = partition_list(partitions)
        pairs = [(at.topic, at.partition) for at in wanted]
        found = self.__ask("Failed to get committed offsets", timeout, lambda c, s: c.committed(pairs, s), state)
        for at in wanted:
            committed = found.get((at.topic, at.partition))
            at.offset = OFFSET_INVALID if committed is None else committed.offset
            if committed is not None:
                at.metadata = shown_metadata(committed.metadata)
                at.leader_epoch = committed.leader_epoch
            at.error = None
        return wanted

    def __ask(self, what: str, timeout: float | None, call: Any, state: Consumption) -> Any:
        """Make a call that sends requests to brokers.

        Raises:
            KafkaException: No broker responded in time (_TIMED_OUT), or one refused.
        """
        deadline = deadline_of(-1 if timeout is None else timeout)
        if state.client is None:
            state.cluster.wait(deadline)
            raise failure("_TIMED_OUT", f"{what}: Local: Timed out")
        seconds = min(_FOREVER, max(0.0, deadline - time.monotonic()))
        with raised(at_deadline="_TIMED_OUT"):
            return call(state.client, seconds)

    def position(self, partitions: Any) -> list[TopicPartition]:
        """Find the offset after the last record that was returned.

        Args:
            partitions: A list of TopicPartition.

        Returns: The partitions with their offsets; OFFSET_INVALID where no record was returned.
        """
        state = self.__open()
        wanted = partition_list(partitions)
        for at in wanted:
            at.offset, at.leader_epoch = state.position((at.topic, at.partition))
            at.error = None
        return wanted

    def seek(self, partition: Any) -> None:
        """Continue a partition at an offset.

        Args:
            partition: A TopicPartition with the offset.
        """
        state = self.__open()
        if not isinstance(partition, TopicPartition):
            raise TypeError("expected TopicPartition")
        pair = (partition.topic, partition.partition)
        failed = f"Failed to seek to offset {partition.offset}"
        if pair not in state.pairs():
            raise failure("_UNKNOWN_PARTITION", f"{failed}: Local: Unknown partition")
        if state.client is None:
            raise failure("_STATE", f"{failed}: Local: Erroneous state")
        with raised():
            state.discard([pair], rewind=False)
            state.start([partition])

    def pause(self, partitions: Any) -> None:
        """Return no records of partitions until resume.

        Args:
            partitions: A list of TopicPartition.
        """
        state = self.__open()
        known = set(state.pairs())
        pairs = [(at.topic, at.partition) for at in partition_list(partitions)]
        pairs = [pair for pair in pairs if pair in known]
        with raised():
            state.discard(pairs, rewind=True)
            if state.client is not None:
                state.client.pause(pairs)

    def resume(self, partitions: Any) -> None:
        """Return records of partitions again.

        Args:
            partitions: A list of TopicPartition.
        """
        state = self.__open()
        known = set(state.pairs())
        pairs = [(at.topic, at.partition) for at in partition_list(partitions)]
        with raised():
            if state.client is not None:
                state.client.resume([pair for pair in pairs if pair in known])

    def get_watermark_offsets(self, partition: Any, timeout: float | None = -1, cached: bool = False) -> Any:
        """Find the first offset and the one after the last record.

        Args:
            partition: A TopicPartition.
            timeout: Seconds to wait at most; negative or None waits without end.
            cached: Whether to return what is known of an assigned partition: OFFSET_INVALID if nothing is.

        Returns: Both offsets, or None when the time is up.
        """
        state = self.__open()
        if not isinstance(partition, TopicPartition):
            raise TypeError("expected TopicPartition")
        pair = (partition.topic, partition.partition)
        if cached:
            return state.watermarks.of(pair, state.pairs())

        def ask(client: ottla.Consumer, seconds: float) -> tuple[int, int]:
            first = client.beginning_offsets([pair], seconds)[pair]  # type: ignore[index]
            return first, client.end_offsets([pair], seconds)[pair]  # type: ignore[index]

        return self.__ask("Failed to get watermark offsets", timeout, ask, state)

    def offsets_for_times(self, partitions: Any, timeout: float | None = -1) -> list[TopicPartition]:
        """Find the first offset of each partition at or after a time.

        Args:
            partitions: A list of TopicPartition with milliseconds since 1970 UTC as offsets.
            timeout: Seconds to wait at most; negative or None waits without end.

        Returns: The partitions with their offsets; OFFSET_END where no record is that new.
        """
        state = self.__open()
        wanted = partition_list(partitions)
        times = {(at.topic, at.partition): at.offset for at in wanted}
        found = self.__ask("Failed to get offsets", timeout, lambda c, s: c.offsets_for_times(times, s), state)
        made = []
        for pair in times:
            at = found.get(pair)
            made.append(TopicPartition(*pair, OFFSET_END if at is None else at.offset))
        return made

    def memberid(self) -> str | None:
        """Return the id of the member in its group.

        Returns: The id. With the classic protocol it is None before the first assignment. With the consumer protocol
            the consumer has it before it joins (KIP-1082).
        """
        state = self.__open()
        if state.client is None:
            return None
        if state.config.properties.get("group.protocol") == "consumer":
            return state.client._core.member_id()
        return self.__metadata().member_id or None

    def consumer_group_metadata(self) -> GroupMetadata:
        """Return what send_offsets_to_transaction takes.

        Returns: A value to hand on.
        """
        return GroupMetadata(self.__metadata())

    def __metadata(self) -> ottla.GroupMetadata:
        """Return who the consumer is in its group.

        Returns: ottla's value.
        """
        state = self.__open()
        found = None if state.client is None else state.client.group_metadata()
        return found or ottla.GroupMetadata(state.config.properties["group.id"], -1, "", None)

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

    def close(self, *_: Never) -> None:
        """Commit what is stored, leave the group, and disconnect. Closing twice does no harm.

        Raises:
            KafkaException: The group could not be left.
        """
        state = self.__state
        if state is None:
            return
        state.cluster.callbacks.close()
        try:
            state.offsets.last_commit()
            if state.client is not None:
                with raised():
                    state.client.close(_CLOSE)
            state.offsets.serve()
            state.cluster.callbacks.serve()
        finally:
            # Listeners that the close calls may use the consumer.
            self.__state = None
            state.inbox.clear()
            state.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Consumer.__module__ = "confluent_kafka.cimpl"
