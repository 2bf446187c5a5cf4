"""kafka-python: pure Python, blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.integration.messages import Message
from tests.integration.peers.base import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Sequence


def _message(m: Any) -> Message:
    return Message(m.key, m.value, tuple(m.headers), m.timestamp, m.partition, m.offset)


class KafkaPython:
    """See `Peer`."""

    name = "kafka-python"

    def as_written(self, message: Message) -> Message | None:
        # Its API asks for a key or a value, and for bytes in every header.
        refused = (message.key is None and message.value is None) or any(v is None for _, v in message.headers)
        return None if refused else message

    def produce(self, bootstrap: str, topic: str, codec: str, messages: Sequence[Message]) -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=50,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=m.value,
                    key=m.key,
                    headers=list(m.headers),
                    partition=m.partition,
                    timestamp_ms=m.timestamp,
                )
                for m in messages
            ]
            for future in sent:
                future.get(DEADLINE)
        finally:
            producer.close(timeout=DEADLINE)

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Message]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        out: list[Message] = []
        try:
            consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
            consumer.seek_to_beginning()
            for _ in until(DEADLINE, f"{count} messages"):
                out += [_message(m) for ms in consumer.poll(timeout_ms=200).values() for m in ms]
                if len(out) >= count:
                    break
        finally:
            consumer.close()
        return out

    def member(self, bootstrap: str, topic: str, group: str) -> KafkaPythonMember:
        return KafkaPythonMember(bootstrap, topic, group)


class KafkaPythonMember:
    """See `Member`."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10000,
            heartbeat_interval_ms=500,
        )
        # As leader of its group it might assign before it knows the topic.
        self.consumer.partitions_for_topic(topic)
        self.consumer.subscribe([topic])

    def poll(self) -> list[Message]:
        # A poll shorter than the other members' heartbeat may give up joining, and then lose the answer.
        out = [_message(m) for ms in self.consumer.poll(timeout_ms=1000).values() for m in ms]
        if out:
            self.consumer.commit()
        return out

    def assignment(self) -> set[int]:
        return {p.partition for p in self.consumer.assignment()}

    def close(self) -> list[Message]:
        self.consumer.close()
        return []
