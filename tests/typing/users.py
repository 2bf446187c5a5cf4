"""What users write, for type checkers: `test_stubs.py` has pyright look at it in strict mode. It is never run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import ottla
from ottla import TopicPartition, aio


def produce(producer: ottla.Producer) -> int:
    delivery = producer.send("t", b"v", key="k", headers={"a": None}, timestamp=datetime.now(UTC))
    deliveries = producer.send_many("t", ["a", b"b", None], keys=[None] * 3, timestamps=[1, None, 3])
    _, offsets = deliveries.result(timeout=5)
    failed = [error for error in deliveries.errors.values() if isinstance(error, ottla.KafkaError)]
    producer.flush()
    numbers = producer.partitions_for("t", timeout=1)
    return delivery.result().offset + sum(offsets) + len(failed) + sum(numbers)


def consume(consumer: ottla.Consumer) -> bytes | None:
    consumer.assign([TopicPartition("t", 0, offset=5), ("t", 1)])
    consumer.seek(("t", 1), 7)
    for topic, partition in sorted(consumer.assignment()):
        print(f"{topic}-{partition}")
    batch = consumer.poll(max_records=10)
    table = batch.to_arrow()
    print(table.num_rows, batch[0].offset, len(batch[1:]))
    both = batch + ottla.Batch.concat(consumer.poll() for _ in range(2))
    print(both.to_polars(["value"]), both.to_pandas(columns=("key", "value")), both.partitions[0].topic, both.spans)
    late = consumer.offsets_for_times({("t", 0): datetime.now(UTC)})[TopicPartition("t", 0)]
    if late is not None:
        print(late.offset + consumer.lag()[TopicPartition("t", 0)])
    for each in consumer.batches():
        print(len(each))
    for record in consumer:
        return record.value
    return None


def share(consumer: ottla.ShareConsumer) -> list[ottla.KafkaError]:
    batch = consumer.poll(max_records=10)
    consumer.acknowledge(batch)
    consumer.acknowledge(batch, "release", [index % 2 == 0 for index in range(len(batch))])
    consumer.acknowledge(batch[0], "renew")
    consumer.set_acknowledgement_callback(lambda ended: print(ended[0].partition, ended[0].offsets, ended[0].error))
    print(batch.delivery_count, batch[0].delivery_count, consumer.lock_timeout())
    for record in consumer:
        consumer.acknowledge(record, kind="reject")
        break
    return [error for error in consumer.commit().values() if error is not None]


async def share_too(consumer: aio.ShareConsumer) -> int:
    async for batch in consumer.batches():
        consumer.acknowledge(batch, "accept", rows=range(2))
        return len(await consumer.commit(timeout=5))
    return 0


def manage(address: str) -> list[str]:
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic("t", partitions=3), "u"], timeout=5)
        print([info.leader for info in admin.describe_topics(["t"])["t"].partitions])
        return admin.list_topics()


def look(address: str) -> int:
    hour = ottla.read(address, "t", since=timedelta(hours=1), until=datetime.now(UTC), fetch_max_bytes=1)
    return len(hour + ottla.read([address], "t", last=10))


async def together(address: str) -> int:
    async with aio.Producer(address, linger_ms=5) as producer, aio.Consumer(address, topics=["t"]) as consumer:
        metadata = await (await producer.send("t", b"v"))
        _, offsets = await (await producer.send_many("t", ["a"]))
        print(len(await aio.read(address, "t", last=1)))
        async for batch in consumer.batches():
            print(len(batch), sum(offsets))
        async for record in consumer:
            return record.offset + metadata.offset
    return 0
