"""A transport of kombu, and so of Celery, on share groups: queues are topics. Importing it makes `ottla://` URLs known.

Celery's workers share a queue record by record, so that there may be more of them than the topic has partitions.
"""

from __future__ import annotations

import contextlib
import json
from queue import Empty
from typing import Any, Literal

from kombu.transport import TRANSPORT_ALIASES, virtual

from ottla import NewTopic, Producer, ShareConsumer, __version__
from ottla.errors import AlreadyExistsError, KafkaError, UnsupportedError
from ottla.integrations.held_records import HeldRecords
from ottla.integrations.kombu_brokers import PORT, Brokers, topic_of
from ottla.integrations.kombu_qos import QoS

# Seconds of a poll while a worker has nothing to do, and of the wait for a group that begins.
WAIT, BEGIN = 0.5, 10.0

TRANSPORT_ALIASES["ottla"] = "ottla.integrations.kombu:Transport"


class Channel(virtual.Channel):  # type: ignore[misc]
    """A channel with a share consumer for each queue that it reads."""

    QoS = QoS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        client = self.connection.client
        self._options = client.transport_options
        self._brokers = Brokers(client)
        self._servers, self._config = self._brokers.servers, self._brokers.config
        self._consumers_of: dict[str, ShareConsumer] = {}
        self.held = HeldRecords()
        self._unacknowledged_queues: set[str] = set()
        self._cancelled: set[str] = set()
        self._producer: Producer | None = None

    def _consumer(self, queue: str) -> ShareConsumer:
        if queue not in self._consumers_of:
            options = {"share.acquire.mode": "record_limit", **self._config, **self._options.get("consumer", {})}
            self._consumers_of[queue] = ShareConsumer(
                self._servers,
                topics=topic_of(queue),
                config=options | {"share.acknowledgement.mode": "explicit", "max.poll.records": 1},
                group_id=self._options.get("group", "{queue}").format(queue=topic_of(queue)),
            )
        return self._consumers_of[queue]

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:  # noqa: ARG002 kombu never gives one
        consumer = self._consumer(queue)
        batch = consumer.poll(self._options.get("wait", WAIT) / max(1, len(self._active_queues)))
        if not len(batch):
            raise Empty
        record = batch[0]
        payload: dict[str, Any] = json.loads(record.value or b"{}")
        # Each delivery has a tag of its own.
        properties = payload["properties"]
        tag = properties["delivery_tag"] = f"{record.partition}-{record.offset}-{record.delivery_count}"
        properties["delivery_info"] |= {"delivery_count": record.delivery_count, "queue": queue}
        if (record.delivery_count or 1) > 1:
            payload["headers"]["redelivered"] = properties["delivery_info"]["redelivered"] = True
        self.held.hold(tag, consumer, record)
        if queue in self._unacknowledged_queues:
            self.held.settle(tag, "accept")
        return payload

    def settle(self, tag: str, kind: Literal["accept", "release", "reject"]) -> None:
        """Say what becomes of a message.

        Args:
            tag: The delivery tag.
            kind: As for `ShareConsumer.acknowledge`.
        """
        self.held.settle(tag, kind)
        self._leave_cancelled()

    def _leave_cancelled(self) -> None:
        """Leave the groups of queues that nobody reads: a member that does not poll keeps records from the others."""
        for queue in list(self._cancelled):
            consumer = self._consumers_of.get(queue)
            if consumer is None or not self.held.holds(consumer):
                self._cancelled.discard(queue)
                if consumer is not None:
                    self._consumers_of.pop(queue).close()

    def basic_cancel(self, consumer_tag: str) -> None:
        """Stop reading a queue.

        Its messages can still be acknowledged.
        """
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None and queue not in self._active_queues:
            self._cancelled.add(queue)
            self._leave_cancelled()

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        """Begin to read a queue."""
        self._cancelled.discard(queue)
        if no_ack:
            self._unacknowledged_queues.add(queue)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Read one message; None without one."""
        message = super().basic_get(queue, no_ack=no_ack, **kwargs)
        if message is not None and no_ack:
            self.settle(message.delivery_tag, "accept")
        return message

    def _put(self, queue: str, message: dict[str, Any], **_options: Any) -> None:
        if self._producer is None:
            config = {"linger.ms": 0, **self._config, **self._options.get("producer", {})}
            self._producer = Producer(self._servers, config=config)
        self._producer.send(topic_of(queue), json.dumps(message).encode()).result()

    def _new_queue(self, queue: str, **_options: Any) -> None:
        if self._has_queue(queue):
            return
        topic = NewTopic(topic_of(queue), **{"partitions": 1, **self._options.get("topic", {})})
        # Another process may create it at the same time.
        with self._brokers.admin() as admin, contextlib.suppress(AlreadyExistsError):
            admin.create_topics([topic])
        self._begin_group(queue)

    def _begin_group(self, queue: str) -> None:
        """Have the group begin at the start of its new topic. Otherwise it begins behind what was sent before it."""
        consumer = self._consumer(queue)
        for _ in range(int(BEGIN / 0.1)):
            consumer.poll(0.1)
            if consumer.assignment():
                consumer.poll(0.1)
                break
        if queue not in self._active_queues:
            self._consumers_of.pop(queue).close()

    def _has_queue(self, queue: str, **_options: Any) -> bool:
        with self._brokers.admin() as admin:
            return topic_of(queue) in admin.list_topics()

    def _delete(self, queue: str, *_arguments: Any, **_options: Any) -> None:
        with self._brokers.admin() as admin:
            admin.delete_topics([topic_of(queue)])

    def _purge(self, queue: str) -> int:
        raise UnsupportedError(
            f"queue {queue!r} cannot be purged: Kafka deletes records by retention. Delete the topic "
            f"{topic_of(queue)!r} to drop its messages"
        )

    def close(self) -> None:
        """Release what is not acknowledged, and disconnect."""
        super().close()
        self.held.close()
        for consumer in self._consumers_of.values():
            consumer.close()
        self._consumers_of.clear()
        if self._producer is not None:
            self._producer.close()
            self._producer = None


class Transport(virtual.Transport):  # type: ignore[misc]
    """kombu's transport. `transport_options` are described in docs/integrations/celery.md."""

    Channel = Channel
    default_port = PORT
    driver_type = "kafka"
    driver_name = "ottla"
    # A poll waits by itself.
    polling_interval = None
    connection_errors = (*virtual.Transport.connection_errors, KafkaError)

    def establish_connection(self) -> Any:
        """Connect to a broker.

        Raises:
            KafkaError: No broker responded in time.
        """
        # kombu tries all of its URLs within this time.
        urls = 1 + len(self.client.alt)
        Brokers(self.client).check(self.client.connect_timeout / urls if self.client.connect_timeout else None)
        return super().establish_connection()

    def driver_version(self) -> str:
        """The version of ottla."""
        return __version__
