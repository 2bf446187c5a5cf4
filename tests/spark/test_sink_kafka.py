"""Writes to real Kafka, beside those of Spark's own sink: same records, same partitions; and faults."""

import threading
import time
import uuid

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from tests.brokers.running import running
from tests.integration.conftest import SHORT_SESSIONS
from tests.integration.peers.confluent import Confluent
from tests.waiting import check_time

from ottla.spark import register

pytestmark = [pytest.mark.needs("java", "mvn"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    config = {"auto.create.topics.enable": "false", **SHORT_SESSIONS}
    with running(tmp_path_factory.mktemp("kafka"), grace=1.0, config=config) as cluster:
        yield cluster


@pytest.fixture
def bootstrap(kafka):
    return kafka.st["bootstrap"]["PLAINTEXT"]


@pytest.fixture
def topic(bootstrap):
    """Makes topics: `topic(partitions, property=...)`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(partitions, **config):
        name = f"sink-{uuid.uuid4().hex[:8]}"
        config = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([new])[name].result(30)
        return name

    return make


def write(frame, sink, bootstrap, topic=None, **options):
    given = {"kafka.bootstrap.servers": bootstrap, **({"topic": topic} if topic else {}), **options}
    frame.write.format(sink).options(**given).mode("append").save()


def records(bootstrap, topic):
    """A topic's records: partition, key, value, headers; sorted."""
    partitions = len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, 30).topics[topic].partitions)
    found = Confluent().consume_all(bootstrap, topic, partitions)
    return sorted(((each.partition, each.key, each.value, list(each.headers)) for each in found), key=repr)


def test_the_same_rows_become_the_same_records(spark, bootstrap, topic):
    """Every column at once: keys, nulls, texts beyond ASCII, headers, partitions."""
    keyed = spark.range(0, 600, 1, 3).select(
        f.expr("concat('key-', id % 97)").alias("key"),
        f.expr("if(id % 11 = 0, null, concat('wert-', id, '-é'))").alias("value"),
        f.expr(
            "if(id % 3 = 0, null, array(named_struct('key', 'h', 'value', binary(cast(id as string))), "
            "named_struct('key', 'n', 'value', cast(null as binary))))"
        ).alias("headers"),
        f.expr("if(id % 7 = 0, cast(id % 5 as int), null)").alias("partition"),
        f.lit(1.5).alias("other"),
    )
    binary = spark.range(300).selectExpr(
        "cast(repeat(cast(id as string), id % 9) as binary) key", "binary(cast(id as string)) value"
    )
    got = {}
    for sink in ("ottla", "kafka"):
        name = topic(5)
        write(keyed, sink, bootstrap, name)
        write(binary, sink, bootstrap, name)
        got[sink] = records(bootstrap, name)
    assert len(got["kafka"]) == 900
    assert got["ottla"] == got["kafka"]


def test_rows_without_keys_are_the_same_but_for_their_partitions(spark, bootstrap, topic):
    frame = spark.range(500).selectExpr(
        "cast(id as string) value", "array(named_struct('key', 'h', 'value', binary('x'))) headers"
    )
    got = {}
    for sink in ("ottla", "kafka"):
        name = topic(3)
        write(frame, sink, bootstrap, name)
        got[sink] = sorted(record[1:] for record in records(bootstrap, name))
    assert len(got["kafka"]) == 500
    assert got["ottla"] == got["kafka"]


def test_rows_go_to_the_same_topics(spark, bootstrap, topic):
    one, two = topic(2), topic(2)
    frame = spark.range(200).selectExpr(
        "cast(id as string) key", "cast(id as string) value", f"if(id % 3 = 0, '{one}', '{two}') topic"
    )
    got = {}
    for sink in ("ottla", "kafka"):
        write(frame, sink, bootstrap)
        got[sink] = [records(bootstrap, name) for name in (one, two)]
    # The second write doubles what the first wrote, in the same partitions.
    for ours, both in zip(got["ottla"], got["kafka"], strict=True):
        assert sorted(ours * 2, key=repr) == both


@pytest.mark.parametrize(
    ("columns", "options", "word"),
    [
        (["value"], {}, "topic"),
        (["key"], {"topic": "t"}, "value"),
        (["value", "1 AS key"], {"topic": "t"}, "key"),
        (["1 AS value"], {"topic": "t"}, "value"),
        (["value", "null AS key"], {"topic": "t"}, "key"),
        (["value", "1L AS partition"], {"topic": "t"}, "partition"),
        (["value", "map('a', binary('b')) AS headers"], {"topic": "t"}, "headers"),
        (["value", "array(struct('a' AS name, binary('b') AS value)) AS headers"], {"topic": "t"}, "headers"),
        (["value", "binary('t') AS topic"], {}, "topic"),
        (["value"], {"topic": "t", "kafka.key.serializer": "x"}, "key.serializer"),
        (["value"], {"topic": "t", "kafka.acks": "most"}, "acks"),
        (["value", "if(key = '0', null, 't') AS topic"], {}, "topic"),
    ],
)
def test_what_one_sink_refuses_the_other_refuses_too(spark, bootstrap, columns, options, word):
    frame = spark.range(1).selectExpr("cast(id as string) key", "cast(id as string) value").selectExpr(*columns)
    for sink in ("kafka", "ottla"):
        # Some refusals of the JVM's are not told as PySpark's own errors.
        with pytest.raises(Exception, match=word):
            write(frame, sink, bootstrap, **options)


def test_a_topic_that_is_not_there_is_named(spark, bootstrap):
    with pytest.raises(PySparkException, match="(?s)NotFoundError.*topic absent"):
        write(spark.sql("select 'v' value"), "ottla", bootstrap, "absent", **{"kafka.max.block.ms": "5000"})


def test_a_record_that_the_broker_refuses_is_named(spark, bootstrap, topic):
    name = topic(1, max_message_bytes="1000")
    frame = spark.range(0, 10, 1, 1).selectExpr("cast(id as string) key", "if(id = 7, repeat('x', 5000), 'v') value")
    with pytest.raises(PySparkException) as raised:
        write(frame, "ottla", bootstrap, name)
    said = str(raised.value)
    assert "TooLargeError" in said
    assert "MESSAGE_TOO_LARGE" in said
    assert name in said
    assert "the record with the key '7'" in said


def test_nothing_is_lost_when_the_broker_restarts_in_the_middle(spark, kafka, bootstrap, topic, tmp_path):
    name = topic(3)
    killed = tmp_path / "killed"

    def held_until_the_broker_is_killed(n):
        end = time.monotonic() + 60
        while n % 2000 >= 1000 and not killed.exists() and time.monotonic() < end:
            time.sleep(0.01)
        # Spark hands rows on once it has some of their bytes.
        return str(n).zfill(1000)

    slow = f.udf(held_until_the_broker_is_killed)
    frame = spark.range(0, 4000, 1, 2).select(slow("id").alias("value"), f.col("id").cast("string").alias("key"))
    failures = []

    def run():
        try:
            # Spark finds no data source in Python from a thread that knows no session.
            register(spark)
            write(frame, "ottla", bootstrap, name)
        except Exception as error:
            failures.append(error)

    writer = threading.Thread(target=run)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        writer.start()
        deadline = time.monotonic() + 60
        while not records(bootstrap, name):
            assert writer.is_alive(), f"the write ended early: {failures}"
            check_time(deadline, "the write did not begin")
        kafka.kill("node1")
        assert writer.is_alive(), "the write ended before the broker did"
        killed.touch()
        kafka.restart(1)
        writer.join(120)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert not writer.is_alive()
    assert failures == []
    # Exactly once, since no task was repeated and the producer is idempotent.
    assert sorted(int(value) for _, _, value, _ in records(bootstrap, name)) == list(range(4000))
