"""Batch and stream reads by format("ottla")."""

import json
import re
import sys
import time
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ottla.errors import NotFoundError
from ottla.spark import register
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.columns import COLUMNS, HEADERS
from ottla.spark.read.kafka_log import KafkaLog
from ottla.spark.read.map_in_arrow import read_kafka
from ottla.spark.shared.arrow_types import to_arrow
from ottla.testing import Broker

from .starts import begun

# Spark 4.0 and 4.1 leave sockets of theirs to the garbage collector.
SPARKS_SOCKETS = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings(SPARKS_SOCKETS)]


# Milliseconds of the record with value 0 below; each value is a second later.
STAMP = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def pushdown(spark):
    """Spark's leave to push filters down to Python sources, which it has from 4.1 on."""
    if find_spec("pyspark.sql.worker.data_source_pushdown_filters") is None:
        pytest.skip("filters are pushed down from Spark 4.1 on")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_arrow_schema_is_the_one_spark_checks():
    made = to_arrow(StructType([*COLUMNS, HEADERS]))
    headers = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    assert made.types == [
        pa.binary(),
        pa.binary(),
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.timestamp("us", tz="UTC"),
        pa.int32(),
        headers,
    ]


def test_batch_reads_all(topic):
    t = topic(3)
    before = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    t.produce(range(200))
    got = t.read().collect()
    assert sorted(int(bytes(row.value)) for row in got) == list(range(200))
    assert {row.topic for row in got} == {t.name}
    assert all(bytes(row.key) == b"k" + bytes(row.value) for row in got)
    assert all(row.timestampType == 0 and row.timestamp >= before for row in got)
    for partition in range(3):
        offsets = sorted(row.offset for row in got if row.partition == partition)
        assert offsets == list(range(len(offsets)))


def test_batch_of_null_keys_and_values(topic, spark):
    import ottla

    t = topic(1)
    with ottla.Producer(t.bootstrap) as producer:
        producer.send(t.name, None, key=b"k").result(timeout=30)
        producer.send(t.name, b"").result(timeout=30)
    first, second = t.read().orderBy("offset").collect()
    assert (bytes(first.key), first.value) == (b"k", None)
    assert (second.key, bytes(second.value)) == (None, b"")


def test_headers_are_null_where_there_are_none(topic):
    t = topic(1)
    t.produce([0])
    t.produce([1], headers=[("a", b"x"), ("a", None)])
    without, with_headers = t.read(includeHeaders="true").orderBy("offset").collect()
    assert without.headers is None
    assert [(h.key, h.value and bytes(h.value)) for h in with_headers.headers] == [("a", b"x"), ("a", None)]
    assert "headers" not in t.read().columns


def test_batch_between_offsets(topic):
    t = topic(2)
    for partition in (0, 1):
        t.produce(range(partition * 100, partition * 100 + 10), partition=partition)
    frame = t.read(
        startingOffsets=json.dumps({t.name: {"0": 3, "1": -2}}), endingOffsets=json.dumps({t.name: {"0": 5, "1": 1}})
    )
    assert sorted(int(bytes(row.value)) for row in frame.collect()) == [3, 4, 100]


def test_filters_are_pushed_down(topic, pushdown):
    t = topic(3)
    for partition in range(3):
        t.produce(range(partition * 100, partition * 100 + 20), partition=partition, timestamp=STAMP)

    def read(where):
        frame = t.read().where(where)
        return sorted(int(bytes(row.value)) for row in frame.collect()), frame.rdd.getNumPartitions()

    assert read("partition = 1") == (list(range(100, 120)), 1)
    assert read("partition in (0, 2) and offset >= 18") == ([18, 19, 218, 219], 2)
    assert read("offset between 3 and 4 and partition <> 0") == ([103, 104, 203, 204], 2)
    assert read("topic = 'another'") == ([], 1)
    assert read("timestamp >= timestamp'2024-01-01 00:00:18'") == ([18, 19, 118, 119, 218, 219], 3)
    assert read("timestamp > timestamp'2024-01-01 00:01:00'") == ([], 1)
    assert read("value = cast('5' as binary) or partition = 1") == ([5, *range(100, 120)], 3)


def test_filters_without_leave_are_spark_s(topic):
    t = topic(2)
    t.produce(range(10), partition=0)
    t.produce(range(10, 20), partition=1)
    frame = t.read().where("partition = 1")
    assert frame.count() == 10
    assert frame.rdd.getNumPartitions() == 2


def test_batch_of_an_empty_topic(topic):
    assert topic(2).read().count() == 0


def test_batch_stopped_by_limit_leaves_a_usable_worker(topic):
    t = topic(1)
    t.produce(range(100))
    for _ in range(3):
        assert len(t.read().limit(3).collect()) == 3
    assert t.read().count() == 100


def test_several_topics(topic):
    t, u = topic(1), topic(2)
    t.produce(range(5))
    u.produce(range(7))
    got = t.read(subscribe=f"{t.name}, {u.name}").groupBy("topic").count().collect()
    assert {row.topic: row["count"] for row in got} == {t.name: 5, u.name: 7}


def test_range_that_ends_inside_a_record_batch(topic):
    import ottla

    t = topic(1)
    with ottla.Producer(t.bootstrap, linger_ms=200) as producer:
        producer.send_many(t.name, [str(i).encode() for i in range(1000)]).result(timeout=30)
    frame = t.read(startingOffsets=json.dumps({t.name: {"0": 333}}), endingOffsets=json.dumps({t.name: {"0": 777}}))
    assert sorted(int(bytes(row.value)) for row in frame.collect()) == list(range(333, 777))


def test_stream_takes_what_there_is_and_goes_on_from_its_checkpoint(topic, tmp_path):
    t = topic(2)
    t.produce(range(50))
    t.stream(tmp_path, startingOffsets="earliest")
    assert t.streamed(tmp_path) == list(range(50))
    t.stream(tmp_path, startingOffsets="earliest")
    t.produce(range(50, 60))
    t.stream(tmp_path, startingOffsets="earliest")
    assert t.streamed(tmp_path) == list(range(60))


def test_new_stream_begins_at_the_latest_offset(topic, tmp_path):
    t = topic(1)
    t.produce(range(5))
    assert t.stream(tmp_path) == []


@pytest.mark.skipif(find_spec("pyspark.sql.streaming.datasource") is None, reason="availableNow came with Spark 4.2")
def test_stream_keeps_its_limit_and_says_how_far_behind_it_is(topic, tmp_path):
    t = topic(2)
    t.produce(range(90), partition=0)
    t.produce(range(90, 100), partition=1)
    batches = t.stream(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert [b["numInputRows"] for b in batches] == [40, 40, 20]
    assert [json.loads(b["sources"][0]["endOffset"]) for b in batches] == [
        {t.name: {"0": 36, "1": 4}},
        {t.name: {"0": 72, "1": 8}},
        {t.name: {"0": 90, "1": 10}},
    ]
    assert all(json.loads(b["sources"][0]["latestOffset"]) == {t.name: {"0": 90, "1": 10}} for b in batches)
    assert t.streamed(tmp_path) == list(range(100))


def test_stream_discovers_new_partitions_from_their_start(topic, tmp_path):
    t = topic(1)
    t.produce(range(3))
    t.stream(tmp_path, startingOffsets="earliest")
    t.add_partitions(3)
    t.produce(range(3, 6), partition=2)
    (batch,) = t.stream(tmp_path)
    assert json.loads(batch["sources"][0]["endOffset"]) == {t.name: {"0": 3, "1": 0, "2": 3}}
    assert t.streamed(tmp_path) == list(range(6))


def test_stream_takes_up_topics_that_a_pattern_comes_to_match(topic, tmp_path):
    t = topic(1)
    t.produce(range(3))
    late = topic(1, name=f"{t.name}-late")
    late.produce(range(3, 6))
    pattern = {"subscribe": None, "subscribePattern": f"^{t.name}"}
    t.stream(tmp_path, startingOffsets="earliest", **pattern)
    later = topic(1, name=f"{t.name}-later")
    later.produce(range(6, 9))
    t.stream(tmp_path, **pattern)
    assert t.streamed(tmp_path) == list(range(9))


@pytest.mark.skipif(find_spec("pyspark.sql.streaming.datasource") is None, reason="limits of a trigger")
def test_a_limit_of_bytes(topic, tmp_path):
    t = topic(2)
    t.produce([b"%04d" % n * 25 for n in range(100)], partition=0)  # 100 bytes, and one more in the key
    t.produce([b"%04d" % n * 25 for n in range(10)], partition=1)
    batches = t.stream(tmp_path, startingOffsets="earliest", maxBytesPerTrigger="10000")
    taken = [b["numInputRows"] for b in batches]
    assert sum(taken) == 110
    assert len(taken) == 3, taken
    assert max(taken) * 201 <= 10000 + 2 * 201, "a record more of each partition, at most"


def test_tasks_of_about_as_many_bytes(topic):
    t = topic(2)
    t.produce([b"%04d" % n * 25 for n in range(100)], partition=0)  # 100 bytes, and one more in the key
    t.produce([b"%04d" % n * 250 for n in range(4)], partition=1)
    frame = t.read(maxBytesPerPartition="5000")
    taken = [len(rows) for rows in frame.select("partition").rdd.glom().collect()]
    # 201 bytes each make five tasks, 2,001 bytes each two.
    assert taken == [20] * 5 + [2, 2]


def test_small_partitions_share_a_task(topic, tmp_path):
    t = topic(4)
    for partition in range(4):
        t.produce(range(partition * 10, partition * 10 + 5), partition=partition)
    rows = [(number // 5, number // 5 * 10 + number % 5) for number in range(20)]
    for frame in (
        t.read(minRecordsPerPartition="7"),
        read_kafka(t.spark, t.options(startingOffsets="earliest", minRecordsPerPartition="7")),
    ):
        tasks = frame.select("partition", "value").rdd.glom().collect()
        assert [[(row.partition, int(row.value)) for row in task] for task in tasks] == [rows[:10], rows[10:]]
    assert t.read(minRecordsPerPartition="7").limit(3).count() == 3
    t.stream(tmp_path, startingOffsets="earliest", minRecordsPerPartition="7")
    assert t.streamed(tmp_path) == [value for _, value in rows]
    assert len(list((tmp_path / "rows").glob("*.parquet"))) == 2, "one file of each task"


@pytest.mark.skipif(find_spec("pyspark.sql.streaming.datasource") is None, reason="limits of a trigger")
def test_a_trigger_that_waits_for_records(topic, tmp_path, spark):
    t = topic(1)
    t.produce(range(5))
    options = t.options(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    frame = spark.readStream.format("ottla").options(**options).load()
    seen = []
    writer = (
        frame.writeStream.foreachBatch(lambda batch, _: seen.append(batch.count()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="0 seconds")
    )
    query = begun(writer.start)
    try:
        query.processAllAvailable()
        t.produce(range(4))
        time.sleep(1)  # several triggers, none of which may take the four
        t.produce(range(8))
        end = time.monotonic() + 60
        while sum(seen) < 17:
            assert query.exception() is None
            assert time.monotonic() < end, seen
            time.sleep(0.05)
    finally:
        query.stop()
    # The first trigger does not wait.
    assert seen == [5, 12]


def test_checkpoint_holds_the_json_of_sparks_kafka_source(topic, tmp_path):
    t = topic(2)
    t.produce(range(4), partition=1)
    t.stream(tmp_path, startingOffsets="earliest")
    lines = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()
    assert json.loads(lines[-1]) == {t.name: {"0": 0, "1": 4}}


def test_lost_records_fail_a_stream_unless_allowed(topic, tmp_path, broker):
    import ottla

    t = topic(1)
    t.produce(range(5))
    fast = {"startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "1"}
    t.stream(tmp_path, **fast)
    with ottla.Admin(t.bootstrap) as admin:
        admin.delete_topics([t.name])
        admin.create_topics([ottla.NewTopic(t.name, partitions=1)])
    t.produce([100])
    with pytest.raises(
        PySparkException, match=f"DataLossError: partition {t.name}-0 ends at offset 1, before offset 5"
    ):
        t.stream(tmp_path, **fast)
    t.stream(tmp_path, failOnDataLoss="false", **fast)
    t.produce([101, 102])
    t.stream(tmp_path, **fast)
    # The record that was there before the stream was allowed to go on is passed over, as by Spark's own source.
    assert t.streamed(tmp_path) == [*range(5), 101, 102]


def test_aged_out_records_fail_a_stream_unless_allowed(topic, tmp_path):
    t = topic(1)
    t.produce(range(5))
    t.stream(tmp_path, startingOffsets="earliest")
    t.produce(range(5, 20))
    t.delete_records(12)
    with pytest.raises(PySparkException) as raised:
        t.stream(tmp_path)
    assert f"{t.name}-0: the records from offset 5 to 12 are gone" in sentence(raised.value)
    t.stream(tmp_path, failOnDataLoss="false")
    assert t.streamed(tmp_path) == [*range(5), *range(12, 20)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kafka.bootstrap.servers": ""}, "option kafka.bootstrap.servers is missing"),
        ({"subscribe": ""}, "option subscribe names no topic"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"startingOffsets": "{"}, "is not JSON"),
        ({"startingOffsets": '{"nope":{"0":1}}'}, "leaves out"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit cannot be set"),
        ({"kafka.fetch.max.byte": "1"}, "fetch.max.bytes"),
        ({"subscribe": "no-such-topic"}, "option subscribe names topic no-such-topic, which does not exist"),
    ],
)
def test_bad_options_fail_with_their_name(topic, options, why):
    with pytest.raises(PySparkException) as raised:
        topic(1).read(**options).count()
    assert why in sentence(raised.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets has no meaning in a stream"),
        # These end a query by the same code as a batch, or on real Kafka in `test_conformance.py`.
        *(
            pytest.param(options, why, marks=pytest.mark.nightly)
            for options, why in [
                ({"subscribe": "no-such-topic"}, "option subscribe names topic no-such-topic, which does not exist"),
                ({"startingTimestamp": "99999999999999"}, "has no record at or after 99999999999999"),
                ({"kafka.fetch.max.byte": "1"}, "fetch.max.bytes"),
            ]
        ),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay must be a time"),
    ],
)
def test_bad_options_of_a_stream_fail_with_their_name(topic, tmp_path, options, why):
    t = topic(1)
    t.produce([1])
    with pytest.raises(PySparkException) as raised:
        t.stream(tmp_path, **options)
    assert why in sentence(raised.value)


def test_a_schema_of_ones_own_is_refused(topic, spark, tmp_path):
    t = topic(1)
    with pytest.raises(PySparkException) as raised:
        spark.read.format("ottla").options(**t.options()).schema("value string").load().count()
    assert "format ottla has a schema of its own" in sentence(raised.value)
    frame = spark.readStream.format("ottla").options(**t.options()).schema("value string").load()
    query = begun(frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start)
    try:
        with pytest.raises(PySparkException) as raised:
            query.awaitTermination(60)
    finally:
        query.stop()
    assert "format ottla has a schema of its own" in sentence(raised.value)


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_denial_names_the_topic_and_the_permission(topic, tmp_path, broker, kind):
    t = topic(1)
    t.produce([1])
    broker.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", count=1_000_000)
    read = t.read().collect if kind == "batch" else partial(t.stream, tmp_path, startingOffsets="earliest")
    try:
        with pytest.raises(PySparkException) as raised:
            read()
    finally:
        broker.clear_faults()
    assert f"ACL that allows READ on the topic (topic {t.name}" in sentence(raised.value)


def sentence(error):
    """What stands at the end of the Python traceback inside Spark's error, which is one line."""
    told = str(error).partition("=== Streaming Query ===")[0].splitlines()
    lines = [line for line in told if line.strip() and not line.startswith(" SQLSTATE")]
    assert re.match(r"[\w.]+Error: ", lines[-1]), str(error)
    return lines[-1]


def test_unreachable_broker_is_named(topic):
    with pytest.raises(PySparkException, match="127.0.0.1:9"):
        topic(1).read(**{"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.default.api.timeout.ms": "2000"}).count()


def test_register_where_it_is_known_already(spark):
    register(spark)
    register(spark)


def test_register_names_a_worker_python_without_ottla(spark, tmp_path, monkeypatch):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(ImportError, match=f"workers run {bare}, .*No module named 'ottla'.*PYSPARK_PYTHON"):
        register(spark)


def test_sql_view(topic, spark):
    t = topic(1)
    t.produce(range(3))
    spark.sql(
        f"create or replace temporary view v using ottla "
        f"options (`kafka.bootstrap.servers` '{t.bootstrap}', subscribe '{t.name}')"
    )
    assert spark.sql("select sum(cast(cast(value as string) as int)) as s from v").collect()[0].s == 3


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"subscribe": "gone"}, "option subscribe names topic gone, which does not exist: UNKNOWN_TOPIC"),
        ({"assign": '{"gone":[0]}'}, "option assign names topic gone, which does not exist: UNKNOWN_TOPIC"),
        (
            {"subscribePattern": "go.*"},
            "topic gone, which subscribePattern matches, was deleted meanwhile: UNKNOWN_TOPIC",
        ),
    ],
)
def test_a_topic_that_is_deleted_after_it_was_found_is_named(chosen, said):
    with Broker() as broker:
        log = KafkaLog(ReadOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers, **chosen}))
        for ask in (log.earliest, log.latest):
            with pytest.raises(NotFoundError, match=said):
                ask([("gone", 0)])
