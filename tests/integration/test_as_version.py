"""The embedded broker as other releases of Kafka, with our clients and foreign ones."""

from __future__ import annotations

import contextlib

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

import ottla
import ottla.errors
import ottla.testing
from tests.pace import patience

RELEASES = ["0.8.2", "0.9.0", "0.10.0", "0.10.2", "0.11.0", "1.1", "2.3", "2.8", "3.9", "4.0", "4.4"]
VALUES = [b"one", b"two", b"three"]
CODECS = ["none", "gzip", "snappy", "lz4"]


def read(broker: ottla.testing.Broker, count: int) -> list[bytes | None]:
    with ottla.Consumer(broker.bootstrap_servers, api_version_request_timeout_ms=500) as consumer:
        consumer.assign([ottla.TopicPartition("t", 0, 0)])
        values: list[bytes | None] = []
        while len(values) < count:
            values += [record.value for record in consumer.poll(20)]
        return values


def write(broker: ottla.testing.Broker, codec: str = "none") -> None:
    with ottla.Producer(
        broker.bootstrap_servers, api_version_request_timeout_ms=500, compression_type=codec
    ) as producer:
        for value in VALUES:
            producer.send("t", value)


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_keeps_what_it_is_given(release: str) -> None:
    with ottla.testing.Broker(as_version=release, topics=["t"]) as broker:
        for codec in CODECS:
            write(broker, codec)
        values = VALUES * len(CODECS)
        assert read(broker, len(values)) == values


@pytest.mark.parametrize("release", ["0.10.0", "0.10.2", "0.11.0", "2.8", "4.4"])
@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_and_writes(release: str, codec: str) -> None:
    with ottla.testing.Broker(as_version=release, topics=["t"]) as broker:
        write(broker, codec)
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        producer = ConfluentProducer({**servers, "compression.type": codec, "linger.ms": 50})
        for value in VALUES:
            producer.produce("t", value)
        assert producer.flush(20) == 0
        consumer = ConfluentConsumer({**servers, "group.id": "g"})
        try:
            consumer.assign([ConfluentPartition("t", 0, 0)])
            got = consumer.consume(2 * len(VALUES), timeout=20)
        finally:
            consumer.close()
        assert [message.error() for message in got] == [None] * len(got)
        assert [message.value() for message in got] == VALUES * 2
        assert read(broker, 6) == VALUES * 2


@pytest.mark.parametrize(("release", "version"), [("0.8.2", (0, 8, 2)), ("0.9.0", (0, 9)), ("0.10.0", (0, 10))])
def test_kafka_python_of_old_reads_and_writes(release: str, version: tuple[int, ...]) -> None:
    with ottla.testing.Broker(as_version=release, topics=["t"]) as broker:
        write(broker, "gzip")
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, api_version=version)
        try:
            for value in VALUES:
                producer.send("t", value).get(20)
        finally:
            producer.close(10)
        consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            api_version=version,
            # It waits as long as this after the last record, too.
            consumer_timeout_ms=int(patience(6000)),
            group_id=None,
        )
        try:
            consumer.assign([PythonPartition("t", 0)])
            consumer.seek_to_beginning()
            assert [record.value for record in consumer] == VALUES * 2
        finally:
            consumer.close()


@pytest.mark.parametrize("release", ["0.8.2", "2.8"])
def test_kafka_python_of_old_goes_on_where_it_committed_in_zookeeper(release: str) -> None:
    """Version (0, 8, 1) of kafka-python commits by version 0 of the APIs, as long as brokers take it."""
    with ottla.testing.Broker(as_version=release, topics=["t"]) as broker:
        write(broker)

        def consumer() -> KafkaConsumer:
            made = KafkaConsumer(
                bootstrap_servers=broker.bootstrap_servers,
                api_version=(0, 8, 1),
                group_id="g",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                consumer_timeout_ms=60_000,
            )
            made.assign([PythonPartition("t", 0)])
            return made

        with contextlib.closing(consumer()) as first:
            assert next(first).value == VALUES[0]
            first.commit()
        with contextlib.closing(consumer()) as second:
            assert second.committed(PythonPartition("t", 0)) == 1
            assert next(second).value == VALUES[1]


def test_a_release_that_is_not_there_is_named() -> None:
    with pytest.raises(ottla.errors.ConfigError, match=r'"2\.80".*2\.8, 3\.9'):
        ottla.testing.Broker(as_version="2.80").start()
