"""Faults between ottla and a real Kafka: nothing acknowledged is lost, nothing is doubled, nothing hangs."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from tests.integration.conftest import REAL, SHORT_SESSIONS
from tests.integration.messages import Message
from tests.integration.peers.base import until
from tests.integration.peers.confluent import Confluent
from tests.integration.stamps import Sent, read_stamp, stamp
from tests.pace import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.brokers.brokers import Cluster
    from tests.python.conftest import Api

pytestmark = [REAL, pytest.mark.timeout(90)]
PARTITIONS = 3


@pytest.fixture(scope="module")
def shaken(start_kafka: Callable[..., Cluster]) -> Cluster:
    """A broker behind the fault proxy, which a test may also stop and kill."""
    config = {**SHORT_SESSIONS, "group.initial.rebalance.delay.ms": "0"}
    return start_kafka(proxy="PLAINTEXT", config=config)


@pytest.fixture
def proxied(shaken: Cluster) -> Iterator[str]:
    """Its address through the proxy; the line is clean before and after."""
    shaken.fault()
    yield str(shaken.st["bootstrap"]["PROXIED"])
    shaken.fault()


class Faults(threading.Thread):
    """Runs a story of faults beside the test, and hands on what went wrong in it."""

    def __init__(self, story: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.story, self.failure = story, list[BaseException]()
        self.start()

    def run(self) -> None:
        try:
            self.story()
        except BaseException as e:
            self.failure.append(e)

    def done(self) -> bool:
        if self.failure:
            raise self.failure[0]
        return not self.is_alive()


def killed(cluster: Cluster) -> None:
    time.sleep(1)
    cluster.restart(1, grace=0)


def restarted(cluster: Cluster) -> None:
    time.sleep(1)
    cluster.restart(1, grace=10)


def resets(cluster: Cluster) -> None:
    """Every connection is torn down, again and again: requests written and not answered among them."""
    for _ in range(8):
        time.sleep(0.4)
        cluster.fault(1, mode="reset")
        cluster.fault(1)


def cut_answers(cluster: Cluster) -> None:
    """The broker works, but each connection ends after some kilobytes of answers, in the middle of one."""
    for cut in (3000, 1500, 701, 4003):
        cluster.fault(1, cut_after=cut)
        time.sleep(0.7)
    cluster.fault(1)


def slow_and_torn(cluster: Cluster) -> None:
    """Answers come late and in crumbs."""
    cluster.fault(1, latency_ms=40, jitter_ms=60, chunk=200)
    time.sleep(4)
    cluster.fault(1)


STORIES = [killed, restarted, resets, cut_answers, slow_and_torn]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_produce_loses_and_doubles_nothing(
    shaken: Cluster, proxied: str, new_topic: Callable[..., str], story: Callable[[Cluster], None]
) -> None:
    produce_through(story, shaken, proxied, new_topic)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("story", [resets, cut_answers], ids=lambda s: s.__name__)
def test_a_broker_that_remembers_one_batch_has_none_twice(
    start_kafka: Callable[..., Cluster], new_topic: Callable[..., str], story: Callable[[Cluster], None]
) -> None:
    """0.11 knows a batch again only as the last of its producer, so that one at a time is sent (KAFKA-5494)."""
    cluster = start_kafka(proxy="PLAINTEXT", version="0.11.0.3")
    produce_through(story, cluster, str(cluster.st["bootstrap"]["PROXIED"]), new_topic)


def produce_through(
    story: Callable[[Cluster], None], cluster: Cluster, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    """Produce while the faults happen, and hold what was told of each record against the log."""
    topic = new_topic(bootstrap, PARTITIONS)
    sent = Sent(story.__name__, topic)
    in_time = int(patience(60) * 1000)
    with ottla.Producer(bootstrap, linger_ms=2, delivery_timeout_ms=in_time, request_timeout_ms=5_000) as producer:
        faults = Faults(lambda: story(cluster))
        for sequence, _ in enumerate(until(patience(60), "the faults are over")):
            for partition in range(PARTITIONS):
                sent.send(producer, partition, sequence)
            time.sleep(0.002)
            if faults.done() and sequence > 500:
                break
        producer.flush(30)

    sent.check(whole_log(cluster, topic))


def whole_log(cluster: Cluster, topic: str) -> list[Message]:
    """Every message of the topic, read by another client past the proxy."""
    bootstrap = str(cluster.st["bootstrap"]["PLAINTEXT"])
    with ottla.Consumer(bootstrap) as consumer:
        ends = consumer.end_offsets([ottla.TopicPartition(topic, p) for p in range(PARTITIONS)])
    return Confluent().consume(bootstrap, topic, PARTITIONS, sum(ends.values()))


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_consume_neither_skips_nor_steps_back(
    shaken: Cluster, proxied: str, new_topic: Callable[..., str], story: Callable[[Cluster], None]
) -> None:
    """R8, inside a poll and between polls, while the log grows."""
    topic = new_topic(proxied, PARTITIONS)
    direct = str(shaken.st["bootstrap"]["PLAINTEXT"])
    count = 3000
    Confluent().produce(
        direct, topic, "lz4", [Message(None, stamp("r8", topic, i % 3, i // 3), partition=i % 3) for i in range(count)]
    )
    next_offset = dict.fromkeys(range(PARTITIONS), 0)
    properties: dict[str, Any] = {"max_partition_fetch_bytes": 8_000, "fetch_max_bytes": 16_000, "max_poll_records": 50}
    with ottla.Consumer(proxied, **properties) as consumer:
        consumer.assign([ottla.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        faults = Faults(lambda: story(shaken))
        for _ in until(60, f"all is read; {next_offset} of {count // PARTITIONS} each"):
            try:
                batch = consumer.poll(0.5)
            except ottla.errors.KafkaError as e:
                if not e.retriable:
                    raise
                continue  # it was said, and reading goes on
            for record in batch:
                assert record.offset == next_offset[record.partition]
                assert read_stamp(record.value) == ("r8", topic, record.partition, record.offset)
                next_offset[record.partition] += 1
            time.sleep(0.01)
            if faults.done() and set(next_offset.values()) == {count // PARTITIONS}:
                break


def test_sends_end_in_time_while_the_broker_is_frozen(
    shaken: Cluster, proxied: str, new_topic: Callable[..., str]
) -> None:
    """R5 and R6: each send fails within its delivery timeout, and appears later once at most."""
    topic = new_topic(proxied, PARTITIONS)
    sent = Sent("frozen", topic)
    producer = ottla.Producer(proxied, delivery_timeout_ms=3_000, request_timeout_ms=1_000, linger_ms=0)
    try:
        sent.send(producer, 0, 0)
        sent.deliveries[0][2].result(10)
        shaken.kill("node1", signal.SIGSTOP)
        start = time.monotonic()
        for sequence in range(1, 100):
            sent.send(producer, 0, sequence)
        for _, _, delivery in sent.deliveries[1:]:
            with pytest.raises(ottla.errors.KafkaError) as caught:
                delivery.result(10)
            assert topic in str(caught.value)
        assert time.monotonic() - start < 20, "seven times its timeout, and a sixth of the default"
    finally:
        shaken.kill("node1", signal.SIGCONT)
        producer.close(10)
    assert set(sent.resolved.values()) == {1}
    sequences = [read_stamp(m.value)[3] for m in whole_log(shaken, topic)]
    assert len(set(sequences)) == len(sequences)
    assert sequences == sorted(sequences)


def test_close_is_bounded_while_the_broker_is_frozen(
    shaken: Cluster, proxied: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(proxied, 1)
    producer = ottla.Producer(proxied)
    producer.send(topic, b"first").result(10)
    consumer = ottla.Consumer(proxied)
    consumer.assign([ottla.TopicPartition(topic, 0, 0)])
    assert len(consumer.poll(10)) == 1
    shaken.kill("node1", signal.SIGSTOP)
    try:
        lost = producer.send(topic, b"second")
        for close in (producer.close, consumer.close):
            start = time.monotonic()
            try:
                close(timeout=2)
            except ottla.errors.KafkaError as e:
                if topic not in str(e):
                    raise
            assert time.monotonic() - start < 15, "its timeout, not that of the delivery"
        assert lost.done()
        assert lost.exception() is not None
    finally:
        shaken.kill("node1", signal.SIGCONT)


class Late(threading.Thread):
    """How late the machine lets threads run, in all: what it stole from a call that a test times."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seconds, self.is_over = 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.is_over.is_set():
            begun = time.monotonic()
            time.sleep(0.05)
            self.seconds += time.monotonic() - begun - 0.05

    def took(self, call: Callable[[], object]) -> float:
        """Seconds of a call, without those in which the machine was busy with others."""
        begun, late = time.monotonic(), self.seconds
        call()
        return time.monotonic() - begun - (self.seconds - late)


class Transformer(threading.Thread):
    """A transform of either facade, in a thread of its own; its brokers may be given two seconds for a transaction."""

    def __init__(self, api: Api, bootstrap: str, topic: str, **options: Any) -> None:
        super().__init__(daemon=True)
        self.given = threading.Event()
        group = f"{topic}-transform-{'-'.join(options)}"
        self.made = api.module.transform(
            bootstrap,
            self.copy,
            topics=topic,
            group_id=group,
            to=f"{topic}-out",
            consumer={"auto.offset.reset": "earliest"},
            producer={"max.block.ms": 2000},
            **options,
        )
        self.failure: BaseException | None = None
        self.start()

    def copy(self, batch: ottla.Batch) -> list[ottla.NewRecord]:
        self.given.set()
        return [ottla.NewRecord(record.value) for record in batch]

    def run(self) -> None:
        try:
            result = self.made.run()
            if inspect.isawaitable(result):
                asyncio.run(awaited(result))
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        self.made.stop()
        self.join(60)
        assert not self.is_alive()
        assert self.failure is None or isinstance(self.failure, ottla.errors.KafkaError), self.failure


async def awaited(result: Any) -> None:
    await result


# Seconds that a close is given, and those that the end of a transform has: its own default of a close.
CLOSE, TRANSFORM = 2.0, 5.0


def test_members_of_groups_close_in_their_time_while_the_broker_is_frozen(
    shaken: Cluster, proxied: str, new_topic: Callable[..., str], api: Api
) -> None:
    """Of both protocols, of share groups, and a transform with and without an open transaction; producers, too."""
    topic = new_topic(proxied, 1)
    with ottla.Admin(proxied) as admin:
        admin.create_topics([ottla.NewTopic(f"{topic}-out", 1, 1)])
    producer = ottla.Producer(proxied)
    producer.send(topic, b"first").result(10)
    module, groups = api.module, {"auto_offset_reset": "earliest", "topics": topic}
    members = {
        protocol: module.Consumer(proxied, group_id=f"{topic}-{protocol}", group_protocol=protocol, **groups)
        for protocol in ("classic", "consumer")
    }
    for member in members.values():
        assert len(api.poll(member, 1)) == 1
    members["share"] = module.ShareConsumer(proxied, topics=topic, group_id=f"{topic}-share")
    for _ in until(30, "the share group gives out a record"):
        if members["share"].assignment():
            producer.send(topic, b"second").result(10)
        if len(api(members["share"].poll(0.5))):
            break
    named = {"transactional_id": f"{topic}-writer"}
    writers = {"producer": module.Producer(proxied), "transaction": module.Producer(proxied, **named)}
    api(writers["transaction"].begin_transaction())
    for writer in writers.values():
        api.result(api(writer.send(topic, b"third")))
    # The one rests between its transactions when the broker freezes, the other has one open.
    transforms = [Transformer(api, proxied, topic), Transformer(api, proxied, topic, commit_interval=600.0)]
    for transform in transforms:
        assert transform.given.wait(30)
    time.sleep(1)
    late = Late()
    shaken.kill("node1", signal.SIGSTOP)
    try:
        lost = [api(writer.send(topic, b"fourth")) for writer in writers.values()]
        for name, member in (members | writers).items():
            took = late.took(lambda member=member: ended(api, lambda: member.close(CLOSE)))
            print(f"{name} {api.name}: {took:.2f} s of {CLOSE:g}")
            assert took < 2 * CLOSE, f"{name}: its timeout, and not the default of {TRANSFORM:g} s"
        for delivery in lost:
            with pytest.raises(ottla.errors.KafkaError):
                api.result(delivery)
        for transform in transforms:
            took = late.took(transform.end)
            print(f"transform {api.name}: {took:.2f} s")
            # Consumer and producer close one after the other; what the second one has open is aborted before.
            assert took < 4 * TRANSFORM, "the time of its closes, not a minute of requests that nobody answers"
    finally:
        shaken.kill("node1", signal.SIGCONT)
        late.is_over.set()
        producer.close(10)


def ended(api: Api, close: Callable[[], Any]) -> None:
    """Close, and let it say that the broker has not answered."""
    with contextlib.suppress(ottla.errors.KafkaTimeoutError):
        api(close())
