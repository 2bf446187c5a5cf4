"""Transactions on the embedded broker: the clients of others run them, its answers are real Kafka's, and Kafka's tools read it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla
from ottla import errors, protocol
from ottla.testing import Broker
from tests.brokers.brokers import java_tool
from tests.integration import transaction_scripts
from tests.integration.conftest import REAL
from tests.integration.peers.base import DEADLINE, until
from tests.integration.peers.java import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from tests.integration.peers.franz import Franz
    from tests.integration.transaction_scripts import Stage

TOPIC, PARTITIONS, TRANSACTIONS = "flights", 3, 4
TRANSACTOR = Path(__file__).parent / "java" / "Transactor.java"
WHERE = {"one node": {}, "three nodes": {"nodes": 3}, "as 3.9": {"as_version": "3.9"}, "as 2.8": {"as_version": "2.8"}}
COMMITTED = {f"{number}-{partition}" for number in range(0, TRANSACTIONS, 2) for partition in range(PARTITIONS)}
ALL = {f"{number}-{partition}" for number in range(TRANSACTIONS) for partition in range(PARTITIONS)}


@pytest.fixture(scope="module", params=WHERE)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(topics={TOPIC: PARTITIONS}, **WHERE[request.param]) as broker:
        yield broker


@pytest.fixture
def identity(request: pytest.FixtureRequest) -> str:
    """A transactional id of the test's own."""
    return re.sub(r"\W+", "-", f"{request.node.name}-{time.time_ns()}")


def read(bootstrap: str, isolation: str, topic: str = TOPIC, partitions: int = PARTITIONS) -> list[str]:
    """All that a consumer gets of a topic, partition by partition."""
    config = {"group.id": "reader", "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": isolation, **config})
    values, ended = list[str](), set[int]()
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        for _ in until(DEADLINE, "the ends of all partitions"):
            message = consumer.poll(0.5)
            if message is not None and message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                ended.add(message.partition() or 0)
            elif message is not None:
                values.append((message.value() or b"").decode())
            if len(ended) == partitions:
                break
    finally:
        consumer.close()
    return values


async def read_by_aiokafka(bootstrap: str, count: int) -> list[str]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([AioPartition(TOPIC, partition) for partition in range(PARTITIONS)])
        await consumer.seek_to_beginning()
        values = list[str]()
        end = time.monotonic() + DEADLINE
        while len(values) < count and time.monotonic() < end:
            for messages in (await consumer.getmany(timeout_ms=200)).values():
                values += [message.value.decode() for message in messages]
        return values
    finally:
        await consumer.stop()


def of(identity: str, values: list[str]) -> list[str]:
    return [value.removeprefix(f"{identity}-") for value in values if value.startswith(f"{identity}-")]


def offset(bootstrap: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        return int(consumer.committed([TopicPartition(TOPIC, 0)], DEADLINE)[0].offset)
    finally:
        consumer.close()


def by_confluent(bootstrap: str, identity: str, group: str) -> None:
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": identity})
    producer.init_transactions(DEADLINE)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, f"{identity}-{number}-{partition}", partition=partition)
        offsets = [TopicPartition(TOPIC, 0, number)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), DEADLINE)
        assert producer.flush(DEADLINE) == 0  # an abort drops what was not sent
        end = producer.abort_transaction if number % 2 else producer.commit_transaction
        end(DEADLINE)
    member.close()


def by_aiokafka(bootstrap: str, identity: str, group: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=identity)
        await producer.start()
        for number in range(TRANSACTIONS):
            await producer.begin_transaction()
            for partition in range(PARTITIONS):
                await producer.send(TOPIC, f"{identity}-{number}-{partition}".encode(), partition=partition)
            await producer.send_offsets_to_transaction({AioPartition(TOPIC, 0): number}, group)
            await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        await producer.stop()

    asyncio.run(run())


def by_java(bootstrap: str, identity: str, group: str) -> None:
    told = transactor("run", bootstrap, TOPIC, identity, group, str(TRANSACTIONS))
    assert told == "done"


def transactor(*args: str) -> str:
    """The last line that the program prints: before it, the client may warn of what it tries again."""
    return java_tool(VERSION, str(TRANSACTOR), *args, timeout=2 * DEADLINE).decode().splitlines()[-1]


RUNS = {"confluent-kafka": by_confluent, "aiokafka": by_aiokafka, "java": by_java}


@pytest.mark.parametrize(
    "client",
    [
        "confluent-kafka",
        "aiokafka",
        pytest.param("java", marks=REAL),
        pytest.param("franz-go", marks=pytest.mark.needs("go")),
    ],
)
def test_foreign_producers_commit_and_abort(
    broker: Broker, client: str, identity: str, request: pytest.FixtureRequest
) -> None:
    bootstrap = broker.bootstrap_servers
    if client == "franz-go":
        franz: Franz = request.getfixturevalue("franz_program")
        franz.transact(bootstrap, TOPIC, identity)
    else:
        RUNS[client](bootstrap, identity, identity)
        # The last that was committed; those of the aborted are gone.
        assert offset(bootstrap, identity) == TRANSACTIONS - 2
    found = of(identity, read(bootstrap, "read_committed"))
    assert (set(found), len(found)) == (COMMITTED, len(COMMITTED))
    assert set(of(identity, read(bootstrap, "read_uncommitted"))) == ALL
    everything = read(bootstrap, "read_committed")
    by_another = asyncio.run(read_by_aiokafka(bootstrap, len(everything)))
    assert sorted(by_another) == sorted(everything)


def test_a_second_producer_fences_the_first(broker: Broker, identity: str) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": identity}
    first, second = Producer(config), Producer(config)
    first.init_transactions(DEADLINE)
    first.begin_transaction()
    first.produce(TOPIC, f"{identity}-zombie", partition=0)
    first.flush(DEADLINE)
    second.init_transactions(DEADLINE)
    second.begin_transaction()
    second.produce(TOPIC, f"{identity}-alive", partition=0)
    second.commit_transaction(DEADLINE)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(DEADLINE)
    assert refused.value.args[0].fatal()
    assert of(identity, read(broker.bootstrap_servers, "read_committed")) == ["alive"]


@REAL
@pytest.mark.parametrize(
    "broker",
    [*(pytest.param(where, marks=pytest.mark.nightly) for where in ("one node", "as 3.9")), "three nodes", "as 2.8"],
    indirect=True,
    scope="module",
)
def test_java_is_told_when_it_is_fenced_and_when_it_is_late(broker: Broker, identity: str) -> None:
    told = transactor("fence", broker.bootstrap_servers, TOPIC, identity)
    assert told == "ProducerFencedException"
    told = transactor("timeout", broker.bootstrap_servers, TOPIC, f"late-{identity}")
    # With an epoch each transaction that was aborted for the producer is one that it cannot commit; before, it is fenced.
    assert told in {"InvalidTxnStateException", "ProducerFencedException"}
    found = read(broker.bootstrap_servers, "read_committed")
    assert "zombie-0" not in found
    assert "late-0" not in found
    assert "alive-0" in found


def test_an_open_transaction_holds_readers_back_until_it_times_out(broker: Broker, identity: str) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": identity}
    late = Producer(config | {"transaction.timeout.ms": 1500})
    late.init_transactions(DEADLINE)
    late.begin_transaction()
    late.produce(TOPIC, f"{identity}-late", partition=0)
    assert late.flush(DEADLINE) == 0
    after = Producer({"bootstrap.servers": broker.bootstrap_servers})
    after.produce(TOPIC, f"{identity}-after", partition=0)
    assert after.flush(DEADLINE) == 0
    for _ in until(DEADLINE, "the end of the transaction"):
        found = of(identity, read(broker.bootstrap_servers, "read_committed"))
        if found:
            break
    assert found == ["after"]
    with pytest.raises(KafkaException):
        late.commit_transaction(DEADLINE)


# Three nodes, which move; so often.
MOVES = 30


class Unrest(threading.Thread):
    """Moves leaders of data and coordinators, and kills a node now and then, until the block ends."""

    def __init__(self, cluster: Broker) -> None:
        super().__init__(daemon=True)
        self.cluster, self.over = cluster, threading.Event()
        self.moves = self.deaths = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join(DEADLINE)
        assert not self.is_alive(), "the cluster does not come to rest"

    def run(self) -> None:
        places = [(topic, p) for topic in (TOPIC, "__transaction_state", "__consumer_offsets") for p in range(3)]
        for number, (topic, partition) in enumerate(itertools.cycle(places)):
            if self.over.wait(0.15):
                return
            state = self.cluster.partition(topic, partition)
            if number % 12 == 11 and len(state.in_sync) == 3:
                self.cluster.stop_node(state.leader, how="kill")
                self.over.wait(0.2)
                self.cluster.start_node(state.leader)
                self.deaths += 1
            else:
                others = [node for node in state.in_sync if node != state.leader]
                with contextlib.suppress(Exception):
                    self.cluster.move_leader(topic, partition, to=others[number % len(others)])
                    self.moves += 1


def read_whole(bootstrap: str, committed: set[int]) -> list[str]:
    """What is read once these are there: the end of the last may be answered before its markers are in the log."""
    found = list[str]()
    for _ in until(DEADLINE, "each transaction that was committed is read"):
        found = of("whole", read(bootstrap, "read_committed"))
        if committed <= {int(value.split("-")[0]) for value in found}:
            break
    return found


def test_transactions_are_whole_while_leaders_and_coordinators_move() -> None:
    """What a commit was answered for is there, once, in all partitions; what was aborted is nowhere (R11, R12)."""
    with Broker(topics={TOPIC: PARTITIONS}, nodes=3) as cluster:
        bootstrap = cluster.bootstrap_servers
        by_confluent(bootstrap, "warm", "warm")  # so that the coordinators' topics are there
        committed, unsure = set[int](), set[int]()
        with Unrest(cluster) as unrest:
            producer: Producer | None = None
            end = time.monotonic() + 2 * DEADLINE
            for number in itertools.count():
                if unrest.moves >= MOVES and unrest.deaths:
                    break
                assert time.monotonic() < end, "the cluster is quiet"
                if producer is None:
                    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "whole"})
                    producer.init_transactions(DEADLINE)
                try:
                    producer.begin_transaction()
                    for partition in range(PARTITIONS):
                        producer.produce(TOPIC, f"whole-{number}-{partition}", partition=partition)
                    if number % 3 == 2:
                        producer.abort_transaction(DEADLINE)
                    else:
                        unsure.add(number)
                        producer.commit_transaction(DEADLINE)
                        committed.add(number)
                        unsure.discard(number)
                except KafkaException as failure:
                    error = failure.args[0]
                    assert error.retriable() or error.txn_requires_abort() or error.fatal(), error
                    if error.txn_requires_abort():
                        producer.abort_transaction(DEADLINE)
                        unsure.discard(number)
                    else:
                        producer = None
        count = number
        found = read_whole(bootstrap, committed)
    assert len(found) == len(set(found)), "a record is there twice"
    whole = [int(value.split("-")[0]) for value in found]
    for number in range(count):
        expected = {PARTITIONS} if number in committed else {0, PARTITIONS} if number in unsure else {0}
        assert whole.count(number) in expected, number
    assert len(committed) > count / 3, "hardly a transaction went through"


# What real Kafka says.


def play(script: Callable[[Stage], None], bootstrap: str, produce_version: int = 11) -> list[Any]:
    topic = f"scripted-{script.__name__}-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        future.result(DEADLINE)
    with transaction_scripts.Stage(bootstrap, topic, topic, topic, produce_version) as stage:
        script(stage)
        return stage.told


@pytest.fixture(scope="module")
def real(start_kafka: Callable[..., Any]) -> str:
    config = {
        "transaction.two.phase.commit.enable": "true",
        "unstable.api.versions.enable": "true",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    return str(start_kafka(config=config).st["bootstrap"]["PLAINTEXT"])


@pytest.fixture(scope="module")
def alike() -> Iterator[str]:
    config = {"transaction.two.phase.commit.enable": True, "unstable.api.versions.enable": True}
    with Broker(config=config) as broker:
        yield broker.bootstrap_servers


@REAL
@pytest.mark.parametrize("script", transaction_scripts.SCRIPTS, ids=lambda it: it.__name__)
def test_answers_are_those_of_real_kafka(script: Callable[[Stage], None], real: str, alike: str) -> None:
    assert play(script, alike) == play(script, real)


@REAL
def test_a_prepared_transaction_is_kept_where_kafka_refuses_to(real: str, alike: str) -> None:
    script = transaction_scripts.a_prepared_transaction_is_kept
    theirs, ours = play(script, real), play(script, alike)
    assert theirs[2] == ("init", "UNSUPPORTED_VERSION", "none", -1, ("none", -1))
    assert ours[2] == ("init", "NONE", "producer 1", 1, ("producer 1", 0))
    # All the same the transaction is open, its owner commits it, and it has ended.
    assert (ours[:2], ours[3]) == (theirs[:2], theirs[3])
    assert (ours[4][:2], ours[5][:3]) == (theirs[4][:2], theirs[5][:3])


# Kafka's own tools.


def run_tool(bootstrap: str, *args: str) -> str:
    """What `kafka-transactions.sh` prints."""
    main = "org.apache.kafka.tools.TransactionsCommand"
    return java_tool(VERSION, main, "--bootstrap-server", bootstrap, *args, timeout=2 * DEADLINE).decode()


def transactions(bootstrap: str, *args: str) -> list[dict[str, str]]:
    """The table that `kafka-transactions.sh` prints."""
    head, *rows = [line.split("\t") for line in run_tool(bootstrap, *args).splitlines()]
    names = [name.strip() for name in head]
    return [dict(zip(names, (cell.strip() for cell in row), strict=False)) for row in rows]


@REAL
def test_kafkas_tools_describe_transactions() -> None:
    with Broker(topics={TOPIC: PARTITIONS}, nodes=3) as broker:
        bootstrap = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shown"})
        producer.init_transactions(DEADLINE)
        producer.begin_transaction()
        producer.produce(TOPIC, "v", partition=1)
        assert producer.flush(DEADLINE) == 0
        (listed,) = transactions(bootstrap, "list")
        assert (listed["TransactionalId"], listed["TransactionState"]) == ("shown", "Ongoing")
        (described,) = transactions(bootstrap, "describe", "--transactional-id", "shown")
        assert described["TopicPartitions"] == f"{TOPIC}-1"
        assert described["ProducerId"] == listed["ProducerId"]
        (producing,) = transactions(bootstrap, "describe-producers", "--topic", TOPIC, "--partition", "1")
        assert (producing["ProducerId"], producing["CurrentTransactionStartOffset"]) == (listed["ProducerId"], "0")
        assert transactions(bootstrap, "find-hanging", "--broker-id", "1") == []
        producer.abort_transaction(DEADLINE)
        (listed,) = transactions(bootstrap, "list")
        assert listed["TransactionState"] == "CompleteAbort"


@REAL
def test_kafkas_tools_find_and_abort_a_transaction_that_its_coordinator_forgot(tmp_path: Path) -> None:
    with Broker(topics={TOPIC: 1}, data_dir=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "forgotten"})
        producer.init_transactions(DEADLINE)
        producer.begin_transaction()
        producer.produce(TOPIC, "hanging", timestamp=int(time.time() * 1000) - 3_600_000)
        assert producer.flush(DEADLINE) == 0
    shutil.rmtree(tmp_path / "__transaction_state-0")
    with Broker(data_dir=tmp_path) as broker:
        bootstrap = broker.bootstrap_servers
        (found,) = transactions(bootstrap, "find-hanging", "--broker-id", "1")
        assert (found["Topic"], found["Partition"], found["StartOffset"]) == (TOPIC, "0", "0")
        plain = Producer({"bootstrap.servers": bootstrap})
        plain.produce(TOPIC, "behind it")
        assert plain.flush(DEADLINE) == 0
        assert read(bootstrap, "read_committed", partitions=1) == []
        run_tool(bootstrap, "abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "0")
        assert read(bootstrap, "read_committed", partitions=1) == ["behind it"]
        assert transactions(bootstrap, "find-hanging", "--broker-id", "1") == []


def test_a_transactional_id_that_nobody_uses_is_forgotten_and_its_producer_told() -> None:
    config = {"transactional.id.expiration.ms": 3000, "transaction.remove.expired.transaction.cleanup.interval.ms": 100}
    with Broker(topics={TOPIC: 1}, config=config) as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        bootstrap = broker.bootstrap_servers
        with ottla.Producer(bootstrap, transactional_id="idle") as producer:
            with producer.transaction():
                producer.send(TOPIC, "kept")
            assert [listed.transactional_id for listed in admin.list_transactions()] == ["idle"]
            for _ in until(DEADLINE, "it is forgotten"):
                if not admin.list_transactions():
                    break
            forgotten = pytest.raises(errors.KafkaError, match="INVALID_PRODUCER_ID_MAPPING")
            with forgotten, producer.transaction():
                producer.send(TOPIC, "never")
        with ottla.Producer(bootstrap, transactional_id="idle") as producer, producer.transaction():
            producer.send(TOPIC, "after all")
        assert read(bootstrap, "read_committed", partitions=1) == ["kept", "after all"]


def dumped(path: Path, *options: str) -> str:
    main = "org.apache.kafka.tools.DumpLogSegments"
    return java_tool(VERSION, main, "--files", str(path), *options, timeout=2 * DEADLINE).decode()


@REAL
def test_kafkas_tools_read_the_folder_and_a_restart_knows_it(tmp_path: Path) -> None:
    with Broker(topics={TOPIC: PARTITIONS}, data_dir=tmp_path) as broker:
        by_confluent(broker.bootstrap_servers, "kept", "kept")
        config = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "open"}
        producer = Producer(config)
        producer.init_transactions(DEADLINE)
        producer.begin_transaction()
        producer.produce(TOPIC, "open-0", partition=0)
        assert producer.flush(DEADLINE) == 0
    segment = "0" * 20
    data = dumped(tmp_path / f"{TOPIC}-0" / f"{segment}.log", "--print-data-log")
    markers = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", data)
    assert [kind for kind, _ in markers] == ["COMMIT", "ABORT"] * (TRANSACTIONS // 2)
    assert "isvalid: false" not in data.lower()
    index = tmp_path / f"{TOPIC}-0" / f"{segment}.txnindex"
    aborted = re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", dumped(index))
    assert aborted == [("2", "3", "4"), ("6", "7", "8")]
    states = dumped(tmp_path / "__transaction_state-0" / f"{segment}.log", "--transaction-log-decoder")
    decoded = re.findall(r'"transactionStatus":(\d)', states)
    assert decoded[0] == "0"
    assert set(decoded) == {"0", "1", "2", "3", "4", "5"}
    with Broker(data_dir=tmp_path) as broker:
        bootstrap = broker.bootstrap_servers
        assert offset(bootstrap, "kept") == TRANSACTIONS - 2
        found = read(bootstrap, "read_committed")
        assert set(of("kept", found)) == COMMITTED
        assert "open-0" not in found
        again = Producer({"bootstrap.servers": bootstrap, "transactional.id": "open"})
        again.init_transactions(DEADLINE)
        again.begin_transaction()
        again.produce(TOPIC, "open-1", partition=0)
        again.commit_transaction(DEADLINE)
        found = read(bootstrap, "read_committed")
        assert "open-1" in found
        assert "open-0" not in found


def test_records_of_the_log_of_transactions_are_decoded_by_ottla_too(tmp_path: Path) -> None:
    with Broker(topics={TOPIC: PARTITIONS}, data_dir=tmp_path) as broker:
        by_confluent(broker.bootstrap_servers, "kept", "kept")
    path = tmp_path / "__transaction_state-0" / f"{'0' * 20}.log"
    records = [record for batch in protocol.read_segment(path) for record in batch.records]
    decoded = [protocol.decode_internal("__transaction_state", it.key, it.value, form="json") for it in records]
    assert {it.key.data["transactionalId"] for it in decoded} == {"kept"}
    statuses = [it.value.data["transactionStatus"] for it in decoded]
    assert statuses[0] == 0
    assert statuses[-1] == 5
