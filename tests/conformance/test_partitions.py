"""Keys go to the partitions that Java's producer and librdkafka choose."""

from __future__ import annotations

import random

import confluent_kafka
import pyarrow as pa
import pytest

import ottla
from ottla.testing import Broker
from tests.conformance.kafka import NEWEST, needs_kafka, run

SEED = 17
JAVA_KEYS, RDKAFKA_KEYS = 100_000, 20_000
# A prime, so that every bit of a hash counts.
PARTITIONS = 97
PATIENCE = 60


def keys(count):
    """Random keys of 0 to 64 bytes; one in fifty is null."""
    chance = random.Random(SEED)
    lengths = [chance.randint(0, 64) for _ in range(count)]
    made = [chance.randbytes(length) if chance.random() > 0.02 else None for length in lengths]
    assert b"" in made
    assert None in made
    return made


@pytest.fixture(scope="module")
def address():
    with Broker(config={"num.partitions": PARTITIONS}) as broker:
        yield broker.bootstrap_servers


def ours(address, topic, keys, **options):
    """The partition of each key."""
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array([b""] * len(keys))})
    with ottla.Producer(address, **options) as producer:
        partitions, _ = producer.send_arrow(topic, table).result(PATIENCE)
    return list(partitions)


@needs_kafka
def test_keys_go_where_javas_producer_puts_them(address):
    given = keys(JAVA_KEYS)
    went = ours(address, "as-java", given)
    keyed = [(key, partition) for key, partition in zip(given, went, strict=True) if key is not None]
    theirs = run(NEWEST, "PartitionOracle", PARTITIONS, lines=(key.hex() for key, _ in keyed)).split()
    assert len(keyed) > 0.9 * JAVA_KEYS
    assert [partition for _, partition in keyed] == [int(partition) for partition in theirs]
    assert len(set(went)) == PARTITIONS


def theirs(address, topic, keys, partitioner):
    """The partition to which librdkafka sends each key."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "partitioner": partitioner, "queue.buffering.max.messages": len(keys)}
    )
    for row, key in enumerate(keys):
        producer.produce(topic, str(row), key=key)
    assert producer.flush(PATIENCE) == 0
    found = {}
    with ottla.Consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        while len(found) < len(keys):
            batch = consumer.poll(PATIENCE).to_arrow()
            assert batch.num_rows
            found |= zip(batch["value"].to_pylist(), batch["partition"].to_pylist(), strict=True)
    return [found[str(row).encode()] for row in range(len(keys))]


@pytest.mark.parametrize(
    ("partitioner", "places"),
    [
        ("consistent", lambda key: True),
        ("consistent_random", bool),
        ("murmur2", lambda key: True),
        ("murmur2_random", lambda key: key is not None),
        ("fnv1a", lambda key: True),
        ("fnv1a_random", lambda key: key is not None),
    ],
)
def test_keys_go_where_librdkafka_puts_them(address, partitioner, places):
    given = keys(RDKAFKA_KEYS)
    rows = [row for row, key in enumerate(given) if places(key)]
    mine = ours(address, f"mine-{partitioner}", given, partitioner=partitioner)
    other = theirs(address, f"theirs-{partitioner}", given, partitioner)
    assert [mine[row] for row in rows] == [other[row] for row in rows]
    assert len(rows) > 0.9 * len(given)
    assert len(set(mine)) == PARTITIONS
