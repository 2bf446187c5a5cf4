"""What several threads or tasks do with one client, and what waits that ended early leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

import ottla
from ottla import aio, errors

ROWS = 400


@pytest.fixture
def filled(address, topic):
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [str(row) for row in range(ROWS)]).result(20)
    return topic


def test_threads_share_an_iteration(address, filled):
    got: list[int] = []
    options = {"auto_offset_reset": "earliest", "max_poll_records": 20}
    with ottla.Consumer(address, topics=[filled], **options) as consumer:

        def iterate():
            try:
                for record in consumer:
                    got.append(int(record.value))
                    time.sleep(0.001)
            except errors.ClosedError:
                pass

        threads = [threading.Thread(target=iterate) for _ in range(4)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while len(got) < ROWS and time.monotonic() < deadline:
            time.sleep(0.02)
    for thread in threads:
        thread.join(20)
    assert sorted(got) == list(range(ROWS))


def test_tasks_share_an_iteration(address, filled):
    async def main():
        got: list[int] = []
        enough = asyncio.Event()

        async def iterate(consumer):
            async for record in consumer:
                got.append(int(record.value))
                if len(got) == ROWS:
                    enough.set()
                await asyncio.sleep(0)

        async with aio.Consumer(
            address, topics=[filled], auto_offset_reset="earliest", max_poll_records=20
        ) as consumer:
            tasks = [asyncio.create_task(iterate(consumer)) for _ in range(4)]
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(enough.wait(), 60)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return got

    assert sorted(asyncio.run(main())) == list(range(ROWS))


def everything(address, topic):
    """All values in a topic, with the partition of each, in the order of the log."""
    with ottla.Consumer(address) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0, 0), ottla.TopicPartition(topic, 1, 0)])
        ends = sum(consumer.end_offsets([(topic, 0), (topic, 1)]).values())
        found = []
        while len(found) < ends:
            found += [(record.partition, record.value.decode()) for record in consumer.poll(20)]
    return found


def test_threads_share_a_producer(address, topic):
    sent: list[list[str]] = [[] for _ in range(8)]
    # Small, so that they wait for each other's room.
    options = {"buffer_memory": 20_000, "batch_size": 5_000}
    with ottla.Producer(address, **options) as producer:

        def work(thread):
            for round_ in range(30):
                names = [f"{thread}-{round_}-{row}-{'x' * 50}" for row in range(10)]
                if thread % 2:
                    producer.send_many(topic, names, partitions=thread % 4 // 2).result(20)
                else:
                    for name in names:
                        producer.send(topic, name, partition=thread % 4 // 2)
                if thread == 0:
                    producer.flush(20)
                sent[thread] += names

        threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
            assert not thread.is_alive()
    found = [value for _, value in everything(address, topic)]
    assert sorted(found) == sorted(name for names in sent for name in names)
    for thread, names in enumerate(sent):
        assert [value for value in found if value.startswith(f"{thread}-")] == names, "in order"


def test_tasks_that_are_cancelled_neither_lose_nor_double(address, topic):
    delivered: set[str] = set()
    tried: set[str] = set()

    async def one(producer, name):
        tried.add(name)
        await (await producer.send(topic, name))
        delivered.add(name)

    async def many(producer, names):
        tried.update(names)
        await (await producer.send_many(topic, names))
        delivered.update(names)

    async def main():
        async with aio.Producer(address, buffer_memory=20_000, batch_size=5_000, linger_ms=2) as producer:
            tasks = []
            for number in range(300):
                tasks.append(asyncio.create_task(one(producer, f"one-{number}-{'x' * 100}")))
                names = [f"many-{number}-{row}-{'x' * 100}" for row in range(5)]
                tasks.append(asyncio.create_task(many(producer, names)))
                if number % 3 == 0:
                    await asyncio.sleep(0.001 * (number % 4))
                    tasks[number // 3].cancel()
                    tasks[-1].cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(end, asyncio.CancelledError) for end in ended) > 20
            assert not [end for end in ended if end is not None and not isinstance(end, asyncio.CancelledError)]

    asyncio.run(main())
    found = [value for _, value in everything(address, topic)]
    assert len(found) == len(set(found))
    assert delivered <= set(found) <= tried


def test_a_wait_that_ended_early_has_not_heard_of_the_failure(broker, address, topic):
    with ottla.Producer(address, linger_ms=60_000) as producer:  # only a flush sends
        producer.partitions_for(topic)
        broker.fail("Produce", "INVALID_RECORD")
        delivery = producer.send(topic, "x")
        with pytest.raises(errors.KafkaTimeoutError):
            delivery.result(0.01)
        del delivery
        with pytest.raises(errors.BrokerError, match="INVALID_RECORD"):
            producer.flush(20)


def test_a_cancelled_await_has_not_heard_of_the_failure(broker, address, topic):
    async def main():
        async with aio.Producer(address, linger_ms=60_000) as producer:  # only a flush sends
            await producer.partitions_for(topic)
            broker.fail("Produce", "INVALID_RECORD")
            delivery = await producer.send(topic, "x")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(delivery, 0.01)
            del delivery
            with pytest.raises(errors.BrokerError, match="INVALID_RECORD"):
                await producer.flush(20)

    asyncio.run(main())


def test_an_await_without_a_name_for_the_delivery_hears_once(broker, address, topic):
    async def main():
        async with aio.Producer(address) as producer:
            await producer.partitions_for(topic)
            broker.fail("Produce", "INVALID_RECORD")
            with pytest.raises(errors.BrokerError, match="INVALID_RECORD"):
                await (await producer.send(topic, "x"))
            await producer.flush(20)

    asyncio.run(main())


def test_any_timeout_that_is_a_number_is_one(address, topic):
    with ottla.Producer(address) as producer:
        assert producer.send(topic, "x").result(1e19).offset == 0
        producer.flush(1e19)


def test_a_length_that_lies_is_not_believed(address, topic):
    class Boastful(list):
        def __len__(self):
            return 2**60

    with ottla.Producer(address) as producer:
        assert len(producer.send_many(topic, Boastful(["x"]))) == 1
