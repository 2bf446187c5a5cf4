"""Transactions: commits, aborts, offsets of a group, a fenced producer, and what consumers of committed records see."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import IllegalOperation, ProducerFenced

servers, topic, group = sys.argv[1:]


async def refused(call):
    try:
        await call
    except IllegalOperation as error:
        return type(error).__name__


async def main():
    tp = TopicPartition(topic, 0)
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=group)
    await producer.start()
    print(await refused(producer.send(topic, b"outside", partition=0)))
    print(await refused(producer.send_offsets_to_transaction({tp: 1}, group)))
    async with producer.transaction():
        print((await producer.send_and_wait(topic, b"committed", partition=0)).offset)
        await producer.send_offsets_to_transaction({tp: 7}, group)
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"aborted", partition=0)
            await producer.send_offsets_to_transaction({tp: (8, "text")}, group)
            raise KeyError("mine")
    except KeyError as error:
        print("raised", error)
    await producer.begin_transaction()
    future = await producer.send(topic, b"committed, too", partition=0)
    await producer.commit_transaction()
    print(future.done(), (await future).offset)
    await producer.begin_transaction()
    await producer.abort_transaction()
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"{group}-reader",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        print([(m.offset, m.value) for m in [await asyncio.wait_for(consumer.getone(), 20) for _ in range(2)]])
        print(await consumer.getmany(timeout_ms=200))
    async with AIOKafkaConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        print(await consumer.committed(tp))
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=group) as second:
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"fenced", partition=0)
        except ProducerFenced as error:
            print(type(error).__name__)
        async with second.transaction():
            print((await second.send_and_wait(topic, b"second", partition=1)).partition)
    await producer.stop()


asyncio.run(main())
