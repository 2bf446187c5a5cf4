"""A service: consumers and producers live as long as its lifespan, listeners commit by hand, transactions carry offsets."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

servers, topic, group = sys.argv[1:]


class Positions(ConsumerRebalanceListener):
    """Commits what is done before partitions are given up."""

    def __init__(self, service):
        self.service = service

    async def on_partitions_revoked(self, revoked):
        done = {tp: offset for tp, offset in self.service.done.items() if tp in revoked}
        if done:
            await self.service.consumer.commit(done)
            print("committed", sorted(done.items()))

    async def on_partitions_assigned(self, assigned):
        print("assigned", sorted(assigned))


class Service:
    def __init__(self):
        self.done, self.handled = {}, []

    @asynccontextmanager
    async def lifespan(self):
        async with AsyncExitStack() as stack:
            self.producer = AIOKafkaProducer(
                bootstrap_servers=servers,
                enable_idempotence=True,
                value_serializer=lambda value: json.dumps(value).encode(),
                key_serializer=str.encode,
            )
            await stack.enter_async_context(self.producer)
            self.consumer = AIOKafkaConsumer(
                bootstrap_servers=servers,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                value_deserializer=json.loads,
            )
            self.consumer.subscribe([topic], listener=Positions(self))
            await stack.enter_async_context(self.consumer)
            task = asyncio.create_task(self.work())
            try:
                yield self
            finally:
                task.cancel()
                print(
                    "cancelled",
                    isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError),
                )

    async def work(self):
        async for record in self.consumer:
            self.handled.append((record.key, record.value))
            self.done[TopicPartition(record.topic, record.partition)] = record.offset + 1

    async def post(self, key, **order):
        return await self.producer.send_and_wait(topic, order, key=key, headers=[("source", b"http")])

    async def handled_at_least(self, count):
        async with asyncio.timeout(20):
            while len(self.handled) < count:  # noqa: ASYNC110 nothing tells it
                await asyncio.sleep(0.02)


async def totals():
    """Consume, transform and produce in transactions."""
    reading = {"bootstrap_servers": servers, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with (
        AIOKafkaConsumer(topic, group_id=f"{group}-totals", enable_auto_commit=False, **reading) as consumer,
        AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"totals-{group}") as producer,
    ):
        seen = 0
        while seen < 7:
            found = await consumer.getmany(timeout_ms=10_000, max_records=2)
            async with producer.transaction():
                for records in found.values():
                    for record in records:
                        seen += 1
                        await producer.send(f"{topic}-totals", record.value, key=record.key)
                offsets = {tp: records[-1].offset + 1 for tp, records in found.items()}
                await producer.send_offsets_to_transaction(offsets, f"{group}-totals")
        print("in transactions", seen, sum([await consumer.committed(tp) or 0 for tp in consumer.assignment()]))
        newer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"totals-{group}")
        await newer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(f"{topic}-totals", b"late")
        except ProducerFenced as error:
            print("fenced", isinstance(error, KafkaError))
        await newer.stop()
    async with AIOKafkaConsumer(f"{topic}-totals", **reading) as consumer:
        print(sorted([(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(7)]))


async def main():
    async with Service().lifespan() as service:
        for number in range(6):
            await service.post(f"k{number}", amount=number)
        await service.handled_at_least(6)
        print(sorted(service.handled))
    async with Service().lifespan() as service:
        await service.post("k0", amount=6)
        # The first one has committed nothing: its listener is not called when it stops.
        await service.handled_at_least(7)
        print(sorted(service.handled, key=str))
    await totals()


asyncio.run(main())
