"""Batch and stream writes by format("ottla"), to an embedded broker."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from tests.waiting import wait_for_end

import ottla
from ottla.spark import register
from ottla.testing import Broker

from .conftest import Topic
from .starts import begun
from .test_read import sentence

# Spark 4.0 and 4.1 leave sockets of theirs to the garbage collector.
SPARKS_SOCKETS = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings(SPARKS_SOCKETS)]


def write(frame, to, **options):
    """Write a DataFrame to a topic."""
    given = {"kafka.bootstrap.servers": to.bootstrap, "topic": to.name, **options}
    frame.write.format("ottla").options(**{k: v for k, v in given.items() if v is not None}).mode("append").save()


def written(topic):
    """A topic's records, partition by partition in the log's order, without Spark."""
    with ottla.Consumer(topic.bootstrap, topics=[topic.name], auto_offset_reset="earliest") as consumer:
        wanted = sum(
            consumer.end_offsets(
                [ottla.TopicPartition(topic.name, p) for p in consumer.partitions_for(topic.name)]
            ).values()
        )
        records = []
        while len(records) < wanted:
            records += consumer.poll(timeout=10)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def numbers(spark, count):
    return spark.range(count).select(f.col("id").cast("string").alias("key"), f.col("id").cast("string").alias("value"))


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_batch_writes_every_column(topic, spark, kind):
    t = topic(3)
    rows = [
        (b"k1", b"v1", [("h", b"x"), ("h", None)], 2),
        (None, b"v2", None, 1),
        (b"k3", None, [], 0),
        (b"", b"", None, None),
    ]
    schema = f"key {kind}, value {kind}, headers array<struct<key:string,value:binary>>, partition int"
    if kind == "string":
        rows = [(k and k.decode(), v and v.decode(), *rest) for k, v, *rest in rows]
        rows[3] = ("", "", None, None)
    write(spark.createDataFrame(rows, schema), t)
    got = {record.key: record for record in written(t)}
    assert len(got) == 4
    assert (got[b"k1"].value, got[b"k1"].partition, list(got[b"k1"].headers)) == (b"v1", 2, [("h", b"x"), ("h", None)])
    assert (got[None].value, got[None].partition, list(got[None].headers)) == (b"v2", 1, [])
    assert (got[b"k3"].value, got[b"k3"].partition, list(got[b"k3"].headers)) == (None, 0, [])
    assert got[b""].value == b""


def test_other_columns_are_left_out(topic, spark):
    source, t = topic(1), topic(1)
    before = datetime.now(UTC)
    with ottla.Producer(source.bootstrap) as producer:
        producer.send(source.name, b"v", timestamp=1_000).result(timeout=30)
    # As read: with offset, timestamp and timestampType. A record's time is that of the write, as by Spark's own sink.
    write(source.read(), t, topic=t.name)
    (record,) = written(t)
    assert record.timestamp >= before.timestamp() * 1000 - 1000


def test_rows_name_their_topics_and_keep_their_order(topic, spark):
    t, u = topic(1), topic(1)
    frame = spark.range(0, 2000, 1, 1).select(
        f.col("id").cast("string").alias("value"),
        f.when(f.col("id") % 3 == 0, t.name).otherwise(u.name).alias("topic"),
    )
    write(frame, t, topic=None)
    assert [int(record.value) for record in written(t)] == [n for n in range(2000) if n % 3 == 0]
    assert [int(record.value) for record in written(u)] == [n for n in range(2000) if n % 3]


def test_option_topic_wins_over_the_column(topic, spark):
    t = topic(1)
    write(numbers(spark, 10).withColumn("topic", f.lit("no-such-topic")), t)
    assert len(written(t)) == 10


def test_an_empty_frame_writes_nothing(topic, spark):
    t = topic(1)
    write(numbers(spark, 0), t)
    assert written(t) == []


def test_a_thread_of_its_own_writes_once_it_knows_the_session(topic, spark):
    t = topic(1)

    def run(known):
        if known:
            register(spark)
        write(numbers(spark, 10), t)

    with ThreadPoolExecutor(1) as thread:
        # Spark's own shortcoming: once it finds the source there, `register` need not promise it.
        with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
            thread.submit(run, known=False).result(60)
        thread.submit(run, known=True).result(60)
    assert len(written(t)) == 10


def stream(source, to, checkpoint, change=lambda frame: frame.select("key", "value"), mode="append"):
    """Run a query from topic to topic until it has caught up."""
    frame = source.spark.readStream.format("ottla").options(**source.options(startingOffsets="earliest")).load()
    writer = (
        change(frame)
        .writeStream.format("ottla")
        .options(**{"kafka.bootstrap.servers": to.bootstrap, "topic": to.name, "checkpointLocation": str(checkpoint)})
        .outputMode(mode)
        .queryName(f"to {to.name}")
        .trigger(availableNow=True)
    )
    query = begun(writer.start)
    try:
        wait_for_end(query)
    finally:
        query.stop()


def test_stream_goes_on_from_its_checkpoint(topic, tmp_path):
    source, t = topic(2), topic(2)
    source.produce(range(50))
    stream(source, t, tmp_path)
    source.produce(range(50, 80))
    stream(source, t, tmp_path)
    assert sorted(int(record.value) for record in written(t)) == list(range(80))
    assert all(record.key == b"k" + record.value for record in written(t))


def test_stream_in_complete_mode_appends_the_whole_result(topic, tmp_path):
    source, t = topic(1), topic(1)

    def count(frame):
        counts = frame.groupBy(f.col("key")).count()
        return counts.select("key", f.col("count").cast("string").alias("value"))

    source.produce([1, 1, 2])
    stream(source, t, tmp_path, count, "complete")
    assert sorted((record.key, record.value) for record in written(t)) == [(b"k1", b"2"), (b"k2", b"1")]
    source.produce([2])
    stream(source, t, tmp_path, count, "complete")
    # The group that did not change is there again.
    got = sorted((record.key, record.value) for record in written(t))
    assert got == [(b"k1", b"2"), (b"k1", b"2"), (b"k2", b"1"), (b"k2", b"2")]


def test_for_each_batch(topic, tmp_path):
    source, t = topic(1), topic(1)
    source.produce(range(20))
    frame = source.spark.readStream.format("ottla").options(**source.options(startingOffsets="earliest")).load()
    writer = (
        frame.writeStream.foreachBatch(lambda batch, _: write(batch.select("key", "value"), t))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
    )
    query = begun(writer.start)
    try:
        wait_for_end(query)
    finally:
        query.stop()
    assert sorted(int(record.value) for record in written(t)) == list(range(20))


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        (["value"], {"topic": None}, "no topic is given: set option topic"),
        (["key"], {}, "column value is missing"),
        (["value", "1 AS key"], {}, "column key has type int and must be of type string or binary"),
        (
            ["value"],
            {"kafka.linger": "5"},
            "option kafka.linger: is not a property of the producer; did you mean linger.ms?",
        ),
        (["value"], {"kafka.bootstrap.servers": None}, "option kafka.bootstrap.servers is missing"),
        (["value"], {"subscribe": "t"}, "option subscribe is not known to ottla"),
    ],
)
def test_what_can_be_refused_is_refused_before_a_task_runs(topic, spark, columns, options, why):
    before = len(spark.sparkContext.statusTracker().getJobIdsForGroup())
    with pytest.raises(PySparkException) as raised:
        write(numbers(spark, 3).selectExpr(*columns), topic(1), **options)
    assert why in sentence(raised.value)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup()) == before


def test_a_stream_is_refused_likewise(topic, tmp_path):
    source = topic(1)
    source.produce([1])
    with pytest.raises(PySparkException, match="column partition has type bigint and must be of type int"):
        stream(source, topic(1), tmp_path, lambda frame: frame.selectExpr("value", "offset AS partition"))


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("overwrite", 'mode "overwrite" is not possible: a topic is only ever appended to'),
        # These two Spark refuses by itself, before it asks a data source in Python.
        ("ignore", 'cannot be written in the "Ignore" mode'),
        ("errorifexists", 'cannot be written in the "ErrorIfExists" mode'),
    ],
)
def test_save_modes_but_append_are_refused(topic, spark, mode, why):
    t = topic(1)
    with pytest.raises(PySparkException, match=why):
        numbers(spark, 3).write.format("ottla").options(
            **{"kafka.bootstrap.servers": t.bootstrap, "topic": t.name}
        ).mode(mode).save()


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        (
            ["value", "if(key = '7', null, 't') AS topic"],
            {"topic": None},
            ["a row has no topic: its column topic is null"],
        ),
        (
            ["key", "value", "if(key = '7', 9, 0) AS partition"],
            {"kafka.max.block.ms": "5000"},
            ["ArgumentError: there is no partition 9: the topic has 2", "the record with the key '7'", "1 failed"],
        ),
        (
            ["key", "if(key = '7', repeat('x', 1100000), value) AS value"],
            {},
            [
                "TooLargeError: a record of 1100",
                "larger than max.request.size (1048576)",
                "the record with the key '7'",
            ],
        ),
        (["value"], {"topic": "no topic"}, ["no topic"]),
        (
            ["value"],
            {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.max.block.ms": "1000"},
            ["UnreachableError", "127.0.0.1:9"],
        ),
    ],
    ids=["null topic", "no such partition", "too large", "bad name", "unreachable"],
)
def test_a_row_that_cannot_be_sent_fails_the_write_and_says_why(topic, spark, columns, options, why):
    t = topic(2)
    with pytest.raises(PySparkException) as raised:
        write(numbers(spark, 20).selectExpr(*columns), t, **options)
    told = sentence(raised.value)
    assert all(part in told for part in why), told
    # The worker goes on with another producer.
    write(numbers(spark, 5), t)
    assert {str(n).encode() for n in range(5)} <= {record.value for record in written(t)}


def test_a_task_that_fails_in_its_own_code_fails_the_write(topic, spark):
    t = topic(1)
    with pytest.raises(PySparkException, match="never mind"):
        write(numbers(spark, 100).withColumn("value", f.expr("if(key = '90', raise_error('never mind'), value)")), t)


def test_topic_that_is_not_there(spark):
    with Broker(topics=["t"], config={"auto.create.topics.enable": False}) as broker:
        absent = Topic.__new__(Topic)
        absent.bootstrap, absent.name = broker.bootstrap_servers, "absent"
        start = time.monotonic()
        with pytest.raises(PySparkException, match="(?s)NotFoundError.*absent"):
            write(numbers(spark, 3), absent, **{"kafka.max.block.ms": "2000"})
        assert time.monotonic() - start < 60


def test_wrong_credentials(spark):
    with Broker(
        topics=["t"], listeners=["SASL_PLAINTEXT mechanisms=SCRAM-SHA-256"], users={"alice": "alice-secret"}
    ) as broker:
        t = Topic.__new__(Topic)
        t.bootstrap, t.name = broker.bootstrap_servers, "t"
        login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'
        java = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "SCRAM-SHA-256"}
        with pytest.raises(PySparkException) as raised:
            write(numbers(spark, 3), t, **java, **{"kafka.sasl.jaas.config": login.format("hunter2")})
        assert "AuthenticationError" in str(raised.value)
        assert "alice" in str(raised.value)
        assert "hunter2" not in str(raised.value)
        write(numbers(spark, 3), t, **java, **{"kafka.sasl.jaas.config": login.format("alice-secret")})


def test_no_plan_shows_a_secret(topic, spark):
    t = topic(1)
    with pytest.raises(PySparkException, match="AuthenticationError"):
        # The broker of these tests takes no authentication.
        write(
            numbers(spark, 3),
            t,
            **{
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.allow.plaintext": "true",
                "kafka.sasl.jaas.config": "x.PlainLoginModule required username=alice password='hunter2-s3cret';",
            },
        )
    # What the web interface shows comes from there.
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(n).physicalPlanDescription() for n in range(executions.size())]
    assert any("AppendData ottla" in plan for plan in plans)
    assert not any("hunter2" in plan for plan in plans)
