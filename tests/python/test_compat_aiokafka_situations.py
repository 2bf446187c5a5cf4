"""Situations that aiokafka's own tests make by replacing private parts of aiokafka, made by the embedded broker instead.

A program sees the same on aiokafka and on ottla. docs/results/compat.md names aiokafka's test of each one.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

import ottla
from ottla.compat import aiokafka as compat
from ottla.testing import Broker
from tests.brokers.running import EMBEDDED_KEPT

aiokafka = pytest.importorskip("aiokafka")
# Seconds for what the loopback does at once; less than `request_timeout_ms`.
PATIENCE = 20
CONFIG = {
    **EMBEDDED_KEPT,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": False,
    "log.cleaner.backoff.ms": 50,
}
APPENDED = ottla.NewTopic("appended", 1, config={"message.timestamp.type": "LogAppendTime"})
COMPACTED = ottla.NewTopic(
    "compacted", 1, config={"cleanup.policy": "compact", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.0"}
)


@asynccontextmanager
async def producer_of(side, broker, **options):
    producer = side.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, **options)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consumer_of(side, broker, *topics, **options):
    consumer = side.AIOKafkaConsumer(
        *topics, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **options
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def write(side, broker, count, topic="t"):
    async with producer_of(side, broker) as producer:
        for number in range(count):
            await producer.send_and_wait(topic, b"%d" % number, partition=0)


async def raised(awaitable):
    try:
        await awaitable
    except RuntimeError as error:
        return type(error).__name__
    return "nothing"


async def sent_while_produce_fails(side, broker, error):
    broker.fail("Produce", error, count=1000)
    async with producer_of(side, broker, request_timeout_ms=400) as producer:
        try:
            return await raised(producer.send_and_wait("t", b"x"))
        finally:
            broker.clear_faults()


async def a_produce_request_that_fails_until_its_time_is_up(side, broker):
    return await sent_while_produce_fails(side, broker, "REQUEST_TIMED_OUT")


async def a_partition_whose_leader_is_another_one_for_long(side, broker):
    return await sent_while_produce_fails(side, broker, "NOT_LEADER_OR_FOLLOWER")


async def a_batch_that_is_sent_again_stays_before_the_next_one(side, broker):
    broker.fail("Produce", "UNKNOWN_TOPIC_OR_PARTITION")
    async with producer_of(side, broker, linger_ms=20) as producer:
        first = await producer.send("t", b"1", partition=0)
        await asyncio.sleep(0.1)
        second = await producer.send("t", b"2", partition=0)
        return (await second).offset - (await first).offset


async def a_topic_that_does_not_exist(side, broker):
    async with producer_of(side, broker, request_timeout_ms=300) as producer:
        return await raised(producer.send_and_wait("unknown", b"x"))


async def a_timestamp_that_the_broker_sets(side, broker):
    async with producer_of(side, broker) as producer:
        sent = await producer.send_and_wait("appended", b"x", timestamp_ms=1)
        return sent.timestamp_type, abs(time.time() * 1000 - sent.timestamp) < PATIENCE * 1000


async def a_value_of_a_wrong_type_leaves_nothing_to_flush(side, broker):
    async with producer_of(side, broker) as producer:
        try:
            await producer.send("t", "text")
        except TypeError:
            await producer.flush()
            async with consumer_of(side, broker) as consumer:
                at = side.TopicPartition("t", 0)
                return (await consumer.end_offsets([at]))[at]


async def a_sequence_number_that_was_lost(side, broker):
    async def loses(producer):
        async with producer.transaction():
            broker.fail("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER", count=1)
            await producer.send_and_wait("t", b"2", partition=0)

    async with producer_of(side, broker, transactional_id="sequences") as producer:
        async with producer.transaction():
            await producer.send_and_wait("t", b"1", partition=0)
        seen = await raised(loses(producer))
    async with consumer_of(side, broker, "t", isolation_level="read_committed") as consumer:
        return seen, (await consumer.getone()).value, await consumer.getmany(timeout_ms=200)


async def a_transactional_id_has_one_producer_id(side, broker):
    found = []
    for _ in range(2):
        async with producer_of(side, broker, transactional_id="same") as producer, producer.transaction():
            await producer.send_and_wait("t", b"x")
        async with ottla.aio.Admin(broker.bootstrap_servers) as admin:
            found.append((await admin.describe_transactions("same"))["same"].producer_id)
    return len(set(found))


async def a_seek_back_and_forth(side, broker):
    await write(side, broker, 3)
    at = side.TopicPartition("t", 0)
    async with consumer_of(side, broker, "t") as consumer:
        values = [(await consumer.getone()).value]
        consumer.seek(at, 0)
        values += [(await consumer.getone()).value, (await consumer.getone()).value]
        consumer.seek(at, 2)
        found = await consumer.getmany(timeout_ms=PATIENCE * 1000)
        values += [record.value for record in found[at]]
        return values, await consumer.getmany(timeout_ms=0)


async def the_middle_of_a_compressed_batch(side, broker):
    at = side.TopicPartition("t", 0)
    async with producer_of(side, broker, compression_type="gzip") as producer:
        batch = producer.create_batch()
        for number in range(10):
            batch.append(key=None, value=b"%d" % number, timestamp=None)
        await (await producer.send_batch(batch, "t", partition=0))
    async with consumer_of(side, broker) as consumer:
        consumer.assign([at])
        consumer.seek(at, 5)
        found = await consumer.getmany(timeout_ms=PATIENCE * 1000)
        return [record.value for record in found[at]], await consumer.position(at)


async def records_that_compaction_removed(side, broker):
    """The first batch keeps its first and third record, of four."""
    at = side.TopicPartition("compacted", 0)
    async with producer_of(side, broker) as producer:
        for number, keys in enumerate((b"abcd", b"bd", b"z")):
            batch = producer.create_batch()
            for key in keys:
                batch.append(key=bytes([key]), value=b"%c%d" % (key, number), timestamp=1000 + number * 10_000)
            await (await producer.send_batch(batch, at.topic, partition=0))
    async with consumer_of(side, broker) as consumer:
        consumer.assign([at])
        while True:
            values = []
            consumer.seek(at, 0)
            while await consumer.position(at) < 7:
                found = await consumer.getmany(timeout_ms=500)
                values += [record.value for record in found.get(at, ())]
            if len(values) < 7:
                return values


async def another_subscription_drops_what_was_fetched(side, broker):
    for topic in ("t", "u"):
        await write(side, broker, 3, topic)
    async with consumer_of(side, broker, "t", group_id="g") as consumer:
        first = (await consumer.getone()).topic
        consumer.subscribe(["u"])
        return [first, *[(await consumer.getone()).topic for _ in range(3)], await consumer.getmany(timeout_ms=100)]


async def a_listener_of_coroutines_that_commits(side, broker):
    await write(side, broker, 2)
    seen, is_again = [], asyncio.Event()

    class Listener(side.ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            if revoked:
                await first.commit()
            seen.append(("revoked", len(revoked)))

        async def on_partitions_assigned(self, assigned):
            await asyncio.sleep(0.1)
            seen.append(("assigned", len(assigned)))
            if len(seen) == 4:
                is_again.set()

    common = {"group_id": "g", "enable_auto_commit": False, "heartbeat_interval_ms": 100}
    async with consumer_of(side, broker, **common) as first:
        first.subscribe(["t"], listener=Listener())
        values = [(await first.getone()).value]
        async with consumer_of(side, broker, **common) as second:
            second.subscribe(["t"])
            await is_again.wait()
            reading = [asyncio.create_task(each.getone()) for each in (first, second)]
            done, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
            values += [each.result().value for each in done]
            for each in reading:
                each.cancel()
            await asyncio.wait(reading)
    return seen[:3], values


async def an_error_of_a_group(side, broker, api):
    """Each call raises it while it lasts. aiokafka wraps it; the class of ottla's is a subclass."""
    broker.fail(api, "UNKNOWN_SERVER_ERROR", count=100_000)
    raised = 0
    async with consumer_of(side, broker, group_id="g", heartbeat_interval_ms=100, enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"])
        for _ in range(4):
            try:
                await consumer.getone()
            except side.errors.KafkaError:
                raised += 1
        broker.clear_faults()
        return raised


async def a_join_that_fails(side, broker):
    return await an_error_of_a_group(side, broker, "JoinGroup")


async def a_heartbeat_that_fails(side, broker):
    return await an_error_of_a_group(side, broker, "Heartbeat")


SITUATIONS = [
    (a_produce_request_that_fails_until_its_time_is_up, "RequestTimedOutError"),
    (a_partition_whose_leader_is_another_one_for_long, "NotLeaderForPartitionError"),
    (a_batch_that_is_sent_again_stays_before_the_next_one, 1),
    (a_topic_that_does_not_exist, "UnknownTopicOrPartitionError"),
    (a_timestamp_that_the_broker_sets, (1, True)),
    (a_value_of_a_wrong_type_leaves_nothing_to_flush, 0),
    (a_sequence_number_that_was_lost, ("OutOfOrderSequenceNumber", b"1", {})),
    (a_transactional_id_has_one_producer_id, 1),
    (a_seek_back_and_forth, ([b"0", b"0", b"1", b"2"], {})),
    (the_middle_of_a_compressed_batch, ([b"5", b"6", b"7", b"8", b"9"], 10)),
    (records_that_compaction_removed, [b"a0", b"c0", b"b1", b"d1", b"z2"]),
    (another_subscription_drops_what_was_fetched, ["t", "u", "u", "u", {}]),
    (a_listener_of_coroutines_that_commits, ([("revoked", 0), ("assigned", 1), ("revoked", 1)], [b"0", b"1"])),
    (a_join_that_fails, 4),
    (a_heartbeat_that_fails, 4),
]


@pytest.mark.parametrize("side", [aiokafka, compat], ids=["aiokafka", "ottla"])
@pytest.mark.parametrize(("situation", "expected"), SITUATIONS, ids=[each.__name__ for each, _ in SITUATIONS])
async def test_both_clients_show_the_same(situation, expected, side):
    with Broker(topics=["t", "u"], config=CONFIG) as broker:
        async with ottla.aio.Admin(broker.bootstrap_servers) as admin:
            await admin.create_topics([APPENDED, COMPACTED])
        async with asyncio.timeout(PATIENCE):
            assert await situation(side, broker) == expected
