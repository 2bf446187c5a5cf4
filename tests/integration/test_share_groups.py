"""Our members of share groups (KIP-932), among themselves and beside Kafka's own, on real Kafka and on the embedded broker."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import ShareConsumer

import ottla
from ottla import aio, errors
from ottla.testing import Broker
from tests.brokers.brokers import java_tool
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.peers.java import VERSION
from tests.integration.test_permissions import user_of
from tests.pace import patience
from tests.ports import held_port
from tests.python.loops import LOOPS, longest_hold, new_loop
from tests.waiting import wait_for_ours
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.brokers.brokers import Cluster
    from tests.python.conftest import Api

# Milliseconds for which the broker keeps records for a member: longer than any wait here, so that no lock ends by itself.
LOCK = 50_000
# The same where a test waits for the end of a lock: a busy machine may stand still for a while.
SHORT_LOCK = 5_000
BROKER = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK),
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.session.timeout.ms": "6000",
}
# The type of a resource that is a group, as configurations number them.
GROUP = 32
PATIENCE = patience(20)


class Kafka:
    """Real Kafka."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.bootstrap = str(cluster.st["bootstrap"]["PLAINTEXT"])

    def restart(self) -> None:
        self.cluster.restart(1)


class Embedded:
    """The embedded broker on a folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.start()
        self.bootstrap = self.broker.bootstrap_servers

    def start(self) -> None:
        config = {"auto.create.topics.enable": "false", **BROKER}
        self.broker = Broker(data_dir=self.folder, port=self.port, config=config).start()

    def restart(self) -> None:
        self.broker.stop()
        self.start()


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=REAL)])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka | Embedded]:
    if request.param == "embedded":
        with held_port() as port:
            embedded = Embedded(tmp_path_factory.mktemp("embedded"), port)
            yield embedded
            embedded.broker.stop()
        return
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version=VERSION, config=BROKER) as cluster:
        yield Kafka(cluster)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that allows only what it is told to."""
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version=VERSION, sasl="plain", acl=True) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=REAL)])
def before_share_groups(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "embedded":
        with Broker(as_version="3.9") as broker:
            yield broker.bootstrap_servers
        return
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version="3.9.1") as cluster:
        yield str(cluster.st["bootstrap"]["PLAINTEXT"])


@pytest.fixture(scope="module")
def bootstrap(brokers: Kafka | Embedded) -> str:
    return brokers.bootstrap


def configure(bootstrap: str, group: str, **config: str) -> None:
    """Set configurations of a group, with underscores for dots."""
    connection = Connection(bootstrap)
    configs = [
        {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in config.items()
    ]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    message = {"resources": [resource], "validate_only": False}
    answer = connection.ask("IncrementalAlterConfigs", 1, message)
    assert answer["responses"][0]["error_code"] == 0, answer
    connection.socket.close()


@pytest.fixture
def fresh(bootstrap: str, new_topic: Callable[..., str]) -> tuple[str, str]:
    """A topic of one partition, and a share group of it that begins at the beginning."""
    topic = new_topic(bootstrap)
    configure(bootstrap, topic, share_auto_offset_reset="earliest")
    return topic, topic


def fill(bootstrap: str, topic: str, count: int, begin: int = 0) -> None:
    with ottla.Producer(bootstrap) as producer:
        producer.send_many(topic, [str(number) for number in range(begin, begin + count)]).result(PATIENCE)


def take(api: Api, consumer: Any, count: int) -> list[ottla.Record]:
    """The next records; what was polled before is accepted."""
    found: list[ottla.Record] = []
    end = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records came"
        found += api(consumer.poll(1.0))
    return found


def offsets(records: Any) -> list[int]:
    return [record.offset for record in records]


def the_next_is(api: Api, bootstrap: str, topic: str, consumer: Any, offset: int) -> bool:
    """Whether a record that is written now is the first that comes: nothing before it is left."""
    fill(bootstrap, topic, 1, offset)
    return offsets(take(api, consumer, 1)) == [offset]


def test_what_a_poll_returned_is_accepted_by_the_next_or_by_a_commit(
    api: Api, bootstrap: str, fresh: tuple[str, str]
) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 10)
    with api.open("ShareConsumer", bootstrap, topics=topic, group_id=group) as consumer:
        first = api(consumer.poll(PATIENCE, max_records=4))
        assert (offsets(first), list(first.delivery_count)) == ([0, 1, 2, 3], [1, 1, 1, 1])
        assert first[0].delivery_count == 1
        assert np.asarray(first.delivery_count).dtype == np.int16
        rest = take(api, consumer, 6)
        assert offsets(rest) == [4, 5, 6, 7, 8, 9]
        assert api(consumer.commit()) == {ottla.TopicPartition(topic, 0): None}
        assert api(consumer.commit()) == {}
        assert consumer.lock_timeout() == LOCK / 1000
        assert consumer.assignment() == [(topic, 0)]
        assert consumer.subscription() == [topic]
    with api.open("ShareConsumer", bootstrap, topics=topic, group_id=group) as heir:
        assert the_next_is(api, bootstrap, topic, heir, 10), "all were accepted"


def test_a_loop_gives_record_by_record_and_loses_none(api: Api, bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 10)
    with api.open("ShareConsumer", bootstrap, topics=topic, group_id=group) as consumer:
        assert offsets(api.take(consumer, 3)) == [0, 1, 2]
        api(consumer.commit())
        assert offsets(api(consumer.poll(PATIENCE, max_records=2))) == [3, 4]
        assert offsets(api.take(consumer, 5)) == [5, 6, 7, 8, 9]
        api(consumer.commit())
    with api.open("ShareConsumer", bootstrap, topics=topic, group_id=group) as heir:
        assert the_next_is(api, bootstrap, topic, heir, 10), "all were accepted"


def test_explicit_ends_by_mask_by_index_and_by_record(api: Api, bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 10)
    options = {"group_id": group, "share_acknowledgement_mode": "explicit"}
    told: list[ottla.Acknowledgement] = []
    with api.open("ShareConsumer", bootstrap, topics=topic, **options) as consumer:
        consumer.set_acknowledgement_callback(told.extend)
        batch = api(consumer.poll(PATIENCE))
        assert len(batch) == 10
        with pytest.raises(errors.ArgumentError, match="not acknowledged"):
            api(consumer.poll(0))
        consumer.acknowledge(batch)
        consumer.acknowledge(batch, "release", np.arange(10) % 2 == 1)
        consumer.acknowledge(batch, "accept", [3, -1])
        consumer.acknowledge(batch[4:6], "reject", pa.array([True, False]))
        consumer.acknowledge(batch[6], "release")
        for rows, error in (([True], errors.ArgumentError), ([10], IndexError), ([True, 1], TypeError)):
            with pytest.raises(error):
                consumer.acknowledge(batch, rows=rows)
        again = take(api, consumer, 4)
        assert offsets(again) == [1, 5, 6, 7]
        assert {record.delivery_count for record in again} == {2}
        with pytest.raises(errors.ArgumentError, match="cannot be acknowledged"):
            consumer.acknowledge(batch, "accept", [0])
        for record in again:
            consumer.acknowledge(record)
        assert list(api(consumer.commit()).values()) == [None]
        assert the_next_is(api, bootstrap, topic, consumer, 10)
    said = {(offset, each.kind) for each in told for offset in each.offsets}
    assert {(4, "reject"), (0, "accept"), (1, "release"), (1, "accept"), (9, "accept")} <= said
    assert all(each.error is None for each in told)


def test_locks_end_or_are_renewed(api: Api, bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    configure(bootstrap, group, share_record_lock_duration_ms=str(SHORT_LOCK))
    fill(bootstrap, topic, 2)
    options = {"group_id": group, "share_acknowledgement_mode": "explicit"}
    with (
        api.open("ShareConsumer", bootstrap, topics=topic, **options) as consumer,
        api.open("ShareConsumer", bootstrap, topics=topic, **options) as other,
    ):
        batch = api(consumer.poll(PATIENCE))
        assert len(batch) == 2
        assert consumer.lock_timeout() == SHORT_LOCK / 1000
        again: list[ottla.Record] = []
        end = time.monotonic() + PATIENCE
        while not again:
            assert time.monotonic() < end, "the lock of what is not renewed does not end"
            consumer.acknowledge(batch, "renew", [0])
            assert list(api(consumer.commit()).values()) == [None]
            again += api(other.poll(0.2))
        assert [(record.offset, record.delivery_count) for record in again] == [(1, 2)]
        consumer.acknowledge(batch, "accept", [0])
        assert list(api(consumer.commit()).values()) == [None]
        consumer.acknowledge(batch, "accept", [1])
        [late] = api(consumer.commit()).values()
        assert late.name == "INVALID_RECORD_STATE"
        assert (late.topic, late.partition) == (topic, 0)
        other.acknowledge(again[0])
        assert list(api(other.commit()).values()) == [None]


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_a_callback_that_raises_loses_no_record(api: Api, bootstrap: str, fresh: tuple[str, str], mode: str) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 10)
    told: list[ottla.Acknowledgement] = []
    raised = []

    def callback(outcomes: list[ottla.Acknowledgement]) -> None:
        told.extend(outcomes)
        raise ZeroDivisionError

    async def later(outcomes: list[ottla.Acknowledgement]) -> None:
        callback(outcomes)

    options = {"group_id": group, "share_acknowledgement_mode": mode}
    with api.open("ShareConsumer", bootstrap, topics=topic, **options) as consumer:
        consumer.set_acknowledgement_callback(callback if api.name == "sync" else later)
        found: list[ottla.Record] = []
        end = time.monotonic() + PATIENCE
        while len(found) < 10:
            assert time.monotonic() < end, f"{offsets(found)} came"
            try:
                batch = api(consumer.poll(1.0, max_records=1))
            except ZeroDivisionError:
                raised.append("poll")
                continue
            found += batch
            if mode == "explicit":
                consumer.acknowledge(batch)
            time.sleep(0.05)  # The broker's answer comes while no poll waits, and before a poll that has records.
        while sum(len(each.offsets) for each in told) < 10:
            assert time.monotonic() < end, f"{told} were told"
            try:
                api(consumer.commit())
            except ZeroDivisionError:
                raised.append("commit")
        assert api(consumer.commit()) == {}
    assert [(record.offset, record.delivery_count) for record in found] == [(offset, 1) for offset in range(10)]
    assert sorted(offset for each in told for offset in each.offsets) == list(range(10))
    assert all((each.kind, each.error) == ("accept", None) for each in told)
    assert set(raised) == {"poll", "commit"}


def test_who_closes_frees_what_it_has_at_once(api: Api, bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 6)
    with api.open("ShareConsumer", bootstrap, topics=topic, group_id=group) as one:
        assert len(api(one.poll(PATIENCE))) == 6
    with api.open("ShareConsumer", bootstrap, topics=topic, group_id=group) as two:
        got = take(api, two, 6)
        assert {record.delivery_count for record in got} == {2}
        api(two.unsubscribe())
        two.subscribe([topic])
        assert offsets(take(api, two, 6)) == [0, 1, 2, 3, 4, 5]


KILLED = """
import sys, ottla
consumer = ottla.ShareConsumer(sys.argv[1], topics=sys.argv[2], group_id=sys.argv[2])
batch = consumer.poll(20)
print(len(batch), flush=True)
sys.stdin.read()
"""


def test_what_a_killed_member_had_is_delivered_again(bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 5)
    command = [sys.executable, "-c", KILLED, bootstrap, topic]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process, ottla.ShareConsumer(bootstrap, topics=topic, group_id=group) as heir:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "5\n"
        finally:
            process.kill()
        found: list[ottla.Record] = []
        wait_for_ours(lambda: bool(found.extend(heir.poll(0.5))) or len(found) == 5, "they come again")
        assert [(record.offset, record.delivery_count) for record in found] == [(offset, 2) for offset in range(5)]


def test_members_share_one_partition_and_each_record_comes_once(bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    read: list[tuple[int, int]] = []
    failed: list[Any] = []
    joined: set[int] = set()
    stop = threading.Event()

    def work(number: int) -> None:
        options: dict[str, Any] = {"max_poll_records": 20, "share_acquire_mode": "record_limit"}
        with ottla.ShareConsumer(bootstrap, topics=topic, group_id=group, **options) as consumer:
            while not stop.is_set():
                batch = consumer.poll(0.2)
                read.extend((number, record.offset) for record in batch)
                failed.extend(error for error in consumer.commit().values() if error is not None)
                if consumer.assignment():
                    joined.add(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    count, end = 0, time.monotonic() + PATIENCE
    try:
        wait_for_ours(lambda: len(joined) == 3, "all have an assignment")
        while count < 1000 or {number for number, _ in read.copy()} != {0, 1, 2}:
            assert time.monotonic() < end, f"{count} records, and not all members got some"
            fill(bootstrap, topic, 100, count)
            count += 100
        wait_for_ours(lambda: len(read) >= count, "all are read")
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not failed
    assert sorted(offset for _, offset in read) == list(range(count))


def test_a_record_limit_is_exact(api: Api, bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 50)
    options = {"group_id": group, "max_poll_records": 7, "share_acquire_mode": "record_limit"}
    with (
        api.open("ShareConsumer", bootstrap, topics=topic, **options) as one,
        api.open("ShareConsumer", bootstrap, topics=topic, **options) as two,
    ):
        assert offsets(api(one.poll(PATIENCE))) == list(range(7))
        assert offsets(api(two.poll(PATIENCE))) == list(range(7, 14)), "no more were kept from it"


@pytest.mark.parametrize(("level", "seen"), [("read_uncommitted", 6), ("read_committed", 4)])
def test_the_group_hides_records_of_aborted_transactions(
    api: Api, bootstrap: str, new_topic: Callable[..., str], level: str, seen: int
) -> None:
    topic = new_topic(bootstrap)
    configure(bootstrap, topic, share_auto_offset_reset="earliest", share_isolation_level=level)
    with ottla.Producer(bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for values, commits in ((["a", "b"], True), (["x", "y"], False), (["c", "d"], True)):
            with contextlib.suppress(ZeroDivisionError), producer.transaction():
                producer.send_many(topic, values).result(PATIENCE)
                if not commits:
                    raise ZeroDivisionError
    with api.open("ShareConsumer", bootstrap, topics=topic, group_id=topic) as consumer:
        values = [record.value for record in take(api, consumer, seen)]
        assert values == [b"a", b"b", *([b"x", b"y"] if seen == 6 else []), b"c", b"d"]
        fill(bootstrap, topic, 1)
        [last] = take(api, consumer, 1)
        assert (last.offset, last.value) == (9, b"0"), "the markers are no records"


@REAL
def test_a_share_consumer_of_kafka_shares_the_group(bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 10)
    options: dict[str, Any] = {"group_id": group, "share_acknowledgement_mode": "explicit"}
    with ottla.ShareConsumer(bootstrap, topics=topic, **options) as ours:
        batch = ours.poll(PATIENCE)
        assert len(batch) == 10
        ours.acknowledge(batch, "accept")
        ours.acknowledge(batch, "release", [2, 5])
        assert list(ours.commit().values()) == [None]
        said = java_tool(
            VERSION,
            "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
            *("--max-messages", "2", "--timeout-ms", "15000"),
        )
        assert said.split() == [b"2", b"5"]
        # Kafka's has accepted them.
        fill(bootstrap, topic, 1, 10)
        assert offsets(ours.poll(PATIENCE)) == [10]


def test_a_share_consumer_of_librdkafka_shares_the_group(bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 10)
    theirs = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        theirs.subscribe([topic])
        got: list[int] = []
        wait_for_ours(
            lambda: bool(got.extend(m.offset() for m in theirs.poll(timeout=1.0))) or len(got) == 10, "all come"
        )
        assert got == list(range(10))
        theirs.commit_sync()
    finally:
        theirs.close()
    fill(bootstrap, topic, 1, 10)
    with ottla.ShareConsumer(bootstrap, topics=topic, group_id=group) as ours:
        assert offsets(ours.poll(PATIENCE)) == [10], "theirs has accepted what came before"


def test_a_restart_of_the_broker_delivers_again_what_was_not_accepted(
    brokers: Kafka | Embedded, bootstrap: str, fresh: tuple[str, str]
) -> None:
    topic, group = fresh
    fill(bootstrap, topic, 10)
    options: dict[str, Any] = {"group_id": group, "share_acknowledgement_mode": "explicit"}
    with ottla.ShareConsumer(bootstrap, topics=topic, **options) as consumer:
        batch = consumer.poll(PATIENCE)
        assert len(batch) == 10
        consumer.acknowledge(batch, "accept", range(5))
        assert list(consumer.commit().values()) == [None]
        brokers.restart()
        consumer.acknowledge(batch, "accept", range(5, 10))
        [lost] = consumer.commit().values()
        assert lost is not None
        found: list[ottla.Record] = []

        def comes() -> bool:
            with contextlib.suppress(errors.UnreachableError):
                again = consumer.poll(1)
                found.extend(again)
                consumer.acknowledge(again)
            return len(found) >= 5

        wait_for_ours(comes, "the others come again")
        assert offsets(found) == [5, 6, 7, 8, 9]


def test_a_poll_wakes_when_another_thread_changes_the_subscription(bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, group = fresh
    with ottla.ShareConsumer(bootstrap, topics="absent-for-now", group_id=group, retry_backoff_ms=50) as consumer:
        ended: list[Any] = []

        def poll() -> None:
            try:
                ended.append(consumer.poll(60))
            except errors.KafkaError as error:
                ended.append(error)

        def polling() -> threading.Thread:
            thread = threading.Thread(target=poll)
            thread.start()
            return thread

        consumer.subscribe(topic)
        thread = polling()
        wait_for_ours(lambda: consumer.assignment() == [(topic, 0)], "it is a member")
        consumer.unsubscribe()
        thread.join(PATIENCE)
        assert isinstance(ended.pop(), errors.ArgumentError)
        consumer.subscribe(topic)
        thread = polling()
        consumer.subscribe([topic, "other"])
        consumer.subscribe(topic)
        fill(bootstrap, topic, 1)
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert offsets(ended.pop()) == [0]


def test_the_next_leader_goes_on_where_the_last_one_was() -> None:
    with Broker(nodes=2, config=BROKER) as broker:
        bootstrap = broker.bootstrap_servers
        with ottla.Admin(bootstrap) as admin:
            admin.create_topics([ottla.NewTopic("t", 1, 2)])
        configure(bootstrap.partition(",")[0], "t", share_auto_offset_reset="earliest")
        fill(bootstrap, "t", 10)
        options: dict[str, Any] = {"group_id": "t", "share_acknowledgement_mode": "explicit", "retry_backoff_ms": 50}
        with ottla.ShareConsumer(bootstrap, topics="t", **options) as consumer:
            batch = consumer.poll(PATIENCE)
            assert len(batch) == 10
            consumer.acknowledge(batch, "accept", range(5))
            assert list(consumer.commit().values()) == [None]
            [other] = {node for node in broker.nodes if node != broker.leader("t")}
            broker.move_leader("t", to=other)
            consumer.acknowledge(batch, "accept", range(5, 10))
            [lost] = consumer.commit().values()
            assert lost is not None, "the locks were the last leader's"
            found: list[ottla.Record] = []
            wait_for_ours(lambda: bool(found.extend(consumer.poll(0.5))) or len(found) == 5, "the others come again")
            assert offsets(found) == [5, 6, 7, 8, 9]
            for record in found:
                consumer.acknowledge(record)
            assert list(consumer.commit().values()) == [None]


def test_what_is_out_of_step_is_refused_by_its_code(bootstrap: str, fresh: tuple[str, str]) -> None:
    """The codes of Kafka 4.4.0, frame by frame."""
    topic, group = fresh
    connection = Connection(bootstrap)
    asked = {"topics": [{"topic_id": UUID(int=0), "name": topic}], "allow_auto_topic_creation": False}
    topic_id = connection.ask("Metadata", 12, asked)["topics"][0]["topic_id"]
    said = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]

    def fetch(member: str, epoch: int, said: list[dict[str, Any]] | None = None, **more: Any) -> int:
        partition = {"partition_index": 0, "acknowledgement_batches": said or []}
        limits = dict.fromkeys(("max_wait_ms", "min_bytes", "share_acquire_mode"), 0)
        limits |= dict.fromkeys(("max_bytes", "max_records", "batch_size"), 1000)
        message = {
            **limits,
            "group_id": group,
            "member_id": member,
            "share_session_epoch": epoch,
            "is_renew_ack": False,
            "forgotten_topics_data": [],
            "topics": [{"topic_id": topic_id, "partitions": [partition]}],
        }
        return int(connection.ask("ShareFetch", 2, {**message, **more})["error_code"])

    def acknowledge(member: str, epoch: int) -> int:
        message = {"group_id": group, "member_id": member, "share_session_epoch": epoch, "is_renew_ack": False}
        return int(connection.ask("ShareAcknowledge", 2, {**message, "topics": []})["error_code"])

    invalid, missing, out_of_step = 42, 122, 123
    member = "RBcHn7rMSh2jZ8F3Hp5xqA"
    assert fetch("", 0) == invalid
    assert fetch(member, 0, said) == invalid
    assert [fetch(member, 1), fetch(member, -1)] == [missing, missing]
    assert [acknowledge(member, 0), acknowledge(member, 1), acknowledge(member, -1)] == [out_of_step, missing, missing]
    assert fetch(member, 0) == 0
    assert [fetch(member, 1), fetch(member, 1), fetch(member, 3)] == [0, out_of_step, out_of_step]
    assert fetch(member, 2, said, is_renew_ack=True) == invalid
    assert [acknowledge(member, -1), acknowledge(member, -1)] == [0, missing]
    connection.socket.close()


@pytest.mark.alone
# What it is about is within the client.
@pytest.mark.parametrize(
    "brokers", ["embedded", pytest.param("kafka", marks=[REAL, pytest.mark.nightly])], indirect=True, scope="module"
)
@pytest.mark.parametrize("kind", LOOPS)
def test_a_large_batch_is_decoded_beside_the_loop(bootstrap: str, new_topic: Callable[..., str], kind: str) -> None:
    topic = new_topic(bootstrap)
    large = {"batch_size": 90_000_000, "max_request_size": 90_000_000, "buffer_memory": 200_000_000}
    count, settings = 40, {"topics": topic, "share_acknowledgement_mode": "explicit"}
    with ottla.Producer(bootstrap, compression_type="zstd", linger_ms=20_000, **large) as producer:
        producer.send_many(topic, [bytes(900_000)] * count)  # few bytes, compressed
        producer.flush(PATIENCE)
    first, *others = [f"{topic}-{number}" for number in range(4)]
    for group in (first, *others):
        configure(bootstrap, group, share_auto_offset_reset="earliest")
    with ottla.ShareConsumer(bootstrap, group_id=first, **settings) as consumer:
        begun = time.thread_time()
        assert len(consumer.poll(PATIENCE)) == count, "one batch"
        decoding = time.thread_time() - begun

    async def main(group: str) -> float:
        async with aio.ShareConsumer(bootstrap, group_id=group, **settings) as consumer:
            batch, longest = await longest_hold(consumer.poll(PATIENCE))
            assert offsets(batch) == list(range(count))
            consumer.acknowledge(batch)
            assert await consumer.commit() == {(topic, 0): None}
            return longest

    with contextlib.closing(new_loop(kind)) as loop:
        # The least of three, for the reason that `least_share` gives.
        longest = min(loop.run_until_complete(main(group)) for group in others)
    assert longest < decoding / 4, f"{longest:.4f} s of {decoding:.4f} s"


def test_a_group_of_another_kind_refuses(api: Api, bootstrap: str, fresh: tuple[str, str]) -> None:
    topic, _ = fresh
    group = f"consumers-of-{topic}"
    with ottla.Consumer(bootstrap, topics=topic, group_id=group) as ordinary:
        wait_for_ours(lambda: ordinary.poll(0.1) is not None and bool(ordinary.assignment()), "the group is there")
        with (
            api.open("ShareConsumer", bootstrap, topics=topic, group_id=group) as consumer,
            pytest.raises(errors.KafkaError, match=r"group\.id of its own"),
        ):
            api(consumer.poll(PATIENCE))


@REAL
@pytest.mark.each_api
def test_permissions_are_named(api: Api, guarded: Cluster) -> None:
    with (
        api.open("ShareConsumer", topics="t", group_id="workers", **user_of(guarded, "alice")) as consumer,
        pytest.raises(errors.AuthorizationError, match="an ACL that allows"),
    ):
        api(consumer.poll(PATIENCE))


def test_a_cluster_without_share_groups_says_what_it_needs(
    api: Api, before_share_groups: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(before_share_groups)
    with api.open("ShareConsumer", before_share_groups, topics=topic, group_id="g") as consumer:
        with pytest.raises(errors.UnsupportedError, match=r"Kafka 4\.1") as raised:
            api(consumer.poll(PATIENCE))
        assert "share.version=1" in str(raised.value)
