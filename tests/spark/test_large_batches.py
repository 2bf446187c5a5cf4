"""Record batches with many bytes, of which Spark's JVM gets a part at a time."""

import uuid

import pytest
from tests.spark.conftest import close_clients

import ottla
from ottla.spark.read import range_reader
from ottla.spark.source import OttlaDataSource

SIZE, RECORDS = 100_000, 50


@pytest.fixture
def reader(broker):
    """A reader of one topic, whose values shrink to nothing, so that a record batch has many of them."""
    name = f"large-{uuid.uuid4().hex[:8]}"
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=1)])
    with ottla.Producer(broker.bootstrap_servers, compression_type="zstd", linger_ms=1000) as producer:
        producer.send_many(name, [bytes(SIZE)] * RECORDS).result(60)
    source = OttlaDataSource({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": name})
    yield source.reader(source.schema())
    close_clients()


def test_spark_gets_them_in_parts(reader, monkeypatch):
    monkeypatch.setattr(range_reader, "BATCH_BYTES", SIZE * 5 // 2)
    [part] = reader.partitions()
    batches = list(reader.read(part))
    assert max(batch.num_rows for batch in batches) == 2
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(RECORDS))
    assert all(value == bytes(SIZE) for batch in batches for value in batch["value"].to_pylist())
