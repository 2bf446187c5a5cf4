"""Fetch sessions (KIP-227): the embedded broker answers as real Kafka does, and the clients that use them lose nothing."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import protocol
from ottla.testing import Broker
from tests.brokers import tokens
from tests.brokers.shared import shared
from tests.integration.conftest import REAL
from tests.integration.messages import Message
from tests.integration.peers.ours import Ottla
from tests.waiting import wait_for_ours, wait_until
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.peers.base import Peer

FIRST_BY_ID = 13
ZERO = uuid.UUID(int=0)
# A row of an answer: partition, code, high watermark, log start, records.
Row = tuple[int, int, int, int, bytes]


class Reader:
    """A client that is told what to send. It keeps the answers without what differs from broker to broker: ids and names."""

    def __init__(self, bootstrap: str, topic: str, version: int) -> None:
        self.bootstrap, self.topic, self.version = bootstrap, topic, version
        self.connection = Connection(bootstrap)
        self.session, self.said = 0, list[Any]()
        self.topic_id = self.find_id()

    def find_id(self) -> Any:
        answer = self.connection.ask("Metadata", 12, {"topics": [{"topic_id": ZERO, "name": self.topic}]})
        return answer["topics"][0]["topic_id"]

    def reconnect(self) -> None:
        self.connection.socket.close()
        self.connection = Connection(self.bootstrap)

    def named(self, **fields: Any) -> dict[str, Any]:
        key = {"topic_id": self.topic_id} if self.version >= FIRST_BY_ID else {"topic": self.topic}
        return key | fields

    def fetch(
        self,
        epoch: int,
        offsets: dict[int, int] | None = None,
        forget: list[int] | None = None,
        session: int | None = None,
        max_bytes: int = 1 << 20,
    ) -> None:
        partitions = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            for partition, offset in (offsets or {}).items()
        ]
        request = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": max_bytes,
            "session_id": self.session if session is None else session,
            "session_epoch": epoch,
            "topics": [self.named(partitions=partitions)] if partitions else [],
            "forgotten_topics_data": [self.named(partitions=forget)] if forget else [],
        }
        if self.version >= 15:
            del request["replica_id"]
        answer = self.connection.ask("Fetch", self.version, request)
        rows = [row(partition) for topic in answer["responses"] for partition in topic["partitions"]]
        old, new = self.session, answer["session_id"]
        kept = "none" if new == 0 else "same" if new == old else "new"
        self.said.append((answer["error_code"], kept, rows))
        if session is None and not answer["error_code"]:
            self.session = new

    def wait_for_leaders(self, partitions: int) -> None:
        """A new topic has its leaders a little later than its name."""

        def all_led() -> bool:
            self.said.clear()
            self.fetch(-1, dict.fromkeys(range(partitions), 0), session=0)
            return all(code == 0 for _, _, rows in self.said for _, code, *_ in rows)

        wait_until(all_led, "all partitions have leaders")
        self.said.clear()

    def produce(self, partition: int) -> None:
        records = protocol.encode_records([protocol.Record(b"v" * 100, timestamp=1_700_000_000_000)])
        data = [{"name": self.topic, "partition_data": [{"index": partition, "records": records}]}]
        answer = self.connection.ask("Produce", 9, {"acks": -1, "timeout_ms": 10_000, "topic_data": data})
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0


def row(partition: dict[str, Any]) -> Row:
    names = ("partition_index", "error_code", "high_watermark", "log_start_offset")
    number, code, high, start = (partition[name] for name in names)
    return number, code, high, start, bytes(partition["records"] or b"")


def script(bootstrap: str, topic: str, version: int) -> list[Any]:
    """What a broker says to requests that are right and wrong."""
    reader = Reader(bootstrap, topic, version)
    reader.wait_for_leaders(3)
    reader.produce(0)
    reader.fetch(0, {0: 0, 1: 0, 2: 0})  # it begins
    reader.fetch(1)  # partition 0 again, which did not move on
    reader.fetch(2, {0: 1})  # nothing is new
    reader.produce(1)
    reader.produce(2)
    reader.fetch(3)  # two
    reader.fetch(4, max_bytes=1)  # one of them, and the other the next time
    reader.fetch(5, max_bytes=1)
    reader.fetch(6, {1: 1, 2: 1})
    reader.reconnect()
    reader.fetch(7)  # a session belongs to no connection
    reader.fetch(8, {0: 9})  # out of range, each time
    reader.fetch(9)
    reader.fetch(10, {0: 1})  # the error has gone
    reader.fetch(11, forget=[2])
    reader.produce(2)
    reader.fetch(12)  # it was forgotten
    reader.fetch(13, {2: 1})  # and is asked for again
    reader.fetch(13)  # the epoch before
    reader.fetch(20)  # one that is far ahead
    reader.fetch(14, session=reader.session ^ 1)  # an unknown session
    reader.fetch(14, {7: 0})  # a partition that there is not
    reader.fetch(15, forget=[7])
    reader.fetch(16)
    reader.fetch(0, {0: 0, 1: 0})  # anew: the old one ends
    reader.fetch(1, forget=[0, 1])  # nothing is left
    reader.fetch(2, session=reader.session)
    reader.session = 0
    reader.fetch(0, {0: 0})
    reader.version, before = (12 if version >= FIRST_BY_ID else 13), version
    reader.fetch(1)  # ids and names do not mix
    reader.version = before
    reader.fetch(1)
    reader.fetch(-1, {0: 0})  # the last
    reader.fetch(1)
    reader.session = 0
    reader.fetch(-1, {0: 0, 1: 1})  # without any
    reader.connection.socket.close()
    return reader.said


@REAL
@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_each_request_is_answered_as_by_kafka(version: int, kafka: str, new_topic: Callable[..., str]) -> None:
    with Broker() as broker:
        ours = script(broker.bootstrap_servers, new_topic(broker.bootstrap_servers, 3), version)
    theirs = script(kafka, new_topic(kafka, 3), version)
    assert ours == theirs
    codes = {code for code, _, _ in theirs}
    assert codes == {0, 70, 71, 106}
    assert len(theirs) == 29


@REAL
def test_a_topic_that_is_gone_is_told_as_by_kafka(kafka: str, new_topic: Callable[..., str]) -> None:
    def told(bootstrap: str) -> list[Any]:
        topic = new_topic(bootstrap, 1)
        reader = Reader(bootstrap, topic, 17)
        reader.wait_for_leaders(1)
        reader.fetch(0, {0: 0})
        with ottla.Admin(bootstrap) as admin:
            admin.delete_topics([topic])
            wait_until(lambda: topic not in admin.list_topics(), "the topic is gone")
            reader.fetch(1)
            admin.create_topics([ottla.NewTopic(topic, 1, 1)])
            wait_until(lambda: topic in admin.list_topics(), "the topic is there again")
        old, session, said = reader.topic_id, reader.session, list(reader.said)
        reader.topic_id = reader.find_id()
        reader.wait_for_leaders(1)
        reader.topic_id, reader.session, reader.said = old, session, said
        reader.fetch(2)
        reader.fetch(-1, {0: 0}, session=0)
        reader.connection.socket.close()
        return reader.said

    with Broker() as broker:
        assert told(broker.bootstrap_servers) == told(kafka)


@pytest.mark.parametrize(
    "peer",
    [pytest.param("java-console", marks=REAL), pytest.param("franz-go", marks=pytest.mark.needs("go"))],
    indirect=True,
)
def test_clients_with_sessions_read_all_whatever_happens_to_answers(peer: Peer) -> None:
    partitions, count = 6, 600
    with Broker(topics={"t": partitions}) as broker:
        sent = [Message(b"%d" % i, b"v" * 200, partition=i % partitions) for i in range(count)]
        Ottla().produce(broker.bootstrap_servers, "t", "none", sent)
        broker.fail("Fetch", "INVALID_FETCH_SESSION_EPOCH")
        broker.throttle("Fetch", 0.1)
        broker.cut("Fetch", 30)
        broker.delay("Fetch", 0.1)
        got = peer.consume(broker.bootstrap_servers, "t", partitions, count)
    assert sorted(m.key or b"" for m in got) == sorted(m.key or b"" for m in sent)


MANY = 300
# What a request and its answer may have where nothing is new: that of one partition, without a session, has about 35 bytes.
FEW = 400


@pytest.fixture(
    params=["embedded", pytest.param("4.4.0", marks=REAL), pytest.param("2.8.2", marks=[REAL, pytest.mark.nightly])]
)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "embedded":
        with Broker() as broker:
            yield broker.bootstrap_servers
        return
    with tokens.held(tokens.NODE), shared(tmp_path_factory.mktemp("kafka"), request.param) as cluster:
        yield cluster.st["bootstrap"]["PLAINTEXT"]


def exchanged(consumer: ottla.Consumer, seconds: float) -> tuple[float, float]:
    """Bytes of a request and of an answer, on the average, while nothing comes."""
    names = ("request-total", "outgoing-byte-total", "incoming-byte-total")

    def totals() -> list[float]:
        metrics = consumer.metrics()
        return [metrics.value(name, group="consumer-metrics") for name in names]

    before, changes = totals(), [0.0]

    def asks_again() -> bool:
        assert len(consumer.poll(seconds)) == 0
        changes[:] = [now - old for now, old in zip(totals(), before, strict=True)]
        return changes[0] >= 2

    wait_for_ours(asks_again, "two requests are sent")
    requests, sent, received = changes
    return sent / requests, received / requests


def read(consumer: ottla.Consumer) -> list[tuple[int, bytes | None]]:
    """What comes next."""
    got: list[tuple[int, bytes | None]] = []

    def has_come() -> bool:
        got.extend((record.partition, record.value) for record in consumer.poll(1.0))
        return bool(got)

    wait_for_ours(has_come, "a record")
    return got


def test_an_idle_consumer_of_many_partitions_sends_and_gets_little(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(bootstrap, MANY)
    with (
        ottla.Producer(bootstrap) as producer,
        ottla.Consumer(bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        partitions = [ottla.TopicPartition(topic, partition) for partition in range(MANY)]
        # New partitions of a real cluster get their leaders one after the other, once their files are made.
        consumer.end_offsets(partitions, timeout=90)
        consumer.assign(partitions)
        wait_for_ours(lambda: max(exchanged(consumer, 2.5)) < FEW, "all is told once, and what follows is small")
        for partition in (200, 3, 200):
            producer.send(topic, b"%d" % partition, partition=partition).result(20)
            assert read(consumer) == [(partition, b"%d" % partition)]
        consumer.pause([ottla.TopicPartition(topic, 5)])
        producer.send(topic, b"later", partition=5).result(20)
        exchanged(consumer, 2.5)
        assert max(exchanged(consumer, 2.5)) < FEW, "a paused partition is not told of"
        consumer.resume([ottla.TopicPartition(topic, 5)])
        assert read(consumer) == [(5, b"later")]
        assert consumer.lag()[ottla.TopicPartition(topic, 200)] == 0
