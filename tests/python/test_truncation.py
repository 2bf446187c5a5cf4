"""Logs that are truncated below what was read, and reading from so long ago; both facades, on the embedded broker."""

from __future__ import annotations

import pickle
import time

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker
from tests.python.conftest import PATIENCE

TOPIC = "flights"
PARTITION = ottla.TopicPartition(TOPIC, 0)


@pytest.fixture
def cluster():
    config = {"replica.lag.time.max.ms": 300, "min.insync.replicas": 1}
    with Broker(nodes=2, topics=[TOPIC], config=config) as broker:
        yield broker


def write(cluster, *values):
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send(TOPIC, value, partition=0).result(timeout=PATIENCE)


def wait_for_replicas(cluster, count):
    end = time.monotonic() + PATIENCE
    while len(cluster.partition(TOPIC, 0).in_sync) != count:
        assert time.monotonic() < end, f"{count} replicas are not in sync"
        time.sleep(0.02)


class Cut:
    """A log of five records, the last two of which only its leader has, until the other node leads without them."""

    def __init__(self, cluster):
        self.cluster = cluster
        write(cluster, b"0", b"1", b"2")
        wait_for_replicas(cluster, 2)
        self.leader = cluster.leader(TOPIC)
        self.other = 3 - self.leader
        cluster.pause_replication(self.other)
        write(cluster, b"3", b"4")

    def __call__(self, *later):
        self.cluster.move_leader(TOPIC, to=self.other, unclean=True)
        self.cluster.resume_replication(self.other)
        write(self.cluster, *later)


def values(records):
    return [record.value for record in records]


@pytest.fixture
def cut(cluster):
    return Cut(cluster)


LATER = (b"three", b"four", b"five", b"six")


def test_without_a_policy_a_poll_names_both_offsets(api, cluster, cut):
    with api.consumer(cluster.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([ottla.TopicPartition(TOPIC, 0, 0)])
        assert values(api.poll(consumer, 5)) == [b"0", b"1", b"2", b"3", b"4"]
        cut(*LATER)
        with pytest.raises(errors.LogTruncatedError) as caught:
            api(consumer.poll(PATIENCE))
        error = caught.value
        assert (error.topic, error.partition, error.retriable) == (TOPIC, 0, False)
        facts = {"offset": 5, "leader_epoch": 0, "divergent_offset": 3, "divergent_epoch": 0}
        for told in (error, pickle.loads(pickle.dumps(error))):
            assert {name: getattr(told, name) for name in facts} == facts
        assert "offset 5 was read" in str(error)
        assert "from offset 3 on" in str(error)
        consumer.seek(PARTITION, 3)
        assert values(api.poll(consumer, 4)) == list(LATER)


@pytest.mark.parametrize("policy", ["earliest", "latest", "by_duration:PT1H"])
def test_with_a_policy_reading_goes_on_where_the_logs_part(api, cluster, cut, policy, caplog):
    caplog.set_level("WARNING", "ottla")
    with api.consumer(cluster.bootstrap_servers, auto_offset_reset=policy) as consumer:
        consumer.assign([ottla.TopicPartition(TOPIC, 0, 0)])
        assert len(api.poll(consumer, 5)) == 5
        cut(*LATER)
        assert values(api.poll(consumer, 4)) == list(LATER)
        assert api(consumer.position(PARTITION)) == 7
    (told,) = [record for record in caplog.records if "was truncated" in record.getMessage()]
    assert told.name == "ottla.consumer"
    assert "before offset 5" in told.getMessage()
    assert "from offset 3 on" in told.getMessage()


def test_what_a_group_committed_is_compared(api, cluster, cut):
    options = {"group_id": f"g-{api.name}", "auto_offset_reset": "none", "enable_auto_commit": False}
    with api.consumer(cluster.bootstrap_servers, **options) as consumer:
        consumer.assign([ottla.TopicPartition(TOPIC, 0, 0)])
        api.poll(consumer, 5)
        api(consumer.commit())
        committed = api(consumer.committed([PARTITION]))[PARTITION]
        assert (committed.offset, committed.leader_epoch) == (5, cluster.partition(TOPIC, 0).leader_epoch)
        # What a caller makes up has no epoch.
        api(consumer.commit({PARTITION: 4}))
        assert api(consumer.committed([PARTITION]))[PARTITION].leader_epoch is None
        api(consumer.commit({PARTITION: committed}))
    cut(*LATER)
    with api.consumer(cluster.bootstrap_servers, **options) as consumer:
        consumer.assign([PARTITION])
        with pytest.raises(errors.LogTruncatedError, match="offset 5 was read"):
            api(consumer.poll(PATIENCE))
        consumer.seek(PARTITION, 5)
        assert values(api.poll(consumer, 2)) == [b"five", b"six"]
        consumer.seek(PARTITION, committed)
        with pytest.raises(errors.LogTruncatedError, match="from offset 3 on") as caught:
            api(consumer.poll(PATIENCE))
        error = caught.value
        assert (error.offset, error.leader_epoch, error.divergent_offset) == (5, committed.leader_epoch, 3)


def test_transactions_carry_the_epoch(cluster):
    write(cluster, b"0", b"1")
    done = []
    work = ottla.transform(
        cluster.bootstrap_servers,
        done.extend,
        topics=TOPIC,
        group_id="readers",
        consumer={"auto.offset.reset": "earliest"},
    )

    def until_done():
        end = time.monotonic() + PATIENCE
        with ottla.Consumer(cluster.bootstrap_servers, group_id="readers") as consumer:
            while (found := consumer.committed([PARTITION])[PARTITION]) is None or found.offset < 2:
                assert time.monotonic() < end, found
                time.sleep(0.05)
        work.stop()
        return found

    import threading

    thread = threading.Thread(target=work.run)
    thread.start()
    try:
        found = until_done()
    finally:
        work.stop()
        thread.join(PATIENCE)
    assert (found.offset, found.leader_epoch) == (2, cluster.partition(TOPIC, 0).leader_epoch)


def test_reading_begins_so_long_ago(api, cluster):
    now = int(time.time() * 1000)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for hours, value in ((72, b"old"), (5, b"young"), (1, b"younger")):
            sent = producer.send(TOPIC, value, partition=0, timestamp=now - hours * 3_600_000)
            sent.result(timeout=PATIENCE)
    for policy, expected in (
        ("by_duration:PT6H", [b"young", b"younger"]),
        ("by_duration:P30D", [b"old", b"young", b"younger"]),
    ):
        with api.consumer(cluster.bootstrap_servers, auto_offset_reset=policy) as consumer:
            consumer.assign([PARTITION])
            assert values(api.poll(consumer, len(expected))) == expected
    with api.consumer(cluster.bootstrap_servers, auto_offset_reset="by_duration:PT1M") as consumer:
        consumer.assign([PARTITION])
        assert api(consumer.position(PARTITION)) == 3


@pytest.mark.parametrize("wrong", ["by_duration", "by_duration:6h", "by_duration:-PT6H", "by_duration:P1M", "oldest"])
def test_a_wrong_duration_names_what_is_right(wrong):
    with pytest.raises(errors.ConfigError, match=r"auto_offset_reset: .*by_duration"):
        ottla.Consumer("localhost:1", auto_offset_reset=wrong)
