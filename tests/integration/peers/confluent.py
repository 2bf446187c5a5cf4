"""confluent-kafka: librdkafka behind Python."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.integration.messages import Message
from tests.integration.peers.base import DEADLINE, SLOW, until

if TYPE_CHECKING:
    from collections.abc import Sequence


def _message(m: Any) -> Message:
    if m.error():
        raise AssertionError(f"confluent-kafka: {m.error()}")
    headers = tuple((k, v) for k, v in m.headers() or ())
    return Message(m.key(), m.value(), headers, m.timestamp()[1], m.partition(), m.offset())


# What a partition whose leader has just moved is answered with; the first: its followers have not asked yet (KIP-207).
_MOVING = {
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._TRANSPORT,
}


def _watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """A partition's first offset and its end; a leader may move meanwhile."""
    tries = until(DEADLINE, f"a leader that knows the end of {partition.topic}-{partition.partition}")
    while True:
        next(tries)
        try:
            low, high = consumer.get_watermark_offsets(partition, DEADLINE)
        except KafkaException as error:
            if error.args[0].code() not in _MOVING:
                raise
            time.sleep(0.1)
        else:
            return low, high


class Confluent:
    """See `Peer`."""

    name = "confluent-kafka"

    def as_written(self, message: Message) -> Message | None:
        return message

    def produce(self, bootstrap: str, topic: str, codec: str, messages: Sequence[Message]) -> None:
        failed: list[str] = []
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.codec": codec,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            }
        )
        for m in messages:
            producer.produce(
                topic,
                value=m.value,
                key=m.key,
                partition=-1 if m.partition is None else m.partition,
                timestamp=m.timestamp or 0,
                headers=list(m.headers),
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        left = producer.flush(DEADLINE)
        assert not failed, f"confluent-kafka: {failed}"
        assert left == 0, f"confluent-kafka: {left} messages not delivered"

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Message]:
        # It wants a group, and when it closes it would wait without a limit for one to take its commits.
        group = {"group.id": "unused", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": bootstrap, "check.crcs": True, **group})
        out: list[Message] = []
        try:
            consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
            for _ in until(DEADLINE, f"{count} messages"):
                out += [_message(m) for m in consumer.consume(count - len(out), 0.2)]
                if len(out) >= count:
                    break
        finally:
            consumer.close()
        return out

    def consume_all(self, bootstrap: str, topic: str, partitions: int) -> list[Message]:
        """Every message of the topic, in the order of each partition; the ends are those that this client is told."""
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
        try:
            marks = [_watermarks(consumer, TopicPartition(topic, p)) for p in range(partitions)]
        finally:
            consumer.close()
        return self.consume(bootstrap, topic, partitions, sum(high - low for low, high in marks))

    def consume_committed(self, bootstrap: str, topic: str, partitions: int, about: int = 0) -> list[Message]:
        """Every message of a transaction that was committed, in the order of each partition; `about` says how many these may be."""
        whole = {"isolation.level": "read_committed", "enable.partition.eof": True}
        group = {"group.id": "unused", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": bootstrap, **whole, **group})
        out, ended = [], set()
        try:
            consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
            for _ in until(DEADLINE + about / SLOW, f"the end of {topic}"):
                for m in consumer.consume(10_000, 0.2):
                    error = m.error()
                    if error and error.code() == KafkaError._PARTITION_EOF:
                        ended.add(m.partition())
                    else:
                        out.append(_message(m))
                if len(ended) == partitions:
                    break
        finally:
            consumer.close()
        return out

    def member(self, bootstrap: str, topic: str, group: str) -> ConfluentMember:
        return ConfluentMember(bootstrap, topic, group)


class ConfluentMember:
    """See `Member`."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10000,
                "heartbeat.interval.ms": 500,
            }
        )
        self.consumer.subscribe([topic])

    def poll(self) -> list[Message]:
        out = [_message(m) for m in self.consumer.consume(500, 0.2)]
        if out:
            self.consumer.commit(asynchronous=False)
        return out

    def assignment(self) -> set[int]:
        return {p.partition for p in self.consumer.assignment()}

    def close(self) -> list[Message]:
        self.consumer.close()
        return []
