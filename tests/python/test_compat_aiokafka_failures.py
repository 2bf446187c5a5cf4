"""What programs of aiokafka see of brokers that fail, on `ottla.compat.aiokafka`."""

from __future__ import annotations

import asyncio

import pytest

from ottla.compat import aiokafka as compat
from ottla.compat.aiokafka import errors
from ottla.testing import Broker

# Seconds for what the loopback does at once.
PATIENCE = 20


async def send(broker, *values):
    async with compat.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            await producer.send_and_wait("t", value, partition=0)


def consumer_of(broker):
    return compat.AIOKafkaConsumer(
        "t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", retry_backoff_ms=50
    )


async def test_an_error_that_passes_is_raised_once():
    with Broker(topics=["t"]) as broker:
        async with consumer_of(broker) as consumer:
            broker.fail("Fetch", "UNKNOWN_SERVER_ERROR")
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(errors.UnknownError):
                    await consumer.getone()
                reading = asyncio.create_task(consumer.getone())
                await send(broker, b"x")
                assert (await reading).value == b"x"


async def test_an_error_that_stays_is_raised_again_after_a_while():
    """Raised at once, it would keep the loop of a program that goes on from running anything else."""
    with Broker(topics=["t"]) as broker:
        async with consumer_of(broker) as consumer:
            broker.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", count=1000)
            raised = 0
            async with asyncio.timeout(PATIENCE):
                while raised < 3:
                    with pytest.raises(errors.TopicAuthorizationFailedError):
                        await consumer.getone()
                    raised += 1
                before = asyncio.get_running_loop().time()
                with pytest.raises(errors.TopicAuthorizationFailedError):
                    await consumer.getmany(timeout_ms=5000)
                assert asyncio.get_running_loop().time() - before > 0.05
                with pytest.raises(errors.TopicAuthorizationFailedError):
                    await consumer.getmany(timeout_ms=0)
                broker.clear_faults()
                await send(broker, b"x")
                found = None
                while found is None:
                    try:
                        found = await consumer.getone()
                    except errors.TopicAuthorizationFailedError:
                        raised += 1
            assert found.value == b"x"


async def test_all_waiting_calls_get_the_error():
    with Broker(topics={"t": 2}) as broker:
        async with consumer_of(broker) as consumer:
            waiting = [
                asyncio.create_task(consumer.getone(compat.TopicPartition("t", number), compat.TopicPartition("t", 0)))
                for number in range(2)
            ]
            await asyncio.sleep(0.1)
            broker.fail("Fetch", "UNKNOWN_SERVER_ERROR", count=1)
            async with asyncio.timeout(PATIENCE):
                failed = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in failed] == [errors.UnknownError] * 2


@pytest.mark.parametrize("waits", [False, True], ids=["fetched", "awaited"])
async def test_a_call_for_one_partition_does_not_raise_the_error_of_another(waits):
    first, second = (compat.TopicPartition("t", number) for number in range(2))
    with Broker(topics={"t": 2}) as broker:
        servers = broker.bootstrap_servers
        async with compat.AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="none") as consumer:
            consumer.assign([first, second])
            consumer.seek(first, 0)
            consumer.seek(second, 1000)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(errors.OffsetOutOfRangeError):
                    await consumer.getone()
                if not waits:
                    await send(broker, b"x")
                    # The task polls meanwhile, and meets the error again.
                    await asyncio.sleep(0.5)
                reading = asyncio.create_task(consumer.getone(first))
                of_second = asyncio.create_task(consumer.getone(second))
                with pytest.raises(errors.OffsetOutOfRangeError):
                    await of_second
                if waits:
                    await asyncio.sleep(0.5)
                    await send(broker, b"x")
                assert (await reading).value == b"x"
                assert await consumer.getmany(first, timeout_ms=300) == {}
                with pytest.raises(errors.OffsetOutOfRangeError):
                    await consumer.getmany(timeout_ms=5000)


async def test_health_checks_see_whether_a_producer_sends():
    with Broker(topics=["t"]) as broker:
        producer = compat.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        assert producer._sender.sender_task is None
        await producer.start()
        task = producer._sender.sender_task
        assert task is producer._sender._sender_task
        assert not task.done()
        await producer.stop()
        assert task.done()


async def test_the_task_of_a_fenced_producer_ends():
    with Broker(topics=["t"]) as broker:
        producer = compat.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x")
        await producer.start()
        broker.fail("Produce", "INVALID_PRODUCER_EPOCH")
        with pytest.raises(errors.ProducerFenced):
            async with producer.transaction():
                await producer.send_and_wait("t", b"x")
        with pytest.raises(errors.ProducerFenced):
            await producer._sender.sender_task
        await producer.stop()
