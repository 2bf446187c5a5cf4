"""Our transactions on real Kafka, by both of its protocols: what other clients read of them, and who is fenced."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as ForeignPartition

import ottla
from ottla import aio, errors
from tests.integration.conftest import REAL, SHORT_SESSIONS, kafka_for_a_while, wait_for_markers
from tests.integration.peers.base import DEADLINE, until
from tests.integration.peers.confluent import Confluent
from tests.integration.peers.java import Java
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]

PROTOCOLS = {"4.4.0": 2, "3.9.1": 1, "2.8.2": 1}
# A coordinator looks for transactions that are open for too long every 10 s, if it is not told otherwise.
QUICKLY = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "300"}
names = itertools.count(1)


class Place:
    """A broker of one release, with topics for one test each."""

    def __init__(self, version: str, bootstrap: str) -> None:
        self.version, self.bootstrap = version, bootstrap

    def topic(self, partitions: int = 2, replication: int = 1, **config: str) -> str:
        name = f"tx-{next(names)}"
        with ottla.Admin(self.bootstrap) as admin:
            admin.create_topics([ottla.NewTopic(name, partitions, replication, config=config)])
            wait_until(lambda: name in admin.list_topics(), f"the broker knows {name}")
        return name

    def producer(self, name: str, **properties: Any) -> ottla.Producer:
        return ottla.Producer(self.bootstrap, transactional_id=name, **properties)


@pytest.fixture(scope="module", params=["4.4.0", pytest.param("3.9.1", marks=pytest.mark.nightly), "2.8.2"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("transactions")
    with kafka_for_a_while(folder, version=request.param, config=QUICKLY) as cluster:
        yield Place(request.param, cluster.st["bootstrap"]["PLAINTEXT"])


def committed(bootstrap: str, topic: str, partitions: int = 2) -> list[bytes | None]:
    """All that confluent-kafka reads of committed transactions, sorted; none may be open."""
    wait_for_markers(bootstrap, topic, partitions)
    return sorted(message.value for message in Confluent().consume_committed(bootstrap, topic, partitions))


def read_by_java(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """The first `count` values that Java's console consumer reads of committed transactions, sorted."""
    return sorted(message.value for message in Java().consume_committed(bootstrap, topic, count))


class BrokenError(Exception):
    """What the block of a transaction raises."""


def rounds() -> list[bytes]:
    return sorted(b"commit %d %d" % (number, i) for number in (0, 2, 4) for i in range(10))


def run_sync(place: Place, topic: str) -> None:
    with place.producer(topic) as producer:
        for number, end in enumerate(["commit", "abort", "commit", "abort", "commit"]):
            try:
                with producer.transaction():
                    for i in range(10):
                        producer.send(topic, f"{end} {number} {i}".encode(), partition=i % 2)
                    if end == "abort":
                        producer.flush(DEADLINE)
                        raise BrokenError
            except BrokenError:
                assert end == "abort"


def run_asyncio(place: Place, topic: str) -> None:
    async def main() -> None:
        async with aio.Producer(place.bootstrap, transactional_id=topic) as producer:
            await producer.init_transactions()
            for number, end in enumerate(["commit", "abort", "commit", "abort", "commit"]):
                stuck = asyncio.Event()

                async def work(number: int = number, end: str = end, stuck: asyncio.Event = stuck) -> None:
                    async with producer.transaction():
                        for i in range(10):
                            await producer.send(topic, f"{end} {number} {i}".encode(), partition=i % 2)
                        if end == "abort":
                            await producer.flush(DEADLINE)
                            stuck.set()
                            await asyncio.sleep(DEADLINE)

                task = asyncio.create_task(work())
                if end == "abort":
                    await asyncio.wait_for(stuck.wait(), DEADLINE)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                else:
                    await task

    asyncio.run(main())


@pytest.mark.parametrize("run", [run_sync, run_asyncio])
def test_others_read_what_was_committed_and_nothing_else(
    place: Place, run: Callable[[Place, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    topic = place.topic()
    with caplog.at_level(logging.INFO, "ottla"):
        run(place, topic)
    assert committed(place.bootstrap, topic) == rounds()
    assert read_by_java(place.bootstrap, topic, 30) == rounds()
    with ottla.Consumer(place.bootstrap, topics=[topic], auto_offset_reset="earliest") as every:
        read: list[bytes | None] = []
        for _ in until(DEADLINE, "aborted records are in the log, too"):
            read += [record.value for record in every.poll(0.5)]
            if len(read) == 50:
                break
    said = [record.getMessage() for record in caplog.records]
    kip = {1: "KIP-98", 2: "KIP-890"}[PROTOCOLS[place.version]]
    assert sum(f"transactions of {topic} use protocol" in text and kip in text for text in said) == 1, said


def test_a_second_producer_fences_the_first(place: Place) -> None:
    topic = place.topic()
    with place.producer(topic) as first, place.producer(topic) as second:
        first.begin_transaction()
        first.send(topic, b"zombie").result(DEADLINE)
        second.init_transactions()
        with pytest.raises(errors.FencedError, match="close this producer|Close this producer") as fenced:
            first.commit_transaction()
        assert not fenced.value.retriable
        for call in (first.init_transactions, first.begin_transaction, first.abort_transaction):
            with pytest.raises(errors.FencedError):
                call()
        with pytest.raises(errors.FencedError):
            first.send(topic, b"never")
        with second.transaction():
            second.send(topic, b"alive")
    assert committed(place.bootstrap, topic) == [b"alive"]


@pytest.mark.parametrize("verb", ["send", "send_offsets", "commit", "abort"])
def test_each_verb_of_a_fenced_producer_says_so(place: Place, verb: str) -> None:
    topic = place.topic()
    with place.producer(topic) as first, place.producer(topic) as second:
        first.begin_transaction()
        first.send(topic, b"zombie", partition=0).result(DEADLINE)
        second.init_transactions()
        if verb == "send":
            # A leader that is only behind says the same; the coordinator, asked by the abort, knows.
            with pytest.raises(errors.KafkaError, match="PRODUCER_EPOCH|FENCED|abort_transaction"):
                first.send(topic, b"zombie", partition=0).result(DEADLINE)
        calls = {"send_offsets": lambda: first.send_offsets({(topic, 0): 1}, topic), "commit": first.commit_transaction}
        with pytest.raises(errors.FencedError, match="took over"):
            calls.get(verb, first.abort_transaction)()
        with pytest.raises(errors.FencedError):
            first.begin_transaction()
        with second.transaction():
            second.send(topic, b"alive")
    assert committed(place.bootstrap, topic) == [b"alive"]


def test_a_transaction_that_stays_open_too_long_is_aborted(place: Place) -> None:
    topic = place.topic()
    with place.producer(topic, transaction_timeout_ms=5000) as producer:
        producer.begin_transaction()
        producer.send(topic, b"late").result(DEADLINE)
        with ottla.Admin(place.bootstrap) as admin:

            def is_open() -> bool:
                found = admin.describe_producers([(topic, 0), (topic, 1)])
                return any(state.current_transaction_start_offset is not None for s in found.values() for state in s)

            assert is_open()
            wait_until(lambda: not is_open(), "the coordinator aborts it")
        if PROTOCOLS[place.version] == 1:
            with pytest.raises(errors.FencedError, match=r"transaction\.timeout\.ms"):
                producer.commit_transaction()
        else:
            # The second protocol can tell that nobody else took over.
            with pytest.raises(errors.TransactionAbortableError, match=r"transaction\.timeout\.ms"):
                producer.commit_transaction()
            producer.abort_transaction()
            with producer.transaction():
                producer.send(topic, b"after all")
    with place.producer(topic) as producer, producer.transaction():
        producer.send(topic, b"in time")
    later = [b"after all"] * (PROTOCOLS[place.version] - 1)
    assert committed(place.bootstrap, topic) == [*later, b"in time"]


def test_offsets_take_effect_with_the_transaction(place: Place) -> None:
    topic, group = place.topic(), f"group-{next(names)}"
    mine, other = ottla.TopicPartition(topic, 0), ottla.TopicPartition(topic, 1)

    def stored() -> list[int]:
        consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": group})
        try:
            wanted = [TopicPartition(topic, p) for p in range(2)]
            return [found.offset for found in consumer.committed(wanted, DEADLINE)]
        finally:
            consumer.close()

    with place.producer(topic) as producer:
        with producer.transaction() as transaction:
            producer.send(topic, b"made of the first", partition=0)
            transaction.send_offsets({mine: 5, other: ottla.OffsetAndMetadata(7, "seven")}, group)
        # The markers are written soon after the answer.
        wait_until(lambda: stored() == [5, 7], "the offsets are committed")
        with pytest.raises(BrokenError), producer.transaction() as transaction:  # noqa: PT012
            transaction.send_offsets({mine: 50}, group)
            raise BrokenError
        with producer.transaction() as transaction:
            # Nothing but offsets.
            transaction.send_offsets({(topic, 0): 6}, group)
        wait_until(lambda: stored() == [6, 7], "the later offset is committed")
        with pytest.raises(errors.ArgumentError, match="negative|0 or more"), producer.transaction() as transaction:
            transaction.send_offsets({mine: -1}, group)
    reader = KafkaConsumer(bootstrap_servers=place.bootstrap, group_id=group)
    kept = reader.committed(ForeignPartition(topic, 1), metadata=True)
    assert (reader.committed(ForeignPartition(topic, 0)), kept.offset, kept.metadata) == (6, 7, "seven")
    reader.close()


def test_a_record_that_fails_in_the_middle(place: Place) -> None:
    topic = place.topic(**{"max.message.bytes": "2000"})
    with place.producer(topic, linger_ms=0) as producer:
        for attempt in range(3):
            failed = pytest.raises(errors.TransactionAbortableError, match="abort_transaction")
            with failed as raised, producer.transaction():
                producer.send(topic, b"before %d" % attempt, partition=0).result(DEADLINE)
                large = producer.send(topic, b"x" * 5000, partition=0)
                with pytest.raises(errors.TooLargeError) as too_large:
                    large.result(DEADLINE)
                assert too_large.value.written is False
                with pytest.raises(errors.TransactionAbortableError):
                    producer.send(topic, b"after", partition=0)
            assert raised.value.topic == topic
            with producer.transaction():
                for i in range(3):
                    producer.send(topic, b"good %d %d" % (attempt, i), partition=0)
    assert committed(place.bootstrap, topic) == [b"good %d %d" % (a, i) for a in range(3) for i in range(3)]


def test_what_a_close_finds_open_is_aborted(place: Place) -> None:
    topic = place.topic()
    producer = place.producer(topic)
    producer.begin_transaction()
    producer.send(topic, b"open").result(DEADLINE)
    producer.close(DEADLINE)
    # Were it open, nothing behind it would be read before its timeout of a minute.
    with ottla.Producer(place.bootstrap) as plain:
        plain.send(topic, b"plain", partition=0).result(DEADLINE)
        plain.send(topic, b"plain", partition=1).result(DEADLINE)
    assert committed(place.bootstrap, topic) == [b"plain", b"plain"]


def test_sends_outside_of_a_transaction_are_refused(place: Place) -> None:
    topic = place.topic()
    with place.producer(topic) as producer:
        for call in (
            lambda: producer.send(topic, b"v"),
            lambda: producer.send_many(topic, [b"v"]),
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send_offsets({(topic, 0): 1}, "g"),
        ):
            with pytest.raises(errors.ArgumentError, match="begin_transaction"):
                call()
        with producer.transaction(), pytest.raises(errors.ArgumentError, match="is open"):
            producer.begin_transaction()
    with ottla.Producer(place.bootstrap) as plain, pytest.raises(errors.ConfigError, match=r"transactional\.id"):
        plain.begin_transaction()
    assert committed(place.bootstrap, topic) == []


def killed_in_turn(cluster: Cluster, stop: threading.Event, kills: list[int]) -> None:
    """Each node is killed and started again, so that each coordinator and each leader moves."""
    for node in itertools.cycle((1, 2, 3)):
        if stop.wait(2):
            return
        cluster.kill(f"node{node}")
        kills.append(node)
        if stop.wait(4):
            cluster.restart(node)
            return
        cluster.restart(node)


@pytest.mark.parametrize("version", ["4.4.0", "3.9.1"])
def test_brokers_that_are_killed_tear_no_transaction(
    version: str, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """R12 by the log: of every transaction all records are read once, or none."""
    config = {**SHORT_SESSIONS, "min.insync.replicas": "2"}
    folder = tmp_path_factory.mktemp("three")
    options = {"version": version, "nodes": 3, "mode": "kraft", "config": config, "heap": "320m"}
    with kafka_for_a_while(folder, **options) as cluster:
        place = Place(version, cluster.st["bootstrap"]["PLAINTEXT"])
        topic = place.topic(4, 3)
        ended: dict[int, str] = {}
        stop, kills = threading.Event(), []  # type: ignore[var-annotated]
        killer = threading.Thread(target=killed_in_turn, args=(cluster, stop, kills))
        with place.producer(topic, max_block_ms=60_000) as producer, caplog.at_level(logging.INFO, "ottla"):
            producer.init_transactions()
            killer.start()
            try:
                end = time.monotonic() + 100
                for number in itertools.count():
                    if len(kills) >= 3 or time.monotonic() > end:
                        break
                    try:
                        with producer.transaction():
                            for i in range(40):
                                producer.send(topic, b"%d %d" % (number, i), partition=i % 4)
                        ended[number] = "committed"
                    except errors.UnknownOutcomeError:
                        ended[number] = "unknown"
                    except (errors.TransactionAbortableError, errors.KafkaTimeoutError):
                        ended[number] = "aborted"
            finally:
                stop.set()
                killer.join(60)
        read = Counter(tuple(map(int, value.split())) for value in committed(place.bootstrap, topic, 4))
    assert set(read.values()) == {1}, "no record is there twice"
    whole = Counter(number for number, _ in read)
    assert set(whole.values()) == {40}, "no transaction is there in part"
    kinds = Counter(ended.values())
    assert kinds["committed"] > 20, kinds
    assert len(kills) >= 3, kills
    for number, how in ended.items():
        assert how == "unknown" or (number in whole) == (how == "committed"), (number, how, kinds)
