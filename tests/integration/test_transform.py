"""`transform` on real Kafka: members come and go, one is killed and one sleeps too long, and each record is written once."""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import ottla
from ottla import aio
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.confluent import Confluent
from tests.waiting import wait_for_ours, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = [REAL]

PARTITIONS, RECORDS = 6, 20_000
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "4000",
    "group.consumer.session.timeout.ms": "4000",
}
MEMBER: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 4000,
    "heartbeat.interval.ms": 200,
    "max.poll.interval.ms": 4000,
    "max.poll.records": 200,
}
# A member that tells what it was given, until it is killed in the middle of a transaction.
CHILD = """
import json, sys, time, ottla
bootstrap, protocol, consumer = json.loads(sys.argv[1])
def copy(batch):
    for record in batch:
        yield ottla.NewRecord(record.value, key=record.key, partition=record.partition)
    print(len(batch), flush=True)
    time.sleep(0.02)
ottla.transform(bootstrap, copy, topics=f"{protocol}-source", group_id=protocol, to=f"{protocol}-sink",
                commit_interval=0.3, consumer=consumer, producer={"transaction.timeout.ms": 3000}).run()
"""


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version=request.param, config=BROKER) as cluster:
        yield str(cluster.st["bootstrap"]["PLAINTEXT"])


class Member(threading.Thread):
    """Copies the source to the sink, in a thread of its own, by either facade."""

    def __init__(
        self, bootstrap: str, protocol: str, consumer: dict[str, Any], *, module: Any = ottla, sleep: float = 0
    ) -> None:
        super().__init__(daemon=True)
        self.given: Counter[tuple[int, int]] = Counter()
        self.protocol = protocol
        self.sleep = sleep
        self.failure: BaseException | None = None
        self.made = module.transform(
            bootstrap,
            self.copy,
            topics=f"{protocol}-source",
            group_id=protocol,
            to=f"{protocol}-sink",
            consumer=consumer,
            producer={"transaction.timeout.ms": 3000},
        )
        self.start()

    def copy(self, batch: ottla.Batch) -> Iterable[ottla.NewRecord]:
        self.given.update((record.partition, record.offset) for record in batch)
        time.sleep(0.02)
        if self.sleep and len(self.given) > 400:
            # For longer than the group waits: it goes on without this member, which does not know of it.
            sleep, self.sleep = self.sleep, 0
            time.sleep(sleep)
        return [ottla.NewRecord(record.value, key=record.key, partition=record.partition) for record in batch]

    def run(self) -> None:
        try:
            result = self.made.run()
            if inspect.isawaitable(result):
                asyncio.run(self.ended(result))
        except BaseException as error:
            self.failure = error

    async def ended(self, result: Any) -> None:
        await result

    def work(self, bootstrap: str, count: int) -> None:
        """Wait until it was given so many records, or none are left."""
        wait_for_ours(
            lambda: len(self.given) >= count or committed(bootstrap, self.protocol) == RECORDS, "the member works"
        )

    def leave(self) -> None:
        self.made.stop()
        self.join(DEADLINE)
        assert not self.is_alive()
        self.check()

    def check(self) -> None:
        if self.failure:
            raise self.failure


def killed_member(bootstrap: str, protocol: str, consumer: dict[str, Any]) -> None:
    """A member in a process of its own, killed when it was given some hundreds of records."""
    command = [sys.executable, "-c", CHILD, json.dumps([bootstrap, protocol, consumer])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        given = 0
        for line in child.stdout:
            given += int(line)
            if given >= 700:
                break
        assert given >= 700, "the member read and committed before it was killed"
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL


def committed(bootstrap: str, protocol: str) -> int:
    """How far the group has come in all partitions, as confluent-kafka is told."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": protocol, "enable.auto.commit": False})
    try:
        found = consumer.committed([TopicPartition(f"{protocol}-source", p) for p in range(PARTITIONS)], DEADLINE)
        return sum(max(each.offset, 0) for each in found)
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("bootstrap", "protocol"),
    [("4.4.0", "classic"), ("4.4.0", "consumer"), ("2.8.2", "classic")],
    indirect=["bootstrap"],
    scope="module",
)
def test_each_record_is_there_once_whoever_came_and_went(bootstrap: str, protocol: str) -> None:
    source, sink = f"{protocol}-source", f"{protocol}-sink"
    with ottla.Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic(name, PARTITIONS, 1) for name in (source, sink)])
        wait_until(lambda: {source, sink} <= set(admin.list_topics()), "the topics are there")
    with ottla.Producer(bootstrap) as producer:
        values = [b"%d" % (n // PARTITIONS) for n in range(RECORDS)]
        partitions = [n % PARTITIONS for n in range(RECORDS)]
        producer.send_many(source, values, partitions=partitions).result(DEADLINE)
    consumer = MEMBER | {"group.protocol": protocol}
    if protocol == "consumer":
        consumer = {key: value for key, value in consumer.items() if not key.startswith(("session", "heartbeat"))}

    stays = Member(bootstrap, protocol, consumer, sleep=5)
    killed_member(bootstrap, protocol, consumer)
    wait_for_ours(lambda: not stays.sleep or stays.failure is not None, "it sleeps longer than the group waits")
    comers, module = 0, aio
    while committed(bootstrap, protocol) < RECORDS:
        comer = Member(bootstrap, protocol, consumer, module=module)
        module = ottla if module is aio else aio
        comer.work(bootstrap, 600)
        comer.leave()
        comers += 1
        stays.check()
    stays.leave()

    assert comers >= 2
    assert committed(bootstrap, protocol) == RECORDS
    found: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
    for message in Confluent().consume_committed(bootstrap, sink, PARTITIONS):
        found[message.partition].append(int(message.value or b""))
    wanted = {p: list(range(len(range(p, RECORDS, PARTITIONS)))) for p in range(PARTITIONS)}
    assert found == wanted, "each record once and in order"
