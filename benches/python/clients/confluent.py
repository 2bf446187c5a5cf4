"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

import wide
from measurement import CHUNK, WARM
from rebalance import BEAT, Threads, measure

from clients import many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from measurement import Job, Stopwatch
    from rebalance import Leaves

SOME = 500
"""Messages of one `consume` in programs that pick a number."""
QUEUE = "queue.buffering.max.messages"


def consume(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`consume(10000)`, and each message's value."""
    return _consume(job, watch, lambda messages: sum(len(m.value()) for m in messages))


def consume_some(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`consume(500)`, and each message's value."""
    return _consume(job, watch, lambda messages: sum(len(m.value()) for m in messages), SOME)


def consume_lengths(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`consume(500)`, and the length of each message."""
    return _consume(job, watch, lambda messages: sum(map(len, messages)), SOME)


def poll(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`poll` for each message, its error, and its value."""
    from confluent_kafka import KafkaException

    consumer = _reader(job)
    count = size = 0
    watch.start()
    _assign(consumer, job)
    while job.wants_more(count, watch):
        for _ in range(CHUNK):
            message = consumer.poll(0.1)
            if message is None:
                break
            if message.error():
                raise KafkaException(message.error())
            count, size = count + 1, size + len(message.value())
    watch.stop()
    consumer.close()
    return count, size


def columns(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """An Arrow table of each `consume(10000)`, made from its messages."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def look(messages: list[Any]) -> int:
        columns = {
            "key": pa.array([m.key() for m in messages], pa.binary()),
            "value": pa.array([m.value() for m in messages], pa.binary()),
            "partition": pa.array([m.partition() for m in messages], pa.int32()),
            "offset": pa.array([m.offset() for m in messages], pa.int64()),
            "timestamp": pa.array([m.timestamp()[1] for m in messages], pa.timestamp("ms")),
        }
        return pc.sum(pc.binary_length(pa.table(columns)["value"])).as_py() or 0

    return _consume(job, watch, look)


def _reader(job: Job) -> Any:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "bench", **job.properties})
    _learn(consumer, job)
    return consumer


def _learn(client: Any, job: Job) -> None:
    """Have the metadata of the job's topics."""
    if job.topics == 1:
        client.list_topics(job.topic, 10)
    else:
        client.list_topics(timeout=30)


def _assign(consumer: Any, job: Job) -> None:
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(name, p, 0) for name, p in job.targets])


def _consume(job: Job, watch: Stopwatch, look: Callable[[list[Any]], int], most: int = CHUNK) -> tuple[int, int]:
    consumer = _reader(job)
    count = size = 0
    watch.start()
    _assign(consumer, job)
    while job.wants_more(count, watch):
        messages = consumer.consume(most, 0.1)
        count, size = count + len(messages), size + look(messages)
    watch.stop()
    consumer.close()
    return count, size


class _Deliveries:
    """Counts what was acknowledged."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: Any, _: Any) -> None:
        self.count += error is None

    def missing(self, sent: int) -> int:
        return sent - self.count


class _Failures(_Deliveries):
    """Counts what was not."""

    def __call__(self, error: Any, _: Any) -> None:
        self.count += error is not None

    def missing(self, _: int) -> int:
        return self.count


def produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`produce`, one by one, each reported by a callback."""
    return _produce_singly(job, watch, polls=False)


def produce_polled(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """As `produce`, with a `poll(0)` after each record, as confluent-kafka's examples have it."""
    return _produce_singly(job, watch, polls=True)


def _produce_singly(job: Job, watch: Stopwatch, *, polls: bool) -> tuple[int, int]:
    delivered, values = _Deliveries(), job.values()

    def send(producer: Any) -> None:
        for value in values:
            while True:
                try:
                    producer.produce(job.topic, value, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.01)
            if polls:
                producer.poll(0)
        if not polls:
            producer.poll(0)

    return _produce(job, watch, send, delivered)


def aio_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`AIOProducer.produce`, one by one; the result of each is awaited after a flush."""
    return asyncio.run(_aio_produce(job, watch))


async def _aio_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    from confluent_kafka.aio import AIOProducer

    producer = AIOProducer({"bootstrap.servers": job.bootstrap, **job.properties})
    await producer.list_topics(job.topic, 10)
    values = job.values()
    sent = 0
    watch.start()
    while job.wants_more(sent, watch):
        results = [await producer.produce(job.topic, value) for value in values]
        await producer.flush()
        for result in results:
            (await result).offset()
        sent += len(results)
    watch.stop()
    await producer.close()
    return sent, sent * job.size


def produce_batch(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`produce_batch` of a list of messages made beforehand, each told of by a callback."""
    delivered = _Deliveries()
    return _produce(job, watch, _batches(job, on_delivery=delivered), delivered)


def produce_batch_errors(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """As `produce_batch`; the callback is for those that fail only."""
    failed = _Failures()
    return _produce(job, watch, _batches(job, on_delivery=failed), failed, {"delivery.report.only.error": True})


def produce_batch_untold(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """As `produce_batch`, without a callback: nobody learns what failed."""
    return _produce(job, watch, _batches(job), None)


def _batches(job: Job, **how: Any) -> Callable[[Any], None]:
    messages = [{"value": v} for v in job.values()]
    room = job.properties.get(QUEUE, 100_000) - len(messages)

    def send(producer: Any) -> None:
        while len(producer) > room:
            producer.poll(0.01)
        producer.produce_batch(job.topic, messages, **how)
        if refused := [m["_error"] for m in messages if "_error" in m]:
            raise RuntimeError(refused[0])
        producer.poll(0)

    return send


def _produce(
    job: Job,
    watch: Stopwatch,
    send: Callable[[Any], None],
    outcome: _Deliveries | None,
    properties: dict[str, Any] | None = None,
) -> tuple[int, int]:
    from confluent_kafka import Producer

    codec = {} if job.codec == "none" else {"compression.type": job.codec}
    producer = Producer({"bootstrap.servers": job.bootstrap, **codec, **job.properties, **(properties or {})})
    _learn(producer, job)
    if job.topics > 1:  # as ottla's producer
        for name in job.names:
            producer.produce(name, b"first")
        producer.flush(60)
    sent = 0
    watch.start()
    while job.wants_more(sent, watch):
        send(producer)
        sent += job.chunk
    left = producer.flush(30)
    watch.stop()
    if left or (outcome and outcome.missing(sent)):
        raise RuntimeError(f"{left or outcome.missing(sent)} records are not acknowledged")
    return sent, sent * job.size


def produce_in_turn(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`produce`, one by one, to each partition of each topic in turn, each reported by a callback."""
    delivered = _Deliveries()
    turns = [(*target, value) for target, value in zip(cycle(job.targets), job.values(), strict=False)]

    def send(producer: Any) -> None:
        for name, partition, value in turns:
            while True:
                try:
                    producer.produce(name, value, partition=partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)

    return _produce(job, watch, send, delivered)


def first_to_each(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A new producer's first `produce` to each partition of each topic."""
    from confluent_kafka import Producer

    [value], delivered = job.values()[:1], _Deliveries()
    producer = Producer({"bootstrap.servers": job.bootstrap, **job.properties})
    watch.start()
    for name, partition in job.targets:
        producer.produce(name, value, partition=partition, on_delivery=delivered)
    left = producer.flush(80)
    watch.stop()
    if left or delivered.missing(len(job.targets)):
        raise RuntimeError(f"{left or delivered.missing(len(job.targets))} records are not acknowledged")
    return delivered.count, delivered.count * job.size


def produce_batch_in_turn(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A `produce_batch` for each partition of each topic in turn, each message reported by a callback."""
    delivered = _Deliveries()
    return _produce(job, watch, _batches_in_turn(job, on_delivery=delivered), delivered)


def produce_batch_errors_in_turn(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """As `produce_batch_in_turn`; the callback is for those that fail only."""
    failed = _Failures()
    send = _batches_in_turn(job, on_delivery=failed)
    return _produce(job, watch, send, failed, {"delivery.report.only.error": True})


def _batches_in_turn(job: Job, **how: Any) -> Callable[[Any], None]:
    shares = {target: [{"value": value} for value in values] for target, values in job.shares().items()}
    room = job.properties.get(QUEUE, 100_000) - job.chunk

    def send(producer: Any) -> None:
        while len(producer) > room:
            producer.poll(0.01)
        for (name, partition), messages in shares.items():
            producer.produce_batch(name, messages, partition=partition, **how)
            if refused := [m["_error"] for m in messages if "_error" in m]:
                raise RuntimeError(refused[0])
        producer.poll(0)

    return send


def typed_pyarrow(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """JSON of each `consume(10000)` to 100 typed columns, by pyarrow."""
    return _typed(job, watch, wide.json_by_pyarrow)


def typed_polars(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """JSON or Avro of each `consume(10000)` to 100 typed columns, by polars."""
    return _typed(job, watch, wide.json_by_polars if job.content == "json" else wide.avro_by_polars)


def typed_fastavro(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Avro of each `consume(10000)` to 100 typed columns, by fastavro, as confluent's deserializer has it."""
    return _typed(job, watch, wide.avro_by_fastavro)


def _typed(job: Job, watch: Stopwatch, decode: Callable[[list[bytes]], int]) -> tuple[int, int]:
    def look(messages: list[Any]) -> int:
        if messages and decode([m.value() for m in messages]) != wide.COLUMNS:
            raise RuntimeError("columns are missing")
        return len(messages) * job.size

    return _consume(job, watch, look)


def many_consumers(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A consumer and a thread for each partition; each message's value."""
    from confluent_kafka import TopicPartition

    @contextmanager
    def reader(target: tuple[str, int]) -> Iterator[many.Read]:
        consumer = _reader(job)
        consumer.assign([TopicPartition(*target, 0)])

        def read() -> tuple[int, int]:
            messages = consumer.consume(CHUNK, 0.1)
            return len(messages), sum(len(m.value()) for m in messages)

        yield read
        consumer.close()

    return many.readers(job, watch, reader)


def idle_consumers(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Consumers that have read their topic to its end."""

    def make() -> Any:
        consumer = _reader(job)
        _assign(consumer, job)
        read = 0
        while read < WARM * job.partitions:
            read += len(consumer.consume(CHUNK, 0.1))
        return consumer

    return many.idle(job, watch, make)


def idle_producers(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Producers whose only record is acknowledged."""
    from confluent_kafka import Producer

    def make() -> Any:
        producer = Producer({"bootstrap.servers": job.bootstrap, **job.properties})
        producer.produce(job.topic, b"value")
        if producer.flush(30):
            raise RuntimeError("the record is not acknowledged")
        return producer

    return many.idle(job, watch, make)


def transactions(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Transactions of one `produce_batch` each; the time of `commit_transaction`."""
    from confluent_kafka import Producer

    messages = [{"value": v} for v in job.transaction()]
    producer = Producer({"bootstrap.servers": job.bootstrap, "transactional.id": job.topic, **job.properties})
    producer.init_transactions(30)
    producer.list_topics(job.topic, 10)
    watch.start()
    for _ in range(job.records):
        producer.begin_transaction()
        producer.produce_batch(job.topic, messages)
        begin = time.perf_counter()
        producer.commit_transaction(30)
        watch.laps.append(time.perf_counter() - begin)
    watch.stop()
    count = job.records * len(messages)
    return count, count * job.size


def latency_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From `produce` to the callback that it was acknowledged."""
    from confluent_kafka import Producer

    [value], delivered = job.values()[:1], _Deliveries()
    producer = Producer({"bootstrap.servers": job.bootstrap, "acks": 1, **job.properties})
    producer.list_topics(job.topic, 10)
    watch.start()
    for i in range(job.records):
        begin = time.perf_counter()
        producer.produce(job.topic, value, on_delivery=delivered)
        while delivered.count == i:
            producer.poll(10)
        watch.laps.append(time.perf_counter() - begin)
    watch.stop()
    return job.records, job.records * job.size


def latency_first(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From making a client until it has a message."""
    from confluent_kafka import Consumer, TopicPartition

    watch.start()
    for _ in range(job.records):
        begin = time.perf_counter()
        consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "bench", **job.properties})
        consumer.assign([TopicPartition(job.topic, 0, 0)])
        while (message := consumer.poll(10)) is None or message.error():
            pass
        watch.laps.append(time.perf_counter() - begin)
        consumer.close()
    watch.stop()
    return job.records, job.records * job.size


def latency_end_to_end(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From `produce` until a consumer in this process has the message."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    [value], delivered = job.values()[:1], _Deliveries()
    producer = Producer({"bootstrap.servers": job.bootstrap, "acks": 1, **job.properties})
    producer.list_topics(job.topic, 10)
    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "bench", "fetch.wait.max.ms": 500})
    partitions = [TopicPartition(job.topic, p) for p in range(job.partitions)]
    for p in partitions:
        p.offset = consumer.get_watermark_offsets(p, 10)[1]
    consumer.assign(partitions)
    consumer.poll(0.5)  # until fetches are under way
    watch.start()
    for _ in range(job.records):
        begin = time.perf_counter()
        producer.produce(job.topic, value, on_delivery=delivered)
        if (message := consumer.poll(10)) is None or message.error():
            raise RuntimeError("the message did not come")
        watch.laps.append(time.perf_counter() - begin)
        producer.poll(0)
    watch.stop()
    producer.flush(10)
    consumer.close()
    return job.records, job.records * job.size


def rebalance(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Members of a group in a thread each, one of which comes and goes."""
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": job.bootstrap,
        "group.id": job.group,
        "enable.auto.commit": False,
        **job.properties,
    }

    def run(tell: Callable[..., None], leaves: Leaves) -> None:
        def moved(what: str) -> Callable[[Any, list[Any]], None]:
            return lambda _, partitions: tell(what, [p.partition for p in partitions])

        consumer = Consumer(settings)
        revoked = moved("revoked")
        consumer.subscribe([job.topic], on_assign=moved("assigned"), on_revoke=revoked, on_lost=revoked)
        while not leaves.is_set():
            if message := consumer.poll(BEAT):
                if message.error():
                    raise RuntimeError(message.error())
                tell("read", [message.partition()])
        time.sleep(leaves.rest)
        tell("leaves")
        consumer.close()

    return measure(Threads(run), job, watch)
