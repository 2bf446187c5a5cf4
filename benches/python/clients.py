"""Every way of consuming and producing, by every client; each function stops at its time budget.

A function is given a `Job` and a `Stopwatch`; it starts the watch when its client is connected, and stops it when the
last record has been looked at, or acknowledged. Every consumer looks at each record's value; every producer is told of
each record's delivery. Client libraries are imported in the function, so that a process holds only the one measured.
"""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 10_000
"""Records of one send_many or send_arrow, and between two looks at the clock."""


@dataclass(frozen=True)
class Job:
    """The work: a topic of `total` records to read, or an empty one to write to, for at most `budget` seconds."""

    bootstrap: str
    topic: str
    partitions: int
    total: int
    size: int
    budget: float
    properties: dict[str, Any]

    def wants_more(self, count: int, watch: Stopwatch) -> bool:
        """Whether a consumer that has read `count` records goes on: to the end or its budget, but not without any."""
        return count < self.total and (watch.spent() < self.budget or not count)


class Stopwatch:
    """Wall and processor time between `start` and `stop`."""

    def start(self) -> None:
        self.cpu, self.wall = _cpu(), time.perf_counter()

    def stop(self) -> None:
        self.wall, self.cpu = time.perf_counter() - self.wall, _cpu() - self.cpu

    def spent(self) -> float:
        return time.perf_counter() - self.wall


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ottla_columns(job: Job, watch: Stopwatch) -> tuple[int, int]:
    import pyarrow.compute  # noqa: F401  # before the watch starts

    return _ottla_consume(job, watch, lambda batch: _column_bytes(batch.to_arrow()))


def ottla_records(job: Job, watch: Stopwatch) -> tuple[int, int]:
    return _ottla_consume(job, watch, lambda batch: sum(len(record.value) for record in batch))


def _ottla_consume(job: Job, watch: Stopwatch, look: Callable[[Any], int]) -> tuple[int, int]:
    import ottla

    count = size = 0
    with ottla.Consumer(job.bootstrap, **job.properties) as consumer:
        consumer.partitions_for(job.topic)
        watch.start()
        consumer.assign([ottla.TopicPartition(job.topic, p, 0) for p in range(job.partitions)])
        while job.wants_more(count, watch):
            batch = consumer.poll(1.0)
            count, size = count + len(batch), size + look(batch)
        watch.stop()
    return count, size


def _column_bytes(table: Any) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.binary_length(table["value"])).as_py() or 0


def confluent_records(job: Job, watch: Stopwatch) -> tuple[int, int]:
    return _confluent_consume(job, watch, lambda messages: sum(len(m.value()) for m in messages))


def confluent_columns(job: Job, watch: Stopwatch) -> tuple[int, int]:
    import pyarrow as pa
    import pyarrow.compute

    def look(messages: list[Any]) -> int:
        columns = {
            "key": pa.array([m.key() for m in messages], pa.binary()),
            "value": pa.array([m.value() for m in messages], pa.binary()),
            "partition": pa.array([m.partition() for m in messages], pa.int32()),
            "offset": pa.array([m.offset() for m in messages], pa.int64()),
            "timestamp": pa.array([m.timestamp()[1] for m in messages], pa.timestamp("ms")),
        }
        return _column_bytes(pa.table(columns))

    return _confluent_consume(job, watch, look)


def _confluent_consume(job: Job, watch: Stopwatch, look: Callable[[list[Any]], int]) -> tuple[int, int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "bench", **job.properties})
    consumer.list_topics(job.topic, 10)
    count = size = 0
    watch.start()
    consumer.assign([TopicPartition(job.topic, p, 0) for p in range(job.partitions)])
    while job.wants_more(count, watch):
        messages = consumer.consume(CHUNK, 0.1)
        count, size = count + len(messages), size + look(messages)
    watch.stop()
    consumer.close()
    return count, size


def aiokafka_records(job: Job, watch: Stopwatch) -> tuple[int, int]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> tuple[int, int]:
        count = size = 0
        async with AIOKafkaConsumer(bootstrap_servers=job.bootstrap, **job.properties) as consumer:
            watch.start()
            partitions = [TopicPartition(job.topic, p) for p in range(job.partitions)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            while job.wants_more(count, watch):
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    count, size = count + len(records), size + sum(len(r.value) for r in records)
            watch.stop()
        return count, size

    return asyncio.run(run())


def kafka_python_records(job: Job, watch: Stopwatch) -> tuple[int, int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=job.bootstrap, **job.properties)
    count = size = 0
    watch.start()
    consumer.assign([TopicPartition(job.topic, p) for p in range(job.partitions)])
    consumer.seek_to_beginning()
    while job.wants_more(count, watch):
        for records in consumer.poll(timeout_ms=1000).values():
            count, size = count + len(records), size + sum(len(r.value) for r in records)
    watch.stop()
    consumer.close()
    return count, size


def socket_drain(job: Job, watch: Stopwatch) -> tuple[int, int]:
    from drain import Drain

    drain = Drain(job.bootstrap, job.topic, job.partitions, job.total)
    watch.start()
    drain.run()
    watch.stop()
    return job.total, job.total * job.size


def _values(job: Job) -> list[bytes]:
    """A chunk of distinct values; text-like digits, so that they are neither all alike nor beyond compression."""
    return [(b"%d " % (i * 2_654_435_761) * job.size)[: job.size] for i in range(CHUNK)]


def ottla_send(job: Job, watch: Stopwatch) -> tuple[int, int]:
    def send(producer: Any, values: list[bytes]) -> list[Any]:
        return [producer.send(job.topic, v) for v in values]

    def check(deliveries: list[list[Any]]) -> int:
        return sum(d.exception() is None for chunk in deliveries for d in chunk)

    return _ottla_produce(job, watch, _values(job), send, check)


def ottla_send_many(job: Job, watch: Stopwatch) -> tuple[int, int]:
    return _ottla_produce(
        job, watch, _values(job), lambda producer, v: producer.send_many(job.topic, v), _count_columns
    )


def ottla_send_arrow(job: Job, watch: Stopwatch) -> tuple[int, int]:
    import pyarrow as pa

    table = pa.table({"value": pa.array(_values(job), pa.binary())})
    return _ottla_produce(job, watch, table, lambda producer, t: producer.send_arrow(job.topic, t), _count_columns)


def _count_columns(deliveries: list[Any]) -> int:
    return sum(len(d.result(30)[1]) for d in deliveries)


def _ottla_produce(
    job: Job,
    watch: Stopwatch,
    chunk: Any,
    send: Callable[[Any, Any], Any],
    check: Callable[[list[Any]], int],
) -> tuple[int, int]:
    import ottla

    deliveries = []
    with ottla.Producer(job.bootstrap, **job.properties) as producer:
        producer.partitions_for(job.topic)
        watch.start()
        while watch.spent() < job.budget:
            deliveries.append(send(producer, chunk))
        producer.flush()
        count = check(deliveries)
        watch.stop()
    if count != len(deliveries) * CHUNK:
        raise RuntimeError(f"{len(deliveries) * CHUNK - count} records are not acknowledged")
    return count, count * job.size


def confluent_send(job: Job, watch: Stopwatch) -> tuple[int, int]:
    from confluent_kafka import Producer

    values, sent, acknowledged = _values(job), 0, 0

    def delivered(error: Any, _: Any) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer = Producer({"bootstrap.servers": job.bootstrap, **job.properties})
    producer.list_topics(job.topic, 10)
    watch.start()
    while watch.spent() < job.budget:
        for value in values:
            while True:
                try:
                    producer.produce(job.topic, value, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.01)
            sent += 1
        producer.poll(0)
    producer.flush(30)
    watch.stop()
    if acknowledged != sent:
        raise RuntimeError(f"{sent - acknowledged} records are not acknowledged")
    return sent, sent * job.size


def aiokafka_send(job: Job, watch: Stopwatch) -> tuple[int, int]:
    from aiokafka import AIOKafkaProducer

    async def run() -> int:
        values, sent = _values(job), []
        async with AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks="all", **job.properties) as producer:
            await producer.partitions_for(job.topic)
            watch.start()
            while watch.spent() < job.budget:
                # A quarter of a chunk at a time, as this client is slow enough to overrun its budget.
                sent += [await producer.send(job.topic, value) for value in values[: CHUNK // 4]]
            await asyncio.gather(*sent)
            watch.stop()
        return len(sent)

    count = asyncio.run(run())
    return count, count * job.size


def kafka_python_send(job: Job, watch: Stopwatch) -> tuple[int, int]:
    from kafka import KafkaProducer

    values, sent = _values(job), []
    producer = KafkaProducer(bootstrap_servers=job.bootstrap, acks="all", **job.properties)
    producer.partitions_for(job.topic)
    watch.start()
    while watch.spent() < job.budget:
        sent += [producer.send(job.topic, value) for value in values[: CHUNK // 4]]
    producer.flush(30)
    for future in sent:
        future.get(0)
    watch.stop()
    producer.close()
    return len(sent), len(sent) * job.size
