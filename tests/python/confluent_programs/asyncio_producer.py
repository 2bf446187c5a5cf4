"""`AIOProducer` and the producer with serializers that derives from it: results, errors, flushes, transactions, a close."""

import asyncio
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.aio import AIOProducer, AsyncSerializingProducer
from confluent_kafka.aio.producer import AIOProducer as TheSame
from confluent_kafka.serialization import StringSerializer

servers, topic, group = sys.argv[1:]


async def outcome(awaitable):
    try:
        return await awaitable
    except (KafkaException, NotImplementedError) as error:
        return error.args[0].name() if isinstance(error, KafkaException) else type(error).__name__


async def results():
    async with AIOProducer({"bootstrap.servers": servers}, batch_size=2, buffer_timeout=0.1) as producer:
        first = await producer.produce(topic, b"one", b"key", partition=1)
        second = await producer.produce(topic, "two", partition=1)
        third = await producer.produce(topic=topic, value=None, key="three", partition=1)
        print(isinstance(first, asyncio.Future), isinstance(producer, TheSame), type(producer).__name__)
        print("left", await producer.flush(20), len(producer))
        for message in await asyncio.gather(first, second, third):
            found = message.topic() == topic, message.partition(), message.offset(), message.key(), message.value()
            print(*found, message.error(), message.timestamp()[1] > 0)
        unawaited = await producer.produce(topic, b"four", partition=1)
        print("without a flush", (await asyncio.wait_for(unawaited, 20)).value())
        cancelled = await producer.produce(topic, b"five", partition=1)
        cancelled.cancel()
        print("cancelled", await producer.flush(timeout=20), cancelled.cancelled())
        tasks = [asyncio.create_task(producer.produce(topic, str(i), partition=1)) for i in range(5)]
        futures = await asyncio.gather(*tasks)
        await producer.flush()
        print("in their order", [(await future).offset() for future in futures])
        print("headers", await outcome(producer.produce(topic, b"x", headers={"a": b"b"})))
        print("topics", topic in (await producer.list_topics(topic, 20)).topics, await producer.poll(0))
    print("closed", len(producer))


async def errors():
    callbacks = []

    async def failed(error):
        callbacks.append(error.name())

    small = AIOProducer({"bootstrap.servers": servers, "message.max.bytes": 1000}, batch_size=1)
    print("too large", await outcome(await small.produce(topic, b"x" * 2000)))
    await small.close()
    settings = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 300, "error_cb": failed}
    unreachable = AIOProducer(settings, batch_size=1, buffer_timeout=0.1)
    waits = await unreachable.produce(topic, b"x")
    print("unflushed", await unreachable.flush(0), len(unreachable))
    print("undelivered", await unreachable.flush(30), await outcome(waits))
    print("error_cb", "_TRANSPORT" in callbacks)
    await unreachable.close()


async def purged():
    producer = AIOProducer({"bootstrap.servers": servers, "linger.ms": 60_000}, batch_size=1)
    await producer.list_topics(topic, 20)
    waits = await producer.produce(topic, b"x", partition=0)
    await producer.purge()
    await producer.flush(20)
    print("purged", str(await outcome(waits)).startswith("_PURGE_"))
    await producer.close()


async def transactions():
    producer = AIOProducer({"bootstrap.servers": servers, "transactional.id": f"aio-{group}"})
    await producer.init_transactions(20)
    for value, end in ("committed", producer.commit_transaction), ("aborted", producer.abort_transaction):
        await producer.begin_transaction()
        future = await producer.produce(topic, value, partition=2)
        await end(20)
        print(value, (await future).partition())
    await producer.begin_transaction()
    await producer.produce(topic, "last", partition=2)
    await producer.commit_transaction(20)
    await producer.close()


async def serialized():
    settings = {"bootstrap.servers": servers, "value.serializer": StringSerializer("utf_16_be")}
    producer = await AsyncSerializingProducer(settings)
    future = await producer.produce(topic, key=b"k", value="é", partition=2)
    print("serialized", isinstance(producer, AIOProducer), await producer.flush(20), (await future).value())
    await producer.close()
    await producer.close()


async def main():
    for part in results, errors, purged, transactions, serialized:
        print(part.__name__)
        await part()


asyncio.run(main())
consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
consumer.assign([TopicPartition(topic, 2, OFFSET_BEGINNING)])
values = []
while not values or values[-1] != "é".encode("utf_16_be"):
    message = consumer.poll(20)
    values.append(message.value())
print(values)
consumer.close()
