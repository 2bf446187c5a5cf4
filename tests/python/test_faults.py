"""Faults that are played from Python: what a client sees of each, and that it gets its record through, once."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import TopicPartition, errors
from ottla.testing import Broker
from tests.python.conftest import PATIENCE
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTS: dict[str, Callable[[Broker, str], None]] = {
    "an error": lambda broker, api: broker.fail(api, "NOT_LEADER_OR_FOLLOWER"),
    "an error, late": lambda broker, api: broker.fail(api, "NOT_LEADER_OR_FOLLOWER", after=0.2),
    "an error, though applied": lambda broker, api: broker.fail(api, "REQUEST_TIMED_OUT", applied=True),
    "both": lambda broker, api: broker.fail(api, "REQUEST_TIMED_OUT", applied=True, after=0.2),
    "late": lambda broker, api: broker.delay(api, 0.2),
    "throttled": lambda broker, api: broker.throttle(api, 0.2),
    "closed": lambda broker, api: broker.disconnect(api),
    "closed, though applied": lambda broker, api: broker.disconnect(api, applied=True),
    "closed, though answered": lambda broker, api: broker.disconnect(api, answered=True),
    "cut": lambda broker, api: broker.cut(api, 7),
    "in bytes": lambda broker, api: broker.trickle(api),
    "no answer": lambda broker, api: broker.ignore(api),
    "no answer, though applied": lambda broker, api: broker.ignore(api, applied=True),
    "no answer from there on": lambda broker, api: broker.hang(api),
    "twice": lambda broker, api: broker.answer_twice(api),
    "another's": lambda broker, api: broker.answer_another(api),
    "with less": lambda broker, api: broker.withhold(api),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api_name", ["Produce", "Metadata"])
def test_a_record_gets_through(broker, address, topic, fault, api_name):
    with ottla.Producer(address, request_timeout_ms=1000, linger_ms=0) as producer:
        FAULTS[fault](broker, api_name)
        offsets = [producer.send(topic, b"%d" % i, partition=0).result(timeout=30).offset for i in range(3)]
    broker.clear_faults()
    assert offsets == [0, 1, 2]
    with ottla.Consumer(address) as consumer:
        assert consumer.end_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 3}


# --- what a client sees ---


def read(consumer: ottla.Consumer, count: int) -> list[ottla.Record]:
    """So many records, by as many polls as it takes, and what came with the last of them."""
    found: list[ottla.Record] = []
    end = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records came"
        found += consumer.poll(PATIENCE)
    return found


def values(servers: str, topic: str, count: int) -> list[bytes | None]:
    """All values of partition 0."""
    with ottla.Consumer(servers) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = read(consumer, count)
        assert consumer.end_offsets([(topic, 0)]) == {TopicPartition(topic, 0): count}
        return [record.value for record in found]


def topics(connection: Connection) -> list[int]:
    """The error code of each topic."""
    return [row["error_code"] for row in connection.ask("Metadata", 9, {"topics": [{"name": "flights"}]})["topics"]]


@pytest.mark.parametrize("applied", [False, True])
def test_an_error_may_be_late_and_untrue(broker, address, topic, applied):
    made = f"{topic}-made"
    with ottla.Admin(address) as admin:
        broker.fail("CreateTopics", "POLICY_VIOLATION", applied=applied, after=0.3)
        begin = time.monotonic()
        with pytest.raises(errors.KafkaError, match="POLICY_VIOLATION"):
            admin.create_topics(made)
        assert time.monotonic() - begin >= 0.3
        assert (made in admin.list_topics()) == applied


def test_a_record_without_an_answer_may_be_there(broker, address, topic):
    settings = {"retries": 0, "enable_idempotence": False, "request_timeout_ms": 300, "linger_ms": 0}
    with ottla.Producer(address) as producer:
        producer.send(topic, b"first", partition=0).result(PATIENCE)
    with ottla.Producer(address, **settings) as producer:
        for applied in (False, True):
            broker.ignore("Produce", applied=applied)
            with pytest.raises(errors.KafkaError) as caught:
                producer.send(topic, b"%d" % applied, partition=0).result(PATIENCE)
            assert caught.value.written is None, "nobody can know"
    assert values(address, topic, 2) == [b"first", b"1"]


def test_an_answer_comes_in_bytes_and_the_next_one_whole(broker, address):
    broker.trickle("ApiVersions")
    with Connection(address) as connection:
        assert connection.ask("ApiVersions", 2, {})["error_code"] == 0
        assert connection.ask("ApiVersions", 2, {})["error_code"] == 0


def test_a_connection_ends_behind_an_answer(broker, address):
    broker.disconnect("ApiVersions", answered=True)
    with Connection(address) as connection:
        assert connection.ask("ApiVersions", 2, {})["error_code"] == 0
        assert connection.is_closed()


def test_a_fault_may_be_that_of_one_node():
    with Broker(nodes=3, topics=["flights"]) as cluster:
        nodes = cluster.bootstrap_servers.split(",")
        cluster.fail("Metadata", "UNKNOWN_SERVER_ERROR", node=2, count=2)
        # One that strikes whichever comes first waits for its turn.
        cluster.fail("Metadata", "LEADER_NOT_AVAILABLE")
        with Connection(nodes[1]) as second, Connection(nodes[2]) as third:
            assert topics(second) == [-1]
            assert topics(third) == [5]
            assert topics(third) == [0]
            assert topics(second) == [-1]
            assert topics(second) == [0]
            cluster.ignore("Metadata", node=3)
            cluster.clear_faults()
            assert topics(third) == [0]
        with pytest.raises(errors.ArgumentError, match="there is no node 4; there are 1 to 3"):
            cluster.hang("Fetch", node=4)
    with Broker(topics=["flights"]) as alone:
        alone.fail("Metadata", "UNKNOWN_SERVER_ERROR", node=1)
        with Connection(alone.bootstrap_servers) as connection:
            assert topics(connection) == [-1]


def test_metadata_comes_without_the_ids_of_topics_now_and_then(broker, address, topic):
    """A client that knows an id goes on with it, and one that knows none does without."""
    nobody = "00000000-0000-0000-0000-000000000000"
    with Connection(address) as connection:

        def known() -> list[bool]:
            answer = connection.ask("Metadata", 12, {"topics": [{"name": topic}]})
            return [str(row["topic_id"]) != nobody for row in answer["topics"]]

        assert known() == [True]
        broker.withhold("Metadata")
        assert known() == [False]
        assert known() == [True]
    settings = {"metadata_max_age_ms": 20, "linger_ms": 0}
    with (
        ottla.Producer(address, **settings) as producer,
        ottla.Consumer(address, metadata_max_age_ms=20) as consumer,
    ):
        producer.send(topic, b"0", partition=0).result(PATIENCE)
        consumer.assign([TopicPartition(topic, 0, 0)])
        for number in range(1, 20):
            if number % 3:
                broker.withhold("Metadata")
            producer.send(topic, b"%d" % number, partition=0).result(PATIENCE)
            time.sleep(0.03)
        assert [record.value for record in read(consumer, 20)] == [b"%d" % number for number in range(20)]
        broker.clear_faults()
        broker.withhold("Metadata", count=10_000)
        with ottla.Producer(address, linger_ms=0) as late:
            assert late.send(topic, b"20", partition=0).result(PATIENCE).offset == 20
        assert [record.value for record in read(consumer, 1)] == [b"20"]
    broker.clear_faults()


def test_a_new_leader_is_found_without_a_hint():
    with Broker(nodes=3, topics=["flights"]) as cluster:
        old = cluster.leader("flights")
        new = old % 3 + 1
        cluster.move_leader("flights", to=new)
        asked = {"topics": [{"topic": "flights", "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}]}
        with Connection(cluster.bootstrap_servers.split(",")[old - 1]) as connection:

            def hinted() -> tuple[int, int]:
                (row,) = connection.ask("Fetch", 12, asked)["responses"][0]["partitions"]
                return row["error_code"], row["current_leader"]["leader_id"]

            assert hinted() == (6, new)
            cluster.withhold("Fetch", node=old)
            assert hinted() == (6, -1)
            assert hinted() == (6, new)
        for api in ("Produce", "Fetch"):
            cluster.withhold(api, count=10_000)
        settings = {"metadata_max_age_ms": 300_000, "retry_backoff_ms": 10}
        with (
            ottla.Producer(cluster.bootstrap_servers, linger_ms=0, **settings) as producer,
            ottla.Consumer(cluster.bootstrap_servers, **settings) as consumer,
        ):
            consumer.assign([TopicPartition("flights", 0, 0)])
            for number in range(4):
                producer.send("flights", b"%d" % number, partition=0).result(PATIENCE)
                assert [record.value for record in read(consumer, 1)] == [b"%d" % number]
                cluster.move_leader("flights", to=cluster.leader("flights") % 3 + 1)
        with pytest.raises(errors.ArgumentError, match="Heartbeat has nothing"):
            cluster.withhold("Heartbeat")


def test_a_topic_is_made_anew_under_clients():
    settings = {"metadata_max_age_ms": 50}
    with Broker(topics=["flights"], config={"auto.create.topics.enable": False}) as broker:
        servers = broker.bootstrap_servers
        with (
            Connection(servers) as connection,
            ottla.Admin(servers) as admin,
            ottla.Producer(servers, linger_ms=0, **settings) as producer,
            ottla.Consumer(servers, auto_offset_reset="earliest", **settings) as consumer,
        ):

            def topic_id() -> str:
                (row,) = connection.ask("Metadata", 12, {"topics": [{"name": "flights"}]})["topics"]
                return str(row["topic_id"])

            consumer.assign([TopicPartition("flights", 0, 0)])
            for number in range(3):
                producer.send("flights", b"%d" % number).result(PATIENCE)
            assert len(read(consumer, 3)) == 3
            before = topic_id()
            admin.delete_topics("flights")
            admin.create_topics("flights")
            assert topic_id() != before
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    assert producer.send("flights", b"anew").result(PATIENCE).offset == 0
                    break
                except errors.KafkaError:
                    assert time.monotonic() < end, "the producer does not find the topic again"
            assert [(record.offset, record.value) for record in read(consumer, 1)] == [(0, b"anew")]


def newest(address: str, api: int) -> int:
    with Connection(address) as connection:
        return next(row for row in connection.ask("ApiVersions", 2, {})["api_keys"] if row["api_key"] == api)[
            "max_version"
        ]


def test_versions_change_between_connections():
    """A client learns what each connection's broker speaks, and never goes on with what an earlier one did."""
    with Broker(nodes=3, topics=["flights"]) as cluster:
        first, second, _ = cluster.bootstrap_servers.split(",")
        of_today = newest(first, 0)
        cluster.set_release("2.8", node=2)
        assert newest(first, 0) == of_today > newest(second, 0)
        settings = {"linger_ms": 0, "reconnect_backoff_ms": 10}
        with (
            ottla.Producer(cluster.bootstrap_servers, **settings) as producer,
            ottla.Consumer(cluster.bootstrap_servers, reconnect_backoff_ms=10) as consumer,
        ):
            consumer.assign([TopicPartition("flights", 0, 0)])
            seen: list[bytes] = []
            for release in ("4.4", "2.3", "0.11.0", "3.9"):
                cluster.set_release(release)
                # What there was before may be closed in the middle of a request.
                cluster.disconnect("Fetch")
                offset = producer.send("flights", release.encode()).result(PATIENCE).offset
                while len(seen) <= offset:
                    seen += [record.value for record in consumer.poll(PATIENCE)]
        assert seen == [b"4.4", b"2.3", b"0.11.0", b"3.9"]
        with pytest.raises(errors.ArgumentError, match="there are 0.8.2"):
            cluster.set_release("5.0")


@pytest.mark.parametrize("nodes", [1, 3])
def test_partitions_grow_under_clients(nodes):
    settings = {"metadata_max_age_ms": 100}
    with Broker(nodes=nodes, topics=["flights"]) as broker:
        servers = broker.bootstrap_servers
        with (
            ottla.Producer(servers, linger_ms=0, **settings) as producer,
            ottla.Consumer(servers, group_id="g", auto_offset_reset="earliest", **settings) as consumer,
        ):
            consumer.subscribe("flights")
            producer.send("flights", b"before").result(PATIENCE)
            assert [record.value for record in read(consumer, 1)] == [b"before"]
            broker.create_partitions("flights", 3)
            end = time.monotonic() + PATIENCE
            producer.send("flights", b"after", partition=2).result(PATIENCE)
            found: list[Any] = []
            while not found:
                assert time.monotonic() < end, "the group was not assigned the new partition"
                found = list(consumer.poll(1))
            assert [(record.partition, record.value) for record in found] == [(2, b"after")]
        with pytest.raises(errors.ArgumentError, match="has 3 partitions; 3 is not more"):
            broker.create_partitions("flights", 3)
        with pytest.raises(errors.ArgumentError, match="nowhere"):
            broker.create_partitions("nowhere", 3)


@pytest.mark.parametrize("nodes", [1, 3])
def test_records_are_deleted_before_a_consumer_has_read_them(nodes):
    with Broker(nodes=nodes, topics=["flights"]) as broker:
        servers = broker.bootstrap_servers
        with ottla.Producer(servers) as producer:
            for number in range(6):
                producer.send("flights", b"%d" % number)
            producer.flush(PATIENCE)
        assert broker.delete_records("flights", before=4) == 4
        with ottla.Consumer(servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("flights", 0, 1)])
            assert [record.offset for record in read(consumer, 2)] == [4, 5]
        with ottla.Consumer(servers, auto_offset_reset="none") as consumer:
            consumer.assign([TopicPartition("flights", 0, 1)])
            with pytest.raises(errors.OffsetOutOfRangeError):
                consumer.poll(PATIENCE)
        assert broker.delete_records("flights") == 6
        with pytest.raises(errors.ArgumentError, match="OFFSET_OUT_OF_RANGE"):
            broker.delete_records("flights", before=7)
        with pytest.raises(errors.ArgumentError, match="there is no partition 1|UNKNOWN_TOPIC_OR_PARTITION"):
            broker.delete_records("flights", 1)


# --- what `fail` plays, as docs/testing/index.md says ---

READING = {
    "a coordinator that loads": [("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"), ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS")],
    "a coordinator that moved": [("Heartbeat", "NOT_COORDINATOR"), ("OffsetFetch", "NOT_COORDINATOR")],
    "a fetch session that is lost": [("Fetch", "FETCH_SESSION_ID_NOT_FOUND"), ("Fetch", "INVALID_FETCH_SESSION_EPOCH")],
    "a rebalance before the assignment": [("SyncGroup", "REBALANCE_IN_PROGRESS")],
    "a rebalance after the assignment": [("Heartbeat", "REBALANCE_IN_PROGRESS")],
    "a rebalance of commits": [("OffsetCommit", "REBALANCE_IN_PROGRESS")],
    "a member that is forgotten": [("Heartbeat", "UNKNOWN_MEMBER_ID")],
    "a generation that is over": [("Heartbeat", "ILLEGAL_GENERATION")],
}  # fmt: skip
# What listeners are told of it.
SEEN = {
    "a rebalance after the assignment": "revoked",
    "a member that is forgotten": "lost",
    "a generation that is over": "lost",
}


@pytest.fixture(scope="module")
def coordinator():
    """A broker that forgets members soon."""
    with Broker(config={"group.min.session.timeout.ms": 1000}) as broker:
        yield broker


@pytest.mark.parametrize("played", READING)
def test_a_group_reads_on_through_what_fail_plays(coordinator, played):
    """All records come; those since the last commit come again where the membership was lost."""
    address, topic = coordinator.bootstrap_servers, played.replace(" ", "-")
    settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 50, "session_timeout_ms": 1500}
    told: list[str] = []
    seen: set[int] = set()
    with (
        ottla.Producer(address, linger_ms=0) as producer,
        ottla.Consumer(address, group_id=topic, enable_auto_commit=False, **settings) as consumer,
    ):
        consumer.subscribe(
            topic,
            on_assign=lambda _: told.append("assigned"),
            on_revoke=lambda _: told.append("revoked"),
            on_lost=lambda _: told.append("lost"),
        )

        def goes_on(number: int) -> None:
            end = time.monotonic() + PATIENCE
            producer.send(topic, b"%d" % number).result(PATIENCE)
            while number not in seen:
                assert time.monotonic() < end, (seen, told)
                seen.update(int(record.value) for record in consumer.poll(0.2))
            # The membership may have ended, or a rebalance be under way: what is not committed comes again.
            with contextlib.suppress(errors.CommitFailedError):
                consumer.commit()

        play(coordinator, READING[played])
        for number in range(5):
            goes_on(number)
        play(coordinator, READING[played])
        end = time.monotonic() + PATIENCE
        expected = SEEN.get(played, "assigned")
        while expected not in told:
            assert time.monotonic() < end, told
            consumer.poll(0.05)
        for number in range(5, 10):
            goes_on(number)
    coordinator.clear_faults()
    assert seen == set(range(10))


def play(broker: Broker, faults: list[tuple[str, str]]) -> None:
    for api, error in faults:
        broker.fail(api, error)


@pytest.mark.parametrize("error", ["UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"])
def test_a_producer_that_the_broker_forgot_writes_on(broker, address, topic, error):
    with ottla.Producer(address, linger_ms=0) as producer:
        producer.send(topic, b"first", partition=0).result(PATIENCE)
        broker.fail("Produce", error)
        sends = [producer.send(topic, b"%d" % number, partition=0) for number in range(5)]
        for send in sends:
            send.result(PATIENCE)
        producer.send(topic, b"last", partition=0).result(PATIENCE)
    assert values(address, topic, 7) == [b"first", *(b"%d" % number for number in range(5)), b"last"]


@pytest.mark.parametrize("release", ["4.4", "2.3"])
def test_a_producer_that_was_idle_for_too_long_writes_on(release):
    """KIP-854: the partition forgets it by the time of its newest record; the next one has a number that nobody expects."""
    config = {"producer.id.expiration.ms": 1000, "producer.id.expiration.check.interval.ms": 20}
    with Broker(topics=["flights"], config=config, as_version=release) as broker:
        servers = broker.bootstrap_servers
        with ottla.Producer(servers, linger_ms=0) as producer, ottla.Admin(servers) as admin:
            producer.send("flights", b"old", timestamp=1).result(PATIENCE)
            if release == "4.4":
                end = time.monotonic() + PATIENCE
                while admin.describe_producers([("flights", 0)])[TopicPartition("flights", 0)]:
                    assert time.monotonic() < end
                    time.sleep(0.02)
            else:
                time.sleep(0.5)
            for value in (b"one", b"two"):
                producer.send("flights", value).result(PATIENCE)
        assert values(servers, "flights", 3) == [b"old", b"one", b"two"]


@pytest.mark.parametrize(("api_name", "error"), [("EndTxn", "PRODUCER_FENCED"), ("Produce", "INVALID_PRODUCER_EPOCH")])
def test_a_transactional_producer_is_fenced(broker, address, topic, api_name, error):
    with ottla.Producer(address, transactional_id=f"t-{topic}", linger_ms=0) as producer:
        producer.init_transactions()
        broker.fail(api_name, error, count=3)
        with pytest.raises(errors.KafkaError) as caught, producer.transaction():
            producer.send(topic, b"never")
        assert api_name == "Produce" or isinstance(caught.value, errors.FencedError)
    broker.clear_faults()
    with ottla.Consumer(address, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert not list(consumer.poll(0.5))
