"""aiokafka."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from measurement import CHUNK, look_at_each

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from measurement import Job, Stopwatch


@asynccontextmanager
async def _reading(job: Job, watch: Stopwatch) -> AsyncIterator[Any]:
    """A consumer at the topic's beginning, while the watch runs."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async with AIOKafkaConsumer(bootstrap_servers=job.bootstrap, **job.properties) as consumer:
        watch.start()
        partitions = [TopicPartition(job.topic, p) for p in range(job.partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        yield consumer
        watch.stop()


def getmany(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`getmany`, and each record's value."""

    async def run() -> tuple[int, int]:
        count = size = 0
        async with _reading(job, watch) as consumer:
            while job.wants_more(count, watch):
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    count, size = count + len(records), size + sum(len(r.value) for r in records)
        return count, size

    return asyncio.run(run())


def records(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`async for record in consumer`."""

    async def run() -> tuple[int, int]:
        async with _reading(job, watch) as consumer:
            return await look_at_each(consumer, job, watch)

    return asyncio.run(run())


def send(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`send`, one by one, all deliveries awaited at the end."""
    from aiokafka import AIOKafkaProducer

    codec = None if job.codec == "none" else job.codec

    async def run() -> int:
        values, sent = job.values(), []
        async with AIOKafkaProducer(
            bootstrap_servers=job.bootstrap, acks="all", compression_type=codec, **job.properties
        ) as producer:
            await producer.partitions_for(job.topic)
            watch.start()
            while job.wants_more(len(sent), watch):
                # A quarter of a chunk at a time, as this client is slow enough to overrun its budget.
                sent += [await producer.send(job.topic, value) for value in values[: CHUNK // 4]]
            await asyncio.gather(*sent)
            watch.stop()
        return len(sent)

    count = asyncio.run(run())
    return count, count * job.size


def latency_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`send_and_wait`."""
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        [value] = job.values()[:1]
        async with AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks=1) as producer:
            await producer.partitions_for(job.topic)
            watch.start()
            for _ in range(job.records):
                begin = time.perf_counter()
                await producer.send_and_wait(job.topic, value)
                watch.laps.append(time.perf_counter() - begin)
            watch.stop()

    asyncio.run(run())
    return job.records, job.records * job.size


def latency_end_to_end(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From `send` until a consumer on the same event loop has the record."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def run() -> None:
        [value] = job.values()[:1]
        async with (
            AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks=1) as producer,
            AIOKafkaConsumer(bootstrap_servers=job.bootstrap) as consumer,
        ):
            partitions = [TopicPartition(job.topic, p) for p in await producer.partitions_for(job.topic)]
            consumer.assign(partitions)
            await consumer.seek_to_end(*partitions)
            watch.start()
            for _ in range(job.records):
                begin = time.perf_counter()
                delivery = await producer.send(job.topic, value)
                await consumer.getone()
                watch.laps.append(time.perf_counter() - begin)
                await delivery
            watch.stop()

    asyncio.run(run())
    return job.records, job.records * job.size


def latency_first(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From making a client until it has a record."""
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.helpers import create_ssl_context

    properties = dict(job.properties)
    ca = properties.pop("ssl_cafile", None)

    async def run() -> None:
        watch.start()
        for _ in range(job.records):
            begin = time.perf_counter()
            if ca:
                properties["ssl_context"] = create_ssl_context(cafile=ca)
            consumer = AIOKafkaConsumer(bootstrap_servers=job.bootstrap, **properties)
            await consumer.start()
            consumer.assign([TopicPartition(job.topic, 0)])
            await consumer.seek_to_beginning(TopicPartition(job.topic, 0))
            await consumer.getone()
            watch.laps.append(time.perf_counter() - begin)
            await consumer.stop()
        watch.stop()

    asyncio.run(run())
    return job.records, job.records * job.size
