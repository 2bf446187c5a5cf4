"""What a real broker refuses, and how ottla says so: the cause, the topic, the code, within a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import ottla
from tests.integration.conftest import REAL
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [REAL, pytest.mark.timeout(60)]
CODES = {"UNKNOWN_TOPIC_OR_PARTITION": 3, "MESSAGE_TOO_LARGE": 10, "TOPIC_ALREADY_EXISTS": 36, "INVALID_TIMESTAMP": 32}


def test_sending_to_an_unknown_topic(kafka: str) -> None:
    start = time.monotonic()
    with (
        ottla.Producer(
            kafka, delivery_timeout_ms=3000, request_timeout_ms=1000, linger_ms=0, max_block_ms=3000
        ) as producer,
        pytest.raises(ottla.errors.KafkaError, match="no-such-topic") as caught,
    ):
        producer.send("no-such-topic", b"v").result(10)
    assert time.monotonic() - start < 20
    assert caught.value.code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def test_reading_an_unknown_topic(kafka: str) -> None:
    with ottla.Consumer(kafka) as consumer:
        consumer.assign([ottla.TopicPartition("no-such-topic", 0, 0)])
        with pytest.raises(ottla.errors.KafkaError, match="no-such-topic"):
            consumer.poll(10)


def test_a_record_above_the_topics_limit(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 1, {"max.message.bytes": "1000"})
    with ottla.Producer(kafka, linger_ms=0) as producer:
        with pytest.raises(ottla.errors.KafkaError, match=topic) as caught:
            producer.send(topic, b"x" * 2000).result(20)
        assert caught.value.code == CODES["MESSAGE_TOO_LARGE"]
        assert not caught.value.retriable
        assert producer.send(topic, b"small").result(10).offset == 0  # the producer goes on


def test_small_records_in_a_batch_above_the_topics_limit(kafka: str, new_topic: Callable[..., str]) -> None:
    """The broker refuses the batch; split, it fits, as the Java client does it."""
    topic = new_topic(kafka, 1, {"max.message.bytes": "1000"})
    with ottla.Producer(kafka, linger_ms=100) as producer:
        sent = [producer.send(topic, b"x" * 100) for _ in range(50)]
        assert [d.result(20).offset for d in sent] == list(range(50))


def test_a_timestamp_that_the_broker_refuses(kafka: str, new_topic: Callable[..., str]) -> None:
    """Kafka takes no timestamps more than an hour ahead, unless told to."""
    topic = new_topic(kafka)
    ahead = int(time.time() * 1000) + 7_200_000
    with ottla.Producer(kafka, linger_ms=0) as producer:
        with pytest.raises(ottla.errors.KafkaError, match=topic) as caught:
            producer.send(topic, b"v", timestamp=ahead).result(20)
        assert caught.value.code == CODES["INVALID_TIMESTAMP"]


def test_topics_by_admin(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 5)
    with ottla.Admin(kafka) as admin:
        with pytest.raises(ottla.errors.KafkaError, match=topic) as caught:
            admin.create_topics([ottla.NewTopic(topic, 1, 1)])
        assert caught.value.code == CODES["TOPIC_ALREADY_EXISTS"]
        assert topic in admin.list_topics()
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), f"{topic} is gone")


def test_offsets_out_of_range(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    with ottla.Producer(kafka) as producer:
        producer.send(topic, b"only").result(10)
    partition = ottla.TopicPartition(topic, 0, 1000)
    with ottla.Consumer(kafka, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        assert [r.value for r in consumer.poll(10)] == [b"only"]
    with ottla.Consumer(kafka, auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        with pytest.raises(ottla.errors.KafkaError, match=topic):
            consumer.poll(10)
