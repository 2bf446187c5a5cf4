"""Reading a range, and planning one, from an embedded broker that misbehaves; without a Spark session."""

import time

import pytest

import ottla
from ottla.errors import NotFoundError, OffsetOutOfRangeError
from ottla.spark import clients
from ottla.spark.offsets import Range
from ottla.spark.options import ReadOptions
from ottla.testing import Broker

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def kafka():
    """A broker whose topic `t` holds 100 records."""
    with Broker(topics=["t"], config={"auto.create.topics.enable": False}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % n for n in range(100)]).result(30)
        yield broker
        for kept in clients._idle.values():
            for client in kept:
                client.close()
        clients._idle.clear()


def options(broker, **given):
    return ReadOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", **given})


def read(broker, start, end, **given):
    batches = clients.read(options(broker, **given), Range("t", 0, start, end))
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
        read(kafka, 10, 100, **{"kafkaConsumer.pollTimeoutMs": "500"})


def test_a_topic_that_is_not_there_is_said_at_once(kafka):
    """With its name and the option, rather than after the minute that a call may take."""
    absent = options(kafka, subscribe="t,absent", **{"kafka.fetch.min.bytes": "1", "kafka.client.id": "mine"})
    start = time.monotonic()
    with pytest.raises(NotFoundError, match="option subscribe names topic absent, which does not exist"):
        clients.planner(absent).batch()
    assert time.monotonic() - start < 60 / 4
