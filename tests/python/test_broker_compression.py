"""What the embedded broker stores batches with: the topic's `compression.type`, as the bytes of its log show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors, protocol
from ottla.testing import Broker
from tests.python.conftest import PATIENCE
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
VALUES = [b"value %d" % number * 20 for number in range(10)]
HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def create(broker: Broker, topic: str, **config: Any) -> None:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        admin.create_topics([ottla.NewTopic(topic, partitions=1, config=settings)])


def write(broker: Broker, topic: str, codec: Any, **properties: Any) -> None:
    """Writes one batch."""
    with ottla.Producer(broker.bootstrap_servers, compression_type=codec, linger_ms=20_000, **properties) as producer:
        if "transactional_id" in properties:
            producer.begin_transaction()
        sent = producer.send_many(topic, VALUES, keys=b"k", timestamps=list(range(1000, 1010)), headers=HEADERS)
        producer.flush(PATIENCE)
        sent.result(PATIENCE)
        if "transactional_id" in properties:
            producer.commit_transaction()


def batches(broker: Broker, topic: str) -> list[protocol.RecordBatch]:
    """The batches of partition 0, in the bytes of the log."""
    connection = Connection(broker.bootstrap_servers)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    request = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    response = connection.ask("Fetch", 12, request)
    connection.socket.close()
    records = response["responses"][0]["partitions"][0]["records"]
    return protocol.decode_records(records)


def values(broker: Broker, topic: str) -> list[tuple[bytes | None, int, list[tuple[str, bytes | None]]]]:
    with ottla.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found = list(consumer.poll(PATIENCE))
    return [(record.value, record.timestamp, list(record.headers)) for record in found]


@pytest.mark.parametrize("sent", CODECS)
@pytest.mark.parametrize("stored", ["producer", "uncompressed", *CODECS[1:]])
def test_batches_are_stored_as_the_topic_says(broker: Broker, stored: str, sent: str) -> None:
    topic = f"{stored}-{sent}"
    create(broker, topic, compression_type=stored)
    write(broker, topic, sent)
    wanted = {"producer": sent, "uncompressed": "none"}.get(stored, stored)
    (batch,) = batches(broker, topic)
    assert batch.compression == wanted
    assert (batch.base_offset, batch.last_offset) == (0, 9)
    expected = [(value, 1000 + number, HEADERS) for number, value in enumerate(VALUES)]
    assert values(broker, topic) == expected


def test_what_a_batch_says_of_its_producer_and_its_times_stays(broker: Broker) -> None:
    create(broker, "kept", compression_type="zstd", message_timestamp_type="LogAppendTime")
    write(broker, "kept", "gzip", transactional_id="tx")
    batch = batches(broker, "kept")[0]
    assert batch.compression == "zstd"
    assert batch.transactional
    assert (batch.producer_epoch, batch.base_sequence) == (0, 0)
    assert batch.timestamp_type == "append"


def test_topics_inherit_the_brokers_setting() -> None:
    with Broker(config={"compression.type": "lz4"}) as broker:
        create(broker, "inherits")
        create(broker, "own", compression_type="producer")
        for topic in ("inherits", "own"):
            write(broker, topic, "gzip")
        assert [batch.compression for batch in batches(broker, "inherits")] == ["lz4"]
        assert [batch.compression for batch in batches(broker, "own")] == ["gzip"]
        with pytest.raises(errors.KafkaError, match="uncompressed"):
            create(broker, "none", compression_type="none")


def test_a_batch_that_is_too_large_once_it_is_stored_is_refused(broker: Broker) -> None:
    create(broker, "large", compression_type="uncompressed", max_message_bytes=1000)
    with ottla.Producer(broker.bootstrap_servers, compression_type="gzip") as producer:
        sent = producer.send("large", b"a" * 5000)
        with pytest.raises(errors.KafkaError) as caught:
            sent.result(PATIENCE)
    assert caught.value.name == "MESSAGE_TOO_LARGE"
