"""Typed columns, dead letters and groups on real Kafka; records are written and read by foreign clients."""

import json
import time
import uuid

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.brokers.shared import shared
from tests.python.decoding import FakeRegistry

from .conftest import done, run_stream

pytestmark = [
    pytest.mark.needs("java", "mvn"),
    pytest.mark.timeout(240),
    # Foreign clients leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory):
    with shared(tmp_path_factory.mktemp("kafka"), "4.4.0") as cluster:
        yield cluster.st["bootstrap"]["PLAINTEXT"]


@pytest.fixture
def topic(bootstrap):
    """Makes topics with values in partition 0, written by another client."""

    def make(values=()):
        name = f"typed-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        done(admin.create_topics([NewTopic(name, 1, 1)]))
        write(bootstrap, name, values)
        return name

    return make


def write(bootstrap, topic, values):
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def read_all(bootstrap, topic, count):
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found, deadline = [], time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count, 0.5)
    consumer.close()
    return found


def commit(bootstrap, group, topic, offset):
    """Commit as another client does, when the broker has found itself as the group's coordinator."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    deadline = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, offset)], asynchronous=False)
            break
        except confluent_kafka.KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    consumer.close()


def committed(bootstrap, group, topic):
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (at,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], 20)
    consumer.close()
    return at.offset


def test_a_stream_from_a_group_to_typed_rows_and_dead_letters(spark, bootstrap, topic, tmp_path):
    values = [b'{"n":%d}' % n if n % 10 else b'{"n":"%d"}' % n for n in range(100)]
    name, dead = topic(values), topic()
    commit(bootstrap, name, name, 35)
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": name,
        "startingOffsets": f"group:{name}",
        "commitOffsetsToGroup": name,
        "value.format": "json",
        "value.schema": "n int",
        "value.flatten": "true",
        "columns": "value,offset",
        "deadLetterTopic": dead,
        "maxOffsetsPerTrigger": "40",
    }
    run_stream(spark, "ottla", tmp_path, options)
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    good = [n for n in range(35, 100) if n % 10]
    assert [(row.n, row.offset) for row in rows] == [(n, n) for n in good]
    letters = read_all(bootstrap, dead, 6)
    assert [letter.value() for letter in letters] == [values[n] for n in range(40, 100, 10)]
    headers = [dict(letter.headers()) for letter in letters]
    assert [told["__ottla.errors.offset"] for told in headers] == [b"%d" % n for n in range(40, 100, 10)]
    assert {told["__ottla.errors.column"] for told in headers} == {b"n"}
    assert committed(bootstrap, name, name) in (75, 100), "the last batch is told when the next one begins"


def test_what_confluent_s_serializer_writes_is_read(spark, bootstrap, topic):
    name = topic()
    registry = FakeRegistry()
    try:
        registry.add(f"{name}-value", json.dumps(SCHEMA))
        client = SchemaRegistryClient({"url": registry.url})
        settings = {"auto.register.schemas": False, "use.latest.version": True}
        serialize = AvroSerializer(client, json.dumps(SCHEMA), conf=settings)
        context = SerializationContext(name, MessageField.VALUE)
        written = [{"id": n, "note": None if n % 3 else f"n{n}"} for n in range(50)]
        write(bootstrap, name, [serialize(value, context) for value in written])
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": name, "value.format": "avro"}
        frame = spark.read.format("ottla").options(**options, **{"schema.registry.url": registry.url}).load()
        assert [row.asDict() for row in frame.orderBy("offset").select("value.*").collect()] == written
    finally:
        registry.close()
