"""What only a real broker does: transactions, its own timestamps, deleted records, topics made anew, leaders that move."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as ForeignPartition
from kafka.errors import TopicAlreadyExistsError

import ottla
from tests.integration.conftest import REAL, SHORT_SESSIONS, kafka_for_a_while
from tests.integration.peers.base import DEADLINE, until
from tests.integration.peers.confluent import Confluent
from tests.integration.stamps import Sent
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]
LOG_APPEND_TIME = 1


def read(bootstrap: str, topic: str, count: int, start: int = 0, **properties: Any) -> list[ottla.Record]:
    """`count` records of partition 0, and a moment more to see that there are no others."""
    out: list[ottla.Record] = []
    with ottla.Consumer(bootstrap, **properties) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0, start)])
        for _ in until(DEADLINE, f"{count} records"):
            out += consumer.poll(0.5)
            if len(out) >= count:
                return [*out, *consumer.poll(0.5)]
    raise AssertionError("not reached")


def test_aborted_transactions_are_hidden_and_markers_are_no_records(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(DEADLINE)
    for number, end in enumerate(["commit", "abort", "commit", "abort", "commit"]):
        producer.begin_transaction()
        for i in range(3):
            producer.produce(topic, f"{end} {number} {i}".encode())
        producer.flush(DEADLINE)
        (producer.commit_transaction if end == "commit" else producer.abort_transaction)(DEADLINE)

    committed = read(kafka, topic, 9, isolation_level="read_committed")
    every = read(kafka, topic, 15)

    assert [r.value for r in committed] == [f"commit {n} {i}".encode() for n in (0, 2, 4) for i in range(3)]
    assert [r.offset for r in every] == [n * 4 + i for n in range(5) for i in range(3)]  # each marker takes an offset


def test_an_open_transaction_holds_readers_of_committed_records(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    with ottla.Producer(kafka) as plain:
        plain.send(topic, b"before").result(DEADLINE)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(DEADLINE)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(DEADLINE)
    with ottla.Consumer(kafka, isolation_level="read_committed") as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0, 0)])
        assert [r.value for r in consumer.poll(DEADLINE)] == [b"before"]
        assert len(consumer.poll(1)) == 0
        producer.commit_transaction(DEADLINE)
        assert [r.value for r in consumer.poll(DEADLINE)] == [b"open"]


def test_the_producers_of_a_partition(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    mine, other = ottla.TopicPartition(topic, 0), ottla.TopicPartition(topic, 1)
    with ottla.Producer(kafka, linger_ms=0) as producer, ottla.Admin(kafka) as admin:
        for stamp in (1_000, 2_000, 3_000):
            producer.send(topic, b"v", partition=0, timestamp=stamp).result(DEADLINE)
        described = admin.describe_producers([other, mine])
        assert list(described) == [other, mine]
        assert described[other] == []
        (state,) = described[mine]
        assert (state.producer_id >= 0, state.producer_epoch, state.last_sequence) == (True, 0, 2)
        assert (state.last_timestamp, state.current_transaction_start_offset) == (3_000, None)

        with ottla.Producer(kafka) as second:
            second.send(topic, b"v", partition=0).result(DEADLINE)
        first, newer = admin.describe_producers([mine])[mine]
        assert first == state
        assert newer.producer_id > state.producer_id
        assert newer.last_sequence == 0

        open_one = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
        open_one.init_transactions(DEADLINE)
        open_one.begin_transaction()
        open_one.produce(topic, b"open", partition=1)
        open_one.flush(DEADLINE)

        def writing() -> ottla.ProducerState:
            (state,) = admin.describe_producers([other])[other]
            return state

        assert writing().current_transaction_start_offset == 0
        open_one.abort_transaction(DEADLINE)
        wait_until(lambda: writing().current_transaction_start_offset is None, "the marker is written")
        assert writing().coordinator_epoch >= 0


def test_the_brokers_clock(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 1, {"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    with ottla.Producer(kafka) as producer:
        report = producer.send(topic, b"v", timestamp=1_000).result(DEADLINE)
    (record,) = read(kafka, topic, 1)
    assert before - 1000 <= record.timestamp <= time.time() * 1000 + 1000
    assert record.timestamp_type == LOG_APPEND_TIME
    assert report.timestamp == record.timestamp


def test_offsets_by_time(kafka: str, new_topic: Callable[..., str]) -> None:
    topic, start = new_topic(kafka), 1_700_000_000_000
    with ottla.Producer(kafka) as producer:
        for i in range(10):
            producer.send(topic, b"v", timestamp=start + i * 1000)
    partition = ottla.TopicPartition(topic, 0)
    with ottla.Consumer(kafka) as consumer:
        found = consumer.offsets_for_times({partition: start + 3500})
        assert found[partition] == (4, start + 4000)
        assert consumer.offsets_for_times({partition: start + 10_000})[partition] is None


def test_records_deleted_below_the_position(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    with ottla.Producer(kafka, linger_ms=0) as producer:
        for i in range(20):
            producer.send(topic, b"%d" % i).result(DEADLINE)
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 3})
    for future in admin.delete_records([TopicPartition(topic, 0, 12)]).values():
        future.result(DEADLINE)
    partition = ottla.TopicPartition(topic, 0, 5)
    with ottla.Consumer(kafka) as consumer:
        assert consumer.beginning_offsets([partition]) == {partition: 12}
    assert [r.offset for r in read(kafka, topic, 8, start=5, auto_offset_reset="earliest")] == list(range(12, 20))
    assert [r.value for r in read(kafka, topic, 6, start=14)] == [b"%d" % i for i in range(14, 20)]


def test_records_larger_than_a_fetch(kafka: str, new_topic: Callable[..., str]) -> None:
    """Kafka answers with one whole batch, whatever the limits: reading goes on behind it (KIP-74)."""
    topic = new_topic(kafka, 1, {"max.message.bytes": "8000000"})
    values = [b"small", b"L" * 5_000_000, b"after"]
    with ottla.Producer(kafka, max_request_size=8_000_000) as producer:
        for value in values:
            producer.send(topic, value).result(DEADLINE)
    limits = {"max_partition_fetch_bytes": 10_000, "fetch_max_bytes": 10_000}
    assert [r.value for r in read(kafka, topic, 3, **limits)] == values


def test_a_cluster_is_described_as_librdkafka_describes_it(kafka: str) -> None:
    client = AdminClient({"bootstrap.servers": kafka})
    theirs = client.describe_cluster(include_authorized_operations=True).result(DEADLINE)
    with ottla.Admin(kafka) as admin:
        ours = admin.describe_cluster(include_authorized_operations=True, include_fenced_brokers=True)
    assert ours.cluster_id == theirs.cluster_id
    assert [(node.id, node.host, node.port) for node in ours.nodes] == sorted(
        (node.id, node.host, node.port) for node in theirs.nodes
    )
    # In KRaft mode each broker names another one.
    assert ours.controller in ours.nodes
    assert ours.authorized_operations == {operation.name for operation in theirs.authorized_operations}


def test_a_topic_made_anew(kafka: str, new_topic: Callable[..., str]) -> None:
    """Same name, new topic id: a producer that knew the old one goes on, a consumer reads the new one from its beginning.

    The consumer asks so seldom that the new log already holds the position it had in the old one.
    """
    topic = new_topic(kafka, 2)
    slow = {"retry_backoff_ms": 2000, "retry_backoff_max_ms": 2000}
    with (
        ottla.Producer(kafka, linger_ms=0) as producer,
        ottla.Admin(kafka) as admin,
        ottla.Consumer(kafka, topics=[topic], auto_offset_reset="earliest", **slow) as consumer,
    ):
        for _ in range(3):
            producer.send(topic, b"old", partition=0).result(DEADLINE)
        assert [r.value for r in polled(consumer, 3)] == [b"old"] * 3
        old = admin.describe_topics([topic])[topic].id
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), f"{topic} is gone")
        admin.create_topics([ottla.NewTopic(topic, 2, 1)])
        wait_until(lambda: topic in admin.list_topics(), f"{topic} is back")
        assert admin.describe_topics([topic])[topic].id != old
        new = [b"new %d" % n for n in range(6)]
        assert [producer.send(topic, v, partition=0).result(DEADLINE).offset for v in new] == list(range(6))
        assert [(r.offset, r.value) for r in polled(consumer, 6)] == list(enumerate(new))
    assert [r.value for r in read(kafka, topic, 6)] == new


def test_a_topic_made_anew_where_topics_have_no_ids(tmp_path: Path) -> None:
    """From 2.1 to 2.7 leaders have epochs, and a new topic's begin below those of the old one."""
    topic = "anew"
    with kafka_for_a_while(tmp_path / "kafka", version="2.7.2", nodes=2, heap="320m") as cluster:
        bootstrap = str(cluster.st["bootstrap"]["PLAINTEXT"])
        foreign = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
        with ottla.Producer(bootstrap, delivery_timeout_ms=20_000, request_timeout_ms=5_000) as producer:

            def leader() -> int:
                (known,) = foreign.describe_topics([topic])
                # The node that is asked may not have heard of the topic yet.
                return int(known["partitions"][0]["leader_id"]) if known["partitions"] else -1

            def created() -> bool:
                try:
                    foreign.create_topics({topic: {"assignments": {0: [1]}}})
                except TopicAlreadyExistsError:
                    return False
                return True

            assert created()
            for node in (2, 1, 2):  # each move counts the epoch up
                foreign.alter_partition_reassignments({ForeignPartition(topic, 0): [node]})
                wait_until(lambda node=node: leader() == node, f"node {node} leads")
            producer.send(topic, b"old").result(DEADLINE)
            foreign.delete_topics([topic])
            wait_until(created, f"{topic} is gone and can be made again")
            wait_until(lambda: leader() == 1, "node 1 leads")
            assert producer.send(topic, b"new").result(DEADLINE).offset == 0
        foreign.close()
        assert [m.value for m in Confluent().consume_all(bootstrap, topic, 1)] == [b"new"]


def polled(consumer: ottla.Consumer, count: int) -> list[ottla.Record]:
    """The next `count` records."""
    out: list[ottla.Record] = []
    for _ in until(DEADLINE, f"{count} records; {len(out)} came"):
        out += consumer.poll(0.5)
        if len(out) >= count:
            break
    return out


def test_leaders_that_move(start_kafka: Callable[..., Cluster]) -> None:
    """Three nodes, two of them killed in turn while a producer sends to partitions led by all of them."""
    cluster = start_kafka(nodes=3, config=SHORT_SESSIONS)
    bootstrap = str(cluster.st["bootstrap"]["PLAINTEXT"])
    partitions, topic = 3, "moving"
    with ottla.Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic(topic, partitions, 3, config={"min.insync.replicas": 2})])
    sent = Sent("leaders", topic)
    with ottla.Producer(bootstrap, linger_ms=2, delivery_timeout_ms=60_000, request_timeout_ms=5_000) as producer:
        sequence = itertools.count()

        def send(seconds: float) -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                number = next(sequence)
                for partition in range(partitions):
                    sent.send(producer, partition, number)
                time.sleep(0.005)

        for node in (1, 2):
            send(1)
            cluster.kill(f"node{node}")
            send(1)
            producer.flush(DEADLINE)
            cluster.restart(node)
    with ottla.Consumer(bootstrap) as consumer:
        ends = consumer.end_offsets([ottla.TopicPartition(topic, p) for p in range(partitions)])
    sent.check(Confluent().consume(bootstrap, topic, partitions, sum(ends.values())))
