"""Real Kafka, through Spark's own Kafka source and through ours: the same options give the same rows and offsets.

Foreign clients write the topics: what aborts, what is compacted, what is deleted, in every codec, also in the formats of
old releases.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.errors import StreamingQueryException
from tests.brokers.running import running
from tests.integration.conftest import wait_for_markers
from tests.integration.peers.java import VERSION
from tests.waiting import check_time

from ottla.spark import offsets_behind_latest
from ottla.spark.shared import redaction

from .conftest import done, rows, run_stream
from .starts import begun
from .test_read import sentence

pytestmark = [
    pytest.mark.needs("java", "mvn"),
    pytest.mark.timeout(380),
    # Foreign clients leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OLD = "2.8.2"  # the last minor release but two that still writes the formats of 0.10 and of 0.9
# Milliseconds; the record with number n stands at BEGIN + n seconds.
BEGIN = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass
class Kafka:
    """A real broker, and what writes to it."""

    bootstrap: str
    folder: Path

    @classmethod
    def of(cls, cluster):
        return cls(cluster.st["bootstrap"]["PLAINTEXT"], Path(cluster.st["dir"]) / "node1")

    @cached_property
    def admin(self):
        """It must outlive what it is asked."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, name, partitions=1, **config):
        config = {key.replace("_", "."): value for key, value in config.items()}
        done(self.admin.create_topics([NewTopic(name, partitions, 1, config=config)]))
        end = time.monotonic() + 30
        while name not in self.admin.list_topics(timeout=10).topics:
            check_time(end, f"the broker does not know {name}")
            time.sleep(0.05)

    def write(self, topic, numbers, *, partition=0, codec="none", key=lambda n: b"k%d" % n, value=None, headers=None):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "compression.codec": codec, "linger.ms": 50}
        )
        for n in numbers:
            body = b"value %d " % n * 5 if value is None else value(n)
            producer.produce(
                topic, body, key(n), partition=partition, timestamp=BEGIN + n * 1000, headers=headers and headers(n)
            )
        assert producer.flush(30) == 0

    def transact(self, topic, numbers, how, *, partition=0):
        """Write in a transaction and end it; `how` is the name of the method that does, or None to leave it open."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": f"{topic}-{numbers.start}",
                "transaction.timeout.ms": 900_000,  # what is left open stays open until all have read
                "linger.ms": 50,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for n in numbers:
            producer.produce(topic, b"value %d" % n, b"k%d" % n, partition=partition, timestamp=BEGIN + n * 1000)
        assert producer.flush(30) == 0
        if how:
            getattr(producer, how)(30)
        return producer


def started(folder, version):
    # The records' times are years ago.
    config = {
        "auto.create.topics.enable": "false",
        "log.cleaner.backoff.ms": "100",
        "log.retention.ms": "-1",
        # Files say where a partition begins of which records were deleted.
        "log.flush.start.offset.checkpoint.interval.ms": "100",
    }
    return running(folder, version=version, config=config)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """A broker with topics of every kind."""
    with started(tmp_path_factory.mktemp("kafka"), VERSION) as cluster:
        kafka = Kafka.of(cluster)
        kafka.create("mixed", 3)
        for i, codec in enumerate(CODECS):
            kafka.write("mixed", range(i * 20, i * 20 + 20), partition=i % 2, codec=codec)
        kafka.write("mixed", range(100, 104), key=lambda n: None, value=lambda n: None if n % 2 else b"")
        kafka.write("mixed", range(104, 106), headers=lambda n: [("h", b"x"), ("h", None), ("i", b"")])
        kafka.create("empty", 2)
        kafka.create("appended", message_timestamp_type="LogAppendTime")
        kafka.write("appended", range(10))
        kafka.create("transactional")
        for begin, how in (0, "commit_transaction"), (10, "abort_transaction"), (20, "commit_transaction"):
            kafka.transact("transactional", range(begin, begin + 10), how)
        kafka.transact("transactional", range(30, 35), "abort_transaction")
        kafka.create("open", 2)
        kafka.write("open", range(5))
        unfinished = kafka.transact("open", range(5, 10), None)
        kafka.write("open", range(10, 12))
        kafka.create("deleted", 3)
        for partition in range(3):
            kafka.write("deleted", range(30), partition=partition)
        till = [confluent_kafka.TopicPartition("deleted", 0, 12), confluent_kafka.TopicPartition("deleted", 1, 30)]
        done(kafka.admin.delete_records(till))
        compacted(kafka)
        yield kafka
        del unfinished


def compacted(kafka):
    """A topic whose log lacks most of its records, at its beginning, in the middle and before its end."""
    kafka.create(
        "compacted",
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="100",
        max_compaction_lag_ms="100",
    )
    for begin in range(0, 80, 20):
        kafka.write("compacted", range(begin, begin + 20), key=lambda n: b"k%d" % (n % 7))
        time.sleep(0.2)
    kafka.write("compacted", range(80, 82), value=lambda n: None)
    end = time.monotonic() + 60
    while read_by_confluent(kafka, "compacted", 82) > 30:
        check_time(end, "the topic was not compacted")
        time.sleep(0.5)
        # The active segment is never cleaned: a record more makes it an old one.
        kafka.write("compacted", range(80, 82), value=lambda n: None)


def read_by_confluent(kafka, topic, end):
    """How many records a partition holds below an offset."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "unused"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    count = 0
    try:
        while message := consumer.poll(10):
            assert not message.error()
            if message.offset() >= end - 1:
                break
            count += 1
    finally:
        consumer.close()
    return count


class Both:
    """The same reads through both sources."""

    def __init__(self, spark, kafka):
        self.spark, self.kafka = spark, kafka

    def frame(self, source, options):
        given = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in options.items()}
        servers = {"kafka.bootstrap.servers": self.kafka.bootstrap}
        # Ours refuses what Spark would show in plans by a name that it shows.
        given = redaction.hide(given) if source == "ottla" else given
        return self.spark.read.format(source).options(**servers, **given).load()

    def same_in_files(self, topic, **options):
        """The rows that Spark's own source has of the broker, which are those of its folder."""
        options = {"subscribe": topic, "includeHeaders": "true", **options}
        theirs = rows(self.frame("kafka", options))
        given = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in options.items()}
        assert rows(self.spark.read.format("ottla-log").options(**given).load(str(self.kafka.folder))) == theirs, (
            options
        )
        return theirs

    def same(self, **options):
        """The rows, which are the same."""
        theirs, ours = (rows(self.frame(source, options)) for source in ("kafka", "ottla"))
        assert ours == theirs, options
        return ours

    def streamed(self, folder, **options):
        """The rows and the ends of the batches of a stream, which are the same."""
        servers = {"kafka.bootstrap.servers": self.kafka.bootstrap}
        found, behind = {}, {}
        for source in ("kafka", "ottla"):
            table = f"{folder.name}_{source}"
            batches = run_stream(self.spark, source, folder / source, {**servers, **options}, table)
            read = rows(self.spark.table(table))
            told = [b["sources"][0] for b in batches]
            found[source] = read, [json.loads(one["endOffset"]) for one in told]
            # Spark rounds the average to a tenth.
            behind[source] = [{k: round(v, 1) for k, v in offsets_behind_latest(one).items()} for one in told]
            if source == "kafka":
                behind["metrics"] = [{k: float(v) for k, v in one["metrics"].items()} for one in told]
        assert behind["ottla"] == behind["kafka"] == behind["metrics"]
        assert found["ottla"] == found["kafka"]
        return found["ottla"]


@pytest.fixture(scope="module")
def both(spark, kafka):
    return Both(spark, kafka)


def numbers(read):
    """What `write` numbered: the keys."""
    return sorted(int(bytes(row[0])[1:]) for row in read)


@pytest.mark.parametrize("headers", ["false", "true"])
def test_codecs_nulls_and_headers(both, headers):
    read = both.same(subscribe="mixed", includeHeaders=headers)
    assert len(read) == 106
    assert len({row[3] for row in read}) == 2


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_transactions(both, level):
    read = both.same(subscribe="transactional", **{"kafka.isolation.level": level})
    committed = [*range(10), *range(20, 30)]
    assert numbers(read) == (committed if level == "read_committed" else list(range(35)))
    # Reading ends before the first transaction that is open.
    read = both.same(subscribe="open", **{"kafka.isolation.level": level})
    assert numbers(read) == (list(range(5)) if level == "read_committed" else list(range(12)))


def test_compacted(both):
    read = both.same(subscribe="compacted")
    assert 7 <= len(read) < 60
    offsets = [row[4] for row in read]
    inside = {"startingOffsets": {"compacted": {"0": 3}}, "endingOffsets": {"compacted": {"0": max(offsets) - 1}}}
    both.same(subscribe="compacted", **inside)
    both.same(subscribe="compacted", maxRecordsPerPartition="9")


def test_deleted_records(both):
    read = both.same(subscribe="deleted")
    assert sorted((row[3], row[4]) for row in read) == [(0, n) for n in range(12, 30)] + [(2, n) for n in range(30)]
    gone = {"startingOffsets": {"deleted": {"0": 5, "1": 7, "2": 9}}}
    kept = both.same(subscribe="deleted", failOnDataLoss="false", **gone)
    assert len(kept) == 18 + 21
    for source in ("kafka", "ottla"):
        with pytest.raises(Exception, match="(?i)data.?loss"):
            both.frame(source, {"subscribe": "deleted", **gone}).collect()


@pytest.mark.parametrize(
    "what",
    [
        {"subscribe": "empty"},
        {"subscribe": " mixed,,empty "},
        {"subscribePattern": "^(mix|app)"},
        {"subscribePattern": "d$"},
        {"subscribePattern": "consumer"},
        {"subscribePattern": "no such topic"},
        {"assign": {"mixed": [1], "appended": [0]}},
        {"assign": {"mixed": [2, 1, 17]}},
    ],
    ids=str,
)
def test_what_is_read(both, what):
    both.same(**what)


def wait_for_starts(kafka, wanted):
    """The file with the beginnings of partitions is written from time to time."""
    file, end = kafka.folder / "log-start-offset-checkpoint", time.monotonic() + 30
    while not (file.exists() and wanted <= set(file.read_text().splitlines())):
        check_time(end, file.read_text() if file.exists() else "there is no file")
        time.sleep(0.05)


# Topics without transactions, and how many of their records are left, if that is certain.
PLAIN = {"mixed": 106, "empty": 0, "appended": 10, "deleted": 48, "compacted": None}


@pytest.mark.parametrize(
    ("level", "topics"),
    [
        ("read_committed", {**PLAIN, "transactional": 20, "open": 5}),
        ("read_uncommitted", {"transactional": 35, "open": 12}),
        # Their rows are the same at each level.
        pytest.param("read_uncommitted", PLAIN, marks=pytest.mark.nightly),
    ],
    ids=lambda it: it if isinstance(it, str) else "-".join(it),
)
def test_files_hold_what_the_broker_serves(both, kafka, level, topics):
    wait_for_markers(kafka.bootstrap, "transactional", 1)
    wait_for_starts(kafka, {"deleted 0 12", "deleted 1 30"})
    level = {"kafka.isolation.level": level}
    for topic, left in topics.items():
        count = len(both.same_in_files(topic, **level))
        assert left in {count, None}
        assert len(both.same_in_files(topic, maxBytesPerPartition="300", **level)) == count
    if "mixed" in topics:
        part = {
            "startingOffsets": {"mixed": {"0": 5, "1": -2, "2": 0}},
            "endingOffsets": {"mixed": {"0": 31, "1": -1, "2": -1}},
        }
        assert both.same_in_files("mixed", **part, **level)


def at(n):
    return str(BEGIN + n * 1000)


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "earliest", "endingOffsets": "latest"},
        {"startingOffsets": {"mixed": {"0": 5, "1": -2, "2": 0}}},
        {
            "startingOffsets": {"mixed": {"0": 5, "1": -2, "2": 0}},
            "endingOffsets": {"mixed": {"0": 9, "1": -1, "2": -1}},
        },
        {"startingTimestamp": at(3), "startingOffsetsByTimestampStrategy": "latest"},
        {"endingTimestamp": at(50)},
        {
            "startingTimestamp": at(45),
            "endingTimestamp": at(101),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {
            "startingOffsetsByTimestamp": {"mixed": {"0": BEGIN + 7500, "1": BEGIN, "2": BEGIN}},
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {"endingOffsetsByTimestamp": {"mixed": {"0": BEGIN + 7500, "1": BEGIN, "2": BEGIN}}},
        # Times win over offsets, and one time for all wins over times of each.
        {
            "startingTimestamp": at(3),
            "startingOffsetsByTimestamp": "not read",
            "startingOffsets": "not read",
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {"minPartitions": "7"},
        {"maxRecordsPerPartition": "11"},
        {"minPartitions": "20", "maxRecordsPerPartition": "11"},
        {
            "groupIdPrefix": "p",
            "kafka.group.id": "g",
            "fetchOffset.numRetries": "2",
            "kafka.session.timeout.ms": "9000",
        },
        {"kafkaConsumer.pollTimeoutMs": "30000", "fetchOffset.retryIntervalMs": "10", "kafka.client.id": "c"},
    ],
    ids=" ".join,
)
def test_where_it_begins_and_ends(both, given):
    both.same(subscribe="mixed", **given)


def test_tasks_of_a_split_are_those_of_spark(both):
    # Spark's does not split by maxRecordsPerPartition where an end is a word: it compares with the size of (-2, -1).
    ends = {
        "startingOffsets": {"mixed": {"0": 1, "1": 0, "2": 0}},
        "endingOffsets": {"mixed": {"0": 60, "1": 39, "2": 0}},
    }
    for given in ({"minPartitions": "7"}, {"maxRecordsPerPartition": "11", **ends}):
        counts = {
            source: sorted(
                both.frame(source, {"subscribe": "mixed", **given})
                .rdd.mapPartitions(lambda part: [sum(1 for _ in part)])
                .collect()
            )
            for source in ("kafka", "ottla")
        }
        # Theirs has tasks for what is empty.
        assert [n for n in counts["ottla"] if n] == [n for n in counts["kafka"] if n]
        assert len(counts["ottla"]) > 3


# Spark's own source tries three times, with pauses, before it says that offsets cannot be had.
ONCE = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "1"}
# What both refuse, what Spark's own source says of it, and what ours says; regular expressions.
REFUSED = [
    ({}, "One of the following options must be specified", "one of the options subscribe, .* must be set"),
    (
        {"subscribe": "mixed", "subscribePattern": "mixed"},
        "Only one of the following options can be specified",
        "options subscribe and subscribePattern exclude each other",
    ),
    ({"subscribe": ""}, "No topics to subscribe to", "option subscribe names no topic"),
    ({"subscribePattern": " "}, "Pattern to subscribe is empty", "option subscribePattern is empty"),
    ({"assign": "mixed"}, r"No topicpartitions to assign", "option assign must be JSON .* is not JSON"),
    (
        {"assign": '{"mixed": 0}'},
        r'Expected e\.g\. {"topicA":\[0,1\]',
        "option assign must be JSON .*'mixed' it holds 0",
    ),
    (
        {"subscribe": "mixed", "startingOffsets": "latest"},
        "starting offset can't be latest for batch",
        'option startingOffsets cannot be "latest" in a batch',
    ),
    (
        {"subscribe": "mixed", "endingOffsets": "earliest"},
        "ending offset can't be earliest for batch",
        'option endingOffsets cannot be "earliest" in a batch',
    ),
    (
        {"subscribe": "mixed", "startingOffsets": '{"mixed": {"0": -1, "1": 0, "2": 0}}'},
        "startingOffsets for mixed-0 can't be latest for batch",
        "option startingOffsets cannot hold -1 .* mixed",
    ),
    (
        {"subscribe": "mixed", "endingOffsets": '{"mixed": {"0": -2, "1": 0, "2": 0}}'},
        "ending offset for mixed-0 can't be earliest for batch",
        "option endingOffsets cannot hold -2 .* mixed",
    ),
    (
        {"subscribe": "mixed", "startingOffsets": '{"mixed": {"0": 0}}'},
        "Partitions specified for Kafka start offsets don't match what are assigned",
        "option startingOffsets leaves out .*mixed",
    ),
    (
        {"subscribe": "mixed", "startingOffsetsByTimestamp": '{"mixed": {"0": 0}}'},
        "Partitions specified for Kafka timestamp based start offsets don't match what are assigned",
        "option startingOffsetsByTimestamp leaves out .*mixed",
    ),
    (
        {"subscribe": "mixed", "startingOffsets": "x"},
        r'Expected e\.g\. {"topicA":{"0":23',
        "option startingOffsets .*'x'",
    ),
    (
        {"subscribe": "mixed", "startingTimestamp": "x"},
        "Expected a single long value, got x",
        "option startingTimestamp must be a time .*'x'",
    ),
    (
        {"subscribe": "mixed", "startingTimestamp": at(10_000)},
        "No offset matched from request of topic-partition mixed-0",
        "option startingTimestamp: .*mixed.* has no record at or after",
    ),
    (
        {"subscribe": "mixed", "startingTimestamp": at(3), "startingOffsetsByTimestampStrategy": "maybe"},
        "No value found for 'MAYBE'",
        "option startingOffsetsByTimestampStrategy must be .*'maybe'",
    ),
    (
        {"subscribe": "mixed", "startingTimestamp": at(60), "endingTimestamp": at(5)},
        # Of two reasons each says the first that it meets.
        "No offset matched from request of topic-partition mixed-",
        "option startingTimestamp: .*mixed.* has no record at or after",
    ),
    ({"subscribe": "mixed", "minPartitions": "0"}, "minPartitions must be positive", "option minPartitions must be"),
    (
        {"subscribe": "mixed", "maxRecordsPerPartition": "0"},
        "(?i)maxRecordsPerPartition must be positive",
        "option maxRecordsPerPartition must be",
    ),
    *(
        (
            {"subscribe": "mixed", f"kafka.{name}": "true"},
            f"Kafka option '{name}' is not",
            f"option kafka.{name} cannot be set",
        )
        for name in ("auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit")
    ),
    (
        {"subscribe": "mixed", "kafka.interceptor.classes": "x"},
        "Kafka option 'interceptor.classes' is not",
        "option kafka.interceptor.classes cannot be set",
    ),
    (
        {"subscribe": "mixed", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
        r"minOffsetPerTrigger\(9\) is higher than the maxOffsetsPerTrigger\(8\)",
        r"option minOffsetsPerTrigger \(9\) is above maxOffsetsPerTrigger \(8\)",
    ),
    (
        {"subscribe": "nosuch"},
        "UnknownTopicOrPartitionException",
        "option subscribe names topic nosuch, which does not exist",
    ),
]


@pytest.mark.parametrize(("given", "theirs", "ours"), REFUSED, ids=[str(given) for given, *_ in REFUSED])
def test_what_spark_refuses_is_refused(both, given, theirs, ours):
    for source, says in (("kafka", theirs), ("ottla", ours)):
        with pytest.raises(Exception, match=says):
            both.frame(source, {**ONCE, **given}).collect()


@pytest.mark.parametrize(
    "given",
    [
        {"subscribe": "mixed", "maxOffsetsPerTrigger": "60"},
        {"subscribePattern": "^(mixed|deleted)$", "maxOffsetsPerTrigger": "70"},
        {"assign": '{"mixed": [0]}', "startingTimestamp": at(50), "startingOffsets": "latest"},
        {"subscribe": "transactional", "kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "25"},
        {"subscribe": "compacted", "maxOffsetsPerTrigger": "60", "minPartitions": "4"},
        {"subscribe": "mixed", "startingOffsets": '{"mixed": {"0": 5, "1": -2, "2": -1}}', "includeHeaders": "true"},
        {
            "subscribe": "mixed",
            "startingOffsetsByTimestamp": json.dumps({"mixed": {"0": BEGIN + 45_000, "1": 0, "2": 0}}),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {"subscribe": "open,appended,empty", "minOffsetsPerTrigger": "15", "maxTriggerDelay": "1s"},
        {"subscribe": "deleted", "startingOffsets": '{"deleted": {"0": 5, "1": 7, "2": 9}}', "failOnDataLoss": "false"},
    ],
    ids=" ".join,
)
def test_streams(both, tmp_path, given):
    read, ends = both.streamed(tmp_path, **{"startingOffsets": "earliest", **given})
    assert read
    assert ends


REFUSED_OF_STREAMS = [
    (
        {"subscribe": "mixed", "endingOffsetsByTimestamp": '{"mixed": {"0": 5, "1": 5, "2": 5}}'},
        "ending timestamp not valid in streaming queries",
        "option endingOffsetsByTimestamp has no meaning in a stream",
    ),
    (
        {"subscribe": "deleted", "startingOffsets": '{"deleted": {"0": 5, "1": 7, "2": 9}}'},
        "Some data may have been missed|Some data may have been lost|OffsetOutOfRange",
        "option startingOffsets requests offset 5 of deleted",
    ),
    (
        {"subscribe": "mixed", "startingTimestamp": at(10_000)},
        "No offset matched from request of topic-partition mixed-0",
        "option startingTimestamp: .*mixed.* has no record at or after",
    ),
]


@pytest.mark.parametrize(
    ("given", "theirs", "ours"), REFUSED_OF_STREAMS, ids=[" ".join(given) for given, *_ in REFUSED_OF_STREAMS]
)
def test_what_spark_refuses_of_a_stream_is_refused(spark, kafka, tmp_path, given, theirs, ours):
    options = {"kafka.bootstrap.servers": kafka.bootstrap, **ONCE, **given}
    for source, says in (("kafka", theirs), ("ottla", ours)):
        with pytest.raises(Exception, match=says):
            run_stream(spark, source, tmp_path / source, options, f"{tmp_path.name}_{source}")


def test_a_topic_deleted_under_a_running_stream(spark, kafka, tmp_path):
    kafka.create("short-lived")
    kafka.write("short-lived", range(5))
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "short-lived", "startingOffsets": "earliest"}
    frame = spark.readStream.format("ottla").options(**options).load()
    query = begun(frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start)
    try:
        query.processAllAvailable()
        done(kafka.admin.delete_topics(["short-lived"]))
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(60)
    finally:
        query.stop()
    assert "option subscribe names topic short-lived, which does not exist" in sentence(raised.value)


# Each of the two checkpoints moves there and back; the other way round it is the embedded broker's, in `test_peer.py`.
@pytest.mark.parametrize(
    ("first", "second"), [pytest.param("kafka", "ottla", marks=pytest.mark.nightly), ("ottla", "kafka")]
)
def test_added_partitions_and_a_checkpoint_that_moves(spark, kafka, tmp_path, first, second):
    topic = f"grown-{first}"
    kafka.create(topic)
    kafka.write(topic, range(5))
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    run_stream(spark, first, tmp_path, options)
    done(kafka.admin.create_partitions([NewPartitions(topic, 3)]))
    end = time.monotonic() + 30
    while len(kafka.admin.list_topics(topic, timeout=10).topics[topic].partitions) < 3:
        assert time.monotonic() < end
        time.sleep(0.05)
    kafka.write(topic, range(5, 9), partition=2)
    batches = run_stream(spark, second, tmp_path, options)
    assert json.loads(batches[-1]["sources"][0]["endOffset"]) == {topic: {"0": 5, "1": 0, "2": 4}}
    kafka.write(topic, range(9, 12), partition=1)
    run_stream(spark, first, tmp_path, options)
    assert numbers(map(tuple, spark.read.parquet(str(tmp_path / "rows")).collect())) == list(range(12))


@pytest.fixture(scope="module")
def old_kafka(tmp_path_factory):
    """A broker that writes messages as Kafka 0.10 and 0.9 did."""
    with started(tmp_path_factory.mktemp("old"), OLD) as cluster:
        kafka = Kafka.of(cluster)
        for version in ("0.10.2", "0.9.0"):
            kafka.create(f"v{version}", message_format_version=version)
            for i, codec in enumerate(("none", "gzip", "snappy", "lz4")):
                kafka.write(f"v{version}", range(i * 20, i * 20 + 20), codec=codec)
        yield kafka


@pytest.mark.parametrize("version", ["0.10.2", "0.9.0"])
def test_old_formats(spark, old_kafka, version, tmp_path):
    both = Both(spark, old_kafka)
    topic = f"v{version}"
    read = both.same(subscribe=topic, includeHeaders="true")
    assert numbers(read) == list(range(80))
    assert {row[6] for row in read} == {0 if version == "0.10.2" else -1}
    part = {"startingOffsets": {topic: {"0": 33}}, "endingOffsets": {topic: {"0": 71}}}
    assert numbers(both.same(subscribe=topic, **part)) == list(range(33, 71))
    if version == "0.10.2":
        assert numbers(both.same(subscribe=topic, startingTimestamp=at(50))) == list(range(50, 80))
    both.streamed(tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="50")
    assert numbers(both.same_in_files(topic)) == list(range(80))
    assert numbers(both.same_in_files(topic, **part)) == list(range(33, 71))
