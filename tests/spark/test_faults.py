"""Reading a range, and planning one, from an embedded broker that misbehaves; without a Spark session."""

import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from tests.spark.conftest import close_clients

import ottla
from ottla.errors import KafkaTimeoutError, NotFoundError, OffsetOutOfRangeError
from ottla.spark.plan.planner import DataLossError, DataLossWarning
from ottla.spark.plan.read_options import ReadOptions, Topics
from ottla.spark.read import kafka_log, range_reader
from ottla.spark.read.schema import layout, schema
from ottla.spark.shared.ranges import Range
from ottla.testing import Broker


@pytest.fixture
def kafka():
    """A broker whose topic `t` holds 100 records."""
    with Broker(topics=["t"], config={"auto.create.topics.enable": False}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % n for n in range(100)]).result(30)
        yield broker
        close_clients()


def options(broker, **given):
    return ReadOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", **given})


def rows(options, span):
    return range_reader.read(options, span, layout(options, schema(options, {}), {}))


def read(broker, start, end, **given):
    batches = rows(options(broker, **given), Range("t", 0, start, end))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_range_that_is_there_is_read_whatever_one_answer_said(kafka, fail_on_data_loss, times):
    """A leader that has just taken over can refuse an offset that it holds."""
    kafka.fail("Fetch", "OFFSET_OUT_OF_RANGE", count=times)
    assert read(kafka, 10, 100, failOnDataLoss=fail_on_data_loss) == list(range(10, 100))


def test_an_offset_refused_for_good_is_an_error_in_the_end(kafka):
    kafka.fail("Fetch", "OFFSET_OUT_OF_RANGE", count=1_000_000)
    with pytest.raises(OffsetOutOfRangeError):
        read(kafka, 10, 100, **{"kafkaConsumer.pollTimeoutMs": "3000"})


def test_a_topic_that_is_not_there_is_said_at_once(kafka):
    """With its name and the option, rather than after the minute that a call may take."""
    absent = options(kafka, subscribe="t,absent", **{"kafka.fetch.min.bytes": "1", "kafka.client.id": "mine"})
    start = time.monotonic()
    with pytest.raises(NotFoundError, match="option subscribe names topic absent, which does not exist"):
        kafka_log.planner(absent).batch()
    assert time.monotonic() - start < 60 / 4


def test_a_topic_that_is_deleted_while_it_is_read(kafka):
    """Between the plan and the task: it is data loss, and not a bare code at the deadline."""
    planned = kafka_log.planner(options(kafka)).batch()
    with ottla.Admin(kafka.bootstrap_servers) as admin:
        admin.delete_topics(["t"])
    with pytest.raises(
        DataLossError, match="t-0: the topic was deleted .* from offset 0 to 100 are gone. .* failOnDataLoss"
    ):
        list(rows(options(kafka), *planned))
    with pytest.warns(DataLossWarning, match="t-0: the topic was deleted"):
        assert list(rows(options(kafka, failOnDataLoss="false"), *planned)) == []


def test_the_bytes_of_records_are_sampled(kafka):
    log = kafka_log.KafkaLog(options(kafka))
    with ottla.Producer(kafka.bootstrap_servers) as producer:
        producer.send_many("t", [b"v" * 60] * 50, keys=[b"k" * 40] * 50).result(30)
    # The first hundred have values of one or two bytes.
    assert log.record_bytes({("t", 0): 100}, {("t", 0): 150}) == {("t", 0): 100.0}
    assert 1 < log.record_bytes({("t", 0): 0}, {("t", 0): 150})["t", 0] < 100


def test_a_sample_begins_where_the_log_does(kafka):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([confluent_kafka.TopicPartition("t", 0, 90)]).values():
        future.result(30)
    assert kafka_log.KafkaLog(options(kafka)).record_bytes({("t", 0): 40}, {("t", 0): 100}) == {("t", 0): 20 / 60}


def test_what_holds_no_record_has_no_bytes(kafka):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([confluent_kafka.TopicPartition("t", 0, 100)]).values():
        future.result(30)
    assert kafka_log.KafkaLog(options(kafka)).record_bytes({("t", 0): 40}, {("t", 0): 100}) == {("t", 0): 0.0}


def test_a_broker_that_does_not_answer_ends_a_sample_at_its_deadline(kafka):
    kafka.ignore("Fetch", count=1_000_000)
    waiting = kafka_log.KafkaLog(options(kafka, **{"kafkaConsumer.pollTimeoutMs": "2000"}))
    with pytest.raises(KafkaTimeoutError, match="t-0: no records came for 2 s to measure their size"):
        waiting.record_bytes({("t", 0): 0}, {("t", 0): 100})


def test_internal_topics_match_no_pattern(kafka):
    log = kafka_log.KafkaLog(options(kafka))
    with ottla.Admin(kafka.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("taken", partitions=2), ottla.NewTopic("other")])
    assert log.partitions(Topics(pattern="t")) == [("other", 0), ("t", 0), ("taken", 0), ("taken", 1)]
    assert log.partitions(Topics(pattern="^t")) == [("t", 0), ("taken", 0), ("taken", 1)]
    assert log.partitions(Topics(pattern="^x")) == []


def test_assigned_partitions_that_are_not_there_are_left_out_and_told(kafka, caplog):
    log = kafka_log.KafkaLog(options(kafka))
    for _ in range(2):
        assert log.partitions(Topics(assigned=(("t", 0), ("t", 7)))) == [("t", 0)]
    assert caplog.text.count("t-7") == 1
    with pytest.raises(NotFoundError, match="option assign names topic absent"):
        log.partitions(Topics(assigned=(("absent", 0),)))
