"""Streams that write exactly once to real Kafka while everything dies: 20,000 records of 20,000, once each.

A query copies a topic in three micro-batches of two tasks. Faults strike a task when its rows are sent and its transaction
is about to be committed, or was committed.
"""

import time

import pytest
from tests.brokers.shared import shared

from .once import PARTITIONS, RECORDS, Copy, Driver, fault, fill, happened

pytestmark = [pytest.mark.needs("java", "mvn"), pytest.mark.timeout(380)]

ONCE_EACH = {1: RECORDS}
# The task may fail three times before the query does.
MASTER = "local[2,4]"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory):
    with shared(tmp_path_factory.mktemp("kafka"), "4.4.0") as cluster:
        yield cluster.st["bootstrap"]["PLAINTEXT"]


@pytest.fixture(scope="module")
def source(bootstrap):
    return fill(bootstrap)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    driver = Driver(MASTER, tmp_path_factory.mktemp("faults"))
    yield driver
    driver.kill()


@pytest.fixture
def copy(bootstrap, source, tmp_path):
    return lambda **asked: Copy(bootstrap, source, tmp_path, **asked)


def attempts(driver, what, batch=1, shard=1):
    """The attempts of a task to which this happened."""
    return [told[3] for told in happened(driver) if told[:3] == (what, batch, shard)]


def test_tasks_are_retried(driver, copy):
    """Whoever dies before its commit writes its rows again, and whoever dies after it does not."""
    query = copy()
    faults = [
        fault("task dies", "before", batch=0, shard=0),
        fault("task dies", "after", batch=0, shard=1),
        fault("worker is killed", "before", batch=1, shard=0),
        fault("worker is killed", "after", batch=1, shard=1),
    ]
    assert query.run(driver, *faults) is None
    for struck in faults:
        place = struck["batch"], struck["shard"]
        # Which numbers they have is Spark's: a worker that does not start in time is an attempt, too.
        (died,), (committed,) = attempts(driver, struck["what"], *place), attempts(driver, "committed", *place)
        assert died < committed if struck["at"] == "before" else died == committed
    assert query.counts() == ONCE_EACH


def test_a_query_that_failed_goes_on_from_its_checkpoint(driver, copy):
    """Other tasks of the batch have committed, and leave it out when it is replayed."""
    query = copy(repartition=PARTITIONS)
    assert "TaskDiedError" in query.run(driver, fault("task dies", times=4))
    assert attempts(driver, "task dies") == [0, 1, 2, 3]
    assert not attempts(driver, "committed")
    assert query.counts(died=True) != ONCE_EACH
    assert query.run(driver) is None
    assert attempts(driver, "committed") == [0]
    assert query.counts() == ONCE_EACH


def test_a_batch_that_is_replayed_is_not_written_again(driver, copy):
    """As if the driver had died when all was in Kafka, before Spark noted that the batch is done."""
    query = copy()
    assert query.run(driver) is None
    (query.checkpoint / "commits" / "2").unlink()
    (query.checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    assert query.run(driver) is None
    assert happened(driver) == []
    assert (query.checkpoint / "commits" / "2").exists()
    assert query.counts() == ONCE_EACH


def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(driver, tmp_path, copy):
    query = copy()
    killed = Driver(MASTER, tmp_path / "faults")
    try:
        query.prepare(killed, fault("task waits", at="after"))
        killed.ask(query.asked)
        end = time.monotonic() + 150
        while not attempts(killed, "task waits"):
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        killed.kill()
    assert query.counts(died=True) != ONCE_EACH
    # Another driver, as one that is started in its place.
    assert query.run(driver) is None
    assert attempts(driver, "committed") == []
    assert query.counts() == ONCE_EACH


def test_a_stream_says_at_the_end_of_its_trace_what_is_wrong(driver, copy):
    """A task more than there are shards, and shards that are others than those of the batch before."""
    query = copy()
    assert query.run(driver, fault("task dies", batch=2, times=4)) is not None
    options = {**query.asked["options"], "shards": "1"}
    another = "was written with shards=2, and now with shards=1"
    said = query.run(driver, options=options)
    # The task that fails first ends the query: mostly that of shard 1, which need not ask Kafka.
    first = "has more tasks than option shards allows (1): call .repartition(1) before the write"
    assert first in said or another in said, said
    said = query.run(driver, options=options, repartition=1)
    assert another in said, said
    assert query.run(driver) is None
    assert query.counts() == ONCE_EACH
