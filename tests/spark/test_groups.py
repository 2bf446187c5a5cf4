"""Where consumer groups stand, as a beginning of reads and as what streams tell."""

import time
from types import SimpleNamespace

import confluent_kafka
import pytest
from pyspark.errors import PySparkException

import ottla
from ottla.spark import commit_listener
from ottla.spark.read import client_pool

pytestmark = pytest.mark.timeout(180)


def group_at(topic, group, partitions=(0,)):
    """What a group has committed of partitions, as another client reads it."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": topic.bootstrap, "group.id": group})
    found = consumer.committed([confluent_kafka.TopicPartition(topic.name, p) for p in partitions], 20)
    consumer.close()
    return [at.offset if at.offset >= 0 else None for at in found]


def commit(topic, group, *offsets):
    """Commit as another client does: the offsets of partitions from 0 on."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": topic.bootstrap, "group.id": group})
    at = [confluent_kafka.TopicPartition(topic.name, p, offset) for p, offset in enumerate(offsets)]
    consumer.commit(offsets=at, asynchronous=False)
    consumer.close()


def test_reads_begin_where_a_group_stands(topic, tmp_path):
    t = topic(2)
    t.produce(range(10), partition=0)
    t.produce(range(10, 13), partition=1)
    commit(t, "billing", 7)
    given = {"startingOffsets": "group:billing"}
    assert sorted(int(bytes(row.value)) for row in t.read(**given).collect()) == [7, 8, 9, 10, 11, 12]
    t.stream(tmp_path, **given)
    assert t.streamed(tmp_path) == [7, 8, 9, 10, 11, 12]
    assert group_at(t, "billing", (0, 1)) == [7, None], "to read tells the group nothing"
    with pytest.raises(PySparkException, match="group biling has committed no offset of"):
        t.read(startingOffsets="group:biling").collect()


def test_a_stream_tells_a_group_what_it_has_read(topic, tmp_path):
    t = topic(1)
    t.produce(range(30))
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10", "commitOffsetsToGroup": "spark"}
    t.stream(tmp_path, **given)
    # Spark tells a source that a batch is done when the next one begins.
    (at,) = group_at(t, "spark")
    assert at in (20, 30)
    listener = commit_listener(t.options(**given))
    t.spark.streams.addListener(listener)
    try:
        t.produce(range(30, 35))
        t.stream(tmp_path, **given)
        deadline = time.monotonic() + 60
        while group_at(t, "spark") != [35]:
            assert time.monotonic() < deadline, group_at(t, "spark")
        while any(key[1] == t.bootstrap for key in client_pool._idle.waiting()):
            assert time.monotonic() < deadline, "the listener's connection outlives the query"
            time.sleep(0.05)
    finally:
        t.spark.streams.removeListener(listener)
    assert t.streamed(tmp_path) == list(range(35))


def test_a_stream_that_may_not_commit_ends_with_the_reason(topic, tmp_path, broker):
    t = topic(1)
    t.produce(range(30))
    broker.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", count=1_000)
    try:
        with pytest.raises(PySparkException) as raised:
            t.stream(
                tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="10", commitOffsetsToGroup="not-allowed"
            )
    finally:
        broker.clear_faults()
    assert "not-allowed" in str(raised.value)
    assert "AuthorizationError" in str(raised.value)


@pytest.mark.parametrize("text", ['{"listened": {"0": 30}}', "{'listened': {'0': 30}}"])
def test_a_listener_understands_each_release(broker, text):
    """Over Connect, Spark before 4.2 reports the text that Python gives the object."""
    with ottla.Admin(broker.bootstrap_servers) as admin:
        if "listened" not in admin.list_topics():
            admin.create_topics([ottla.NewTopic("listened", partitions=1)])
    group = f"listener-{text[1]}"
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "listened"}
    listener = commit_listener({**options, "commitOffsetsToGroup": group})
    sources = [SimpleNamespace(endOffset=other) for other in ("{'logOffset': 3}", "None", "null", "3 4")]
    progress = SimpleNamespace(name=None, sources=[*sources, SimpleNamespace(endOffset=text)])
    listener.onQueryProgress(SimpleNamespace(progress=progress))
    listener.onQueryTerminated(None)
    assert group_at(SimpleNamespace(bootstrap=broker.bootstrap_servers, name="listened"), group) == [30]


def test_a_listener_wants_a_group():
    with pytest.raises(ValueError, match="option commitOffsetsToGroup is missing"):
        commit_listener({"kafka.bootstrap.servers": "h:1", "subscribe": "t"})
