"""Produce with keys, headers, times and a batch; read as a group with a listener, seek, commit, pause, find offsets."""

import asyncio
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import ConsumerStoppedError, ProducerClosed

servers, topic, group = sys.argv[1:]
TIME = 1_700_000_000_000


class Listener(ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked):
        print("revoked", sorted(revoked))

    def on_partitions_assigned(self, assigned):
        print("assigned", sorted(assigned))


async def produce():
    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        key_serializer=str.encode,
        value_serializer=lambda value: None if value is None else value.encode(),
        compression_type="gzip",
    )
    await producer.start()
    print("partitions", await producer.partitions_for(topic))
    for number in range(10):
        future = await producer.send(
            topic,
            f"v{number}",
            f"k{number}",
            timestamp_ms=TIME + number,
            headers=[("h", b"x")] if number == 3 else None,
        )
        found = await future
        print(found.topic, found.partition, found.topic_partition, found.offset, found.timestamp, found.timestamp_type)
    print("tombstone", (await producer.send_and_wait(topic, key="k1", partition=2, timestamp_ms=TIME)).partition)
    batch = producer.create_batch()
    for number in range(3):
        print("appended", batch.append(key="b", value=str(number), timestamp=TIME).offset)
    print("batch", batch.record_count(), batch.closed())
    first = await (await producer.send_batch(batch, topic, partition=0))
    print("batch at", first.partition, first.offset, batch.closed(), batch.append(key="b", value="", timestamp=None))
    futures = [await producer.send(topic, "late", "late") for _ in range(5)]
    await producer.flush()
    print("flushed", all(future.done() for future in futures))
    await producer.stop()
    await producer.stop()
    try:
        await producer.send(topic, "x", "x")
    except ProducerClosed as error:
        print(type(error).__name__)


async def consume():
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        value_deserializer=lambda value: None if value is None else value.decode(),
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    print("subscription", consumer.subscription(), sorted(consumer.assignment()), consumer.partitions_for_topic(topic))
    records = [await asyncio.wait_for(consumer.getone(), 20) for _ in range(19)]
    for m in sorted(records, key=lambda m: (m.partition, m.offset)):
        late = m.value == "late"
        print(m.partition, m.offset, m.key, m.value, m.headers, m.timestamp_type, m.checksum, not late and m.timestamp)
        print(m.serialized_key_size, m.serialized_value_size)
    every = sorted(consumer.assignment())
    print("positions", [await consumer.position(tp) for tp in every])
    print("committed", [await consumer.committed(tp) for tp in every])
    await consumer.commit()
    print("committed", [await consumer.committed(tp) for tp in every])
    await consumer.commit({every[0]: 1, every[1]: (2, "text")})
    print("seek_to_committed", sorted((await consumer.seek_to_committed()).items()))
    consumer.seek(every[0], 2)
    print("sought", (await consumer.getone(every[0])).offset)
    print("nothing", await consumer.getmany(every[2], timeout_ms=100))
    await consumer.seek_to_beginning(every[0])
    found = await consumer.getmany(every[0], timeout_ms=5000, max_records=2)
    print("many", {tp: [m.offset for m in listed] for tp, listed in found.items()})
    await consumer.seek_to_end()
    print("ends", [await consumer.position(tp) for tp in every])
    consumer.pause(every[0])
    print("paused", consumer.paused())
    consumer.resume(every[0])
    print("paused", consumer.paused())
    print(
        sorted((await consumer.beginning_offsets(every)).items()), sorted((await consumer.end_offsets(every)).items())
    )
    print(await consumer.offsets_for_times({TopicPartition(topic, 0): TIME}))
    print(await consumer.offsets_for_times({TopicPartition(topic, 0): int(time.time() * 1000) + 10_000_000}))
    print(topic in await consumer.topics())
    waiting = asyncio.create_task(consumer.getone())
    await asyncio.sleep(0.1)
    await consumer.stop()
    for call in (waiting, consumer.getone(), consumer.getmany()):
        try:
            await call
        except ConsumerStoppedError as error:
            print(type(error).__name__)


async def iterate():
    async with AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        seen = 0
        async for _ in consumer:
            seen += 1
            if seen == 19:
                break
        print("iterated", seen)


async def main():
    await produce()
    await consume()
    await iterate()


asyncio.run(main())
