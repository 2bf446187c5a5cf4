"""ottla, in each of its ways."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import wide
from measurement import CHUNK, WARM, look_at_each
from rebalance import BEAT, Threads, measure

from clients import many

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager

    from measurement import Job, Stopwatch
    from rebalance import Leaves


def _start(job: Job) -> list[tuple[str, int, int]]:
    import ottla

    return [ottla.TopicPartition(name, p, 0) for name, p in job.targets]


@contextmanager
def _reading(job: Job, watch: Stopwatch) -> Iterator[Any]:
    """A consumer at the topic's beginning, while the watch runs."""
    import ottla

    with ottla.Consumer(job.bootstrap, **job.properties) as consumer:
        for name in job.names:
            consumer.partitions_for(name)
        watch.start()
        consumer.assign(_start(job))
        yield consumer
        watch.stop()


@contextmanager
def _reading_as_member(job: Job, watch: Stopwatch) -> Iterator[Any]:
    """The only member of a group at the topic's beginning, while the watch runs; it commits as it does by default."""
    import ottla

    group = {"group_id": f"bench-{time.monotonic_ns()}", "auto_offset_reset": "earliest"}
    with ottla.Consumer(job.bootstrap, topics=job.topic, **group, **job.properties) as consumer:
        while len(consumer.assignment()) < job.partitions:
            consumer.poll(1.0, max_records=1)
        watch.start()
        # What was fetched meanwhile does not count.
        for partition in _start(job):
            consumer.seek(partition, 0)
        yield consumer
        watch.stop()


def columns(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Each batch as an Arrow table, which is dropped once it was looked at."""
    return _batches(job, watch, _bytes_of_column)


def columns_of_views(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`columns`, with keys and values that point into what was received."""
    import numpy as np

    def look(batch: Any) -> int:
        # pyarrow cannot compute with views: each is 16 bytes, of which the first four are the value's length.
        chunks = batch.to_arrow(view=True)["value"].chunks
        views = (
            np.frombuffer(chunk.buffers()[1], np.int32)[4 * chunk.offset :][: 4 * len(chunk) : 4] for chunk in chunks
        )
        return sum(int(lengths.sum(dtype=np.int64)) for lengths in views)

    return _batches(job, watch, look)


def columns_as_member(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`columns`, as a member of a group."""
    return _batches(job, watch, _bytes_of_column, _reading_as_member)


def rows_of_batches(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Each record of each batch."""
    return _batches(job, watch, lambda batch: sum(len(record.value) for record in batch))


def _batches(
    job: Job,
    watch: Stopwatch,
    look: Callable[[Any], int],
    reading: Callable[[Job, Stopwatch], AbstractContextManager[Any]] = _reading,
) -> tuple[int, int]:
    count = size = 0
    with reading(job, watch) as consumer:
        while job.wants_more(count, watch):
            batch = consumer.poll(1.0)
            count, size = count + len(batch), size + look(batch)
    return count, size


def _bytes_of_column(batch: Any) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.binary_length(batch.to_arrow()["value"])).as_py() or 0


def records(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`for record in consumer`."""
    return _records(job, watch, _reading)


def records_as_member(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`records`, as a member of a group."""
    return _records(job, watch, _reading_as_member)


def _records(
    job: Job, watch: Stopwatch, reading: Callable[[Job, Stopwatch], AbstractContextManager[Any]]
) -> tuple[int, int]:
    count = size = 0
    with reading(job, watch) as consumer:
        everything = iter(consumer)
        while job.wants_more(count, watch):
            due = min(CHUNK, job.records - count)
            size += sum(len(record.value) for record in islice(everything, due))
            count += due
    return count, size


@asynccontextmanager
async def _async_reading(job: Job, watch: Stopwatch) -> AsyncIterator[Any]:
    """As `_reading`, on an event loop."""
    from ottla import aio

    async with aio.Consumer(job.bootstrap, **job.properties) as consumer:
        await consumer.partitions_for(job.topic)
        watch.start()
        consumer.assign(_start(job))
        yield consumer
        watch.stop()


def async_records(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`async for record in consumer`."""

    async def run() -> tuple[int, int]:
        async with _async_reading(job, watch) as consumer:
            return await look_at_each(consumer, job, watch)

    return asyncio.run(run())


def async_batches(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`async for batch in consumer.batches()`, each as an Arrow table."""

    async def run() -> tuple[int, int]:
        count = size = 0
        async with _async_reading(job, watch) as consumer:
            async for batch in consumer.batches():
                count, size = count + len(batch), size + _bytes_of_column(batch)
                if not job.wants_more(count, watch):
                    break
        return count, size

    return asyncio.run(run())


def send(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`send`, one by one."""

    def check(deliveries: list[list[Any]]) -> int:
        return sum(d.exception() is None for chunk in deliveries for d in chunk)

    return _produce(job, watch, job.values(), lambda producer, v: [producer.send(job.topic, x) for x in v], check)


def send_many(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`send_many` of a list of values."""
    return _produce(job, watch, job.values(), lambda producer, v: producer.send_many(job.topic, v), _count_columns)


def send_arrow(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`send_arrow` of a table of values."""
    import pyarrow as pa

    table = pa.table({"value": pa.array(job.values(), pa.binary())})
    return _produce(job, watch, table, lambda producer, t: producer.send_arrow(job.topic, t), _count_columns)


def _count_columns(deliveries: list[Any]) -> int:
    return sum(len(d.result(30)[1]) for d in deliveries)


def send_in_turn(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`send`, one by one, to each partition of each topic in turn."""
    turns = [(*target, value) for target, value in zip(cycle(job.targets), job.values(), strict=False)]

    def send(producer: Any, turns: list[tuple[str, int, bytes]]) -> list[Any]:
        return [producer.send(name, value, partition=partition) for name, partition, value in turns]

    def check(deliveries: list[list[Any]]) -> int:
        return sum(d.exception() is None for chunk in deliveries for d in chunk)

    return _produce(job, watch, turns, send, check)


def send_many_in_turn(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A `send_many` for each partition of each topic in turn."""

    def send(producer: Any, shares: dict[tuple[str, int], list[bytes]]) -> list[Any]:
        return [producer.send_many(name, values, partitions=p) for (name, p), values in shares.items()]

    def check(deliveries: list[list[Any]]) -> int:
        return sum(map(_count_columns, deliveries))

    return _produce(job, watch, job.shares(), send, check)


def first_to_each(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A new producer's first `send` to each partition of each topic."""
    import ottla

    [value] = job.values()[:1]
    with ottla.Producer(job.bootstrap, **job.properties) as producer:
        watch.start()
        sent = [producer.send(name, value, partition=partition) for name, partition in job.targets]
        producer.flush()
        watch.stop()
        if failed := [delivery.exception() for delivery in sent if delivery.exception()]:
            raise RuntimeError(failed[0])
    return len(sent), len(sent) * job.size


def send_arrow_in_turn(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`send_arrow` of a table with the topic and the partition of each row, in the order of `send_many_in_turn`."""
    import pyarrow as pa

    rows = [(*target, value) for target, values in job.shares().items() for value in values]
    columns = {
        "topic": pa.array([name for name, _, _ in rows]).dictionary_encode(),
        "partition": pa.array([partition for _, partition, _ in rows], pa.int32()),
        "value": pa.array([value for _, _, value in rows], pa.binary()),
    }
    return _produce(job, watch, pa.table(columns), lambda producer, t: producer.send_arrow(None, t), _count_columns)


def typed_columns(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Each batch decoded into 100 typed columns."""
    decoder = wide.decoder(job.content)

    def look(batch: Any) -> int:
        table = batch.decode(decoder).to_arrow()
        if table.num_columns < wide.COLUMNS:
            raise RuntimeError(f"{table.num_columns} columns")
        return len(batch) * job.size

    return _batches(job, watch, look)


def typed_read(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`ottla.read` of the topic, decoded into 100 typed columns."""
    import ottla

    decoder = wide.decoder(job.content)
    watch.start()
    table = ottla.read(job.bootstrap, job.topic, **job.properties).decode(decoder).to_arrow()
    watch.stop()
    return table.num_rows, table.num_rows * job.size


def many_consumers(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A consumer and a thread for each partition; each batch as an Arrow table."""
    import ottla

    @contextmanager
    def reader(target: tuple[str, int]) -> Iterator[many.Read]:
        with ottla.Consumer(job.bootstrap, **job.properties) as consumer:
            consumer.partitions_for(job.topic)
            consumer.assign([ottla.TopicPartition(*target, 0)])

            def read() -> tuple[int, int]:
                batch = consumer.poll(1.0)
                return len(batch), _bytes_of_column(batch)

            yield read

    return many.readers(job, watch, reader)


def idle_consumers(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Consumers that have read their topic to its end."""
    import ottla

    def make() -> Any:
        consumer = ottla.Consumer(job.bootstrap, **job.properties)
        consumer.assign(_start(job))
        read = 0
        while read < WARM * job.partitions:
            read += len(consumer.poll(10))
        return consumer

    return many.idle(job, watch, make)


def idle_producers(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Producers whose only record is acknowledged."""
    import ottla

    def make() -> Any:
        producer = ottla.Producer(job.bootstrap, **job.properties)
        producer.send(job.topic, b"value").result(30)
        return producer

    return many.idle(job, watch, make)


def _produce(
    job: Job, watch: Stopwatch, chunk: Any, send: Callable[[Any, Any], Any], check: Callable[[list[Any]], int]
) -> tuple[int, int]:
    import ottla

    deliveries = []
    with ottla.Producer(job.bootstrap, **_codec(job), **job.properties) as producer:
        for name in job.names:
            producer.partitions_for(name)
        if job.topics > 1:  # `partitions_for` does not spare the first record of a topic a request for its metadata
            for name in job.names:
                producer.send(name, b"first")
            producer.flush()
        watch.start()
        while job.wants_more(len(deliveries) * job.chunk, watch):
            deliveries.append(send(producer, chunk))
        producer.flush()
        count = check(deliveries)
        watch.stop()
    if count != len(deliveries) * job.chunk:
        raise RuntimeError(f"{len(deliveries) * job.chunk - count} records are not acknowledged")
    return count, count * job.size


def _codec(job: Job) -> dict[str, str]:
    return {} if job.codec == "none" else {"compression_type": job.codec}


def async_send(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`await producer.send(...)`, one by one, all deliveries awaited at the end."""
    from ottla import aio

    async def run() -> int:
        values, sent = job.values(), []
        async with aio.Producer(job.bootstrap, **_codec(job), **job.properties) as producer:
            await producer.partitions_for(job.topic)
            watch.start()
            while job.wants_more(len(sent), watch):
                sent += [await producer.send(job.topic, value) for value in values]
            for delivery in sent:
                await delivery
            watch.stop()
        return len(sent)

    count = asyncio.run(run())
    return count, count * job.size


def transactions(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Transactions of one `send_many` each; the time of `commit_transaction`."""
    import ottla

    values = job.transaction()
    with ottla.Producer(job.bootstrap, transactional_id=job.topic, **job.properties) as producer:
        producer.init_transactions()
        producer.partitions_for(job.topic)
        watch.start()
        for _ in range(job.records):
            producer.begin_transaction()
            producer.send_many(job.topic, values)
            begin = time.perf_counter()
            producer.commit_transaction()
            watch.laps.append(time.perf_counter() - begin)
        watch.stop()
    count = job.records * len(values)
    return count, count * job.size


def latency_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From `send` to its acknowledgement."""
    import ottla

    [value] = job.values()[:1]
    with ottla.Producer(job.bootstrap, **{"acks": 1, **job.properties}) as producer:
        producer.partitions_for(job.topic)
        watch.start()
        for _ in range(job.records):
            begin = time.perf_counter()
            producer.send(job.topic, value).result(10)
            watch.laps.append(time.perf_counter() - begin)
        watch.stop()
    return job.records, job.records * job.size


def async_latency_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From `send` to its acknowledgement, on an event loop."""
    from ottla import aio

    async def run() -> None:
        [value] = job.values()[:1]
        async with aio.Producer(job.bootstrap, **{"acks": 1, **job.properties}) as producer:
            await producer.partitions_for(job.topic)
            watch.start()
            for _ in range(job.records):
                begin = time.perf_counter()
                await (await producer.send(job.topic, value))
                watch.laps.append(time.perf_counter() - begin)
            watch.stop()

    asyncio.run(run())
    return job.records, job.records * job.size


def latency_first(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From making a client until it has a record."""
    import ottla

    watch.start()
    for _ in range(job.records):
        begin = time.perf_counter()
        with ottla.Consumer(job.bootstrap, **job.properties) as consumer:
            consumer.assign([ottla.TopicPartition(job.topic, 0, 0)])
            while not len(consumer.poll(10)):
                pass
            watch.laps.append(time.perf_counter() - begin)
    watch.stop()
    return job.records, job.records * job.size


def latency_end_to_end(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From `send` until a consumer in this process has the record."""
    import ottla

    [value] = job.values()[:1]
    with ottla.Producer(job.bootstrap, acks=1) as producer, ottla.Consumer(job.bootstrap) as consumer:
        consumer.assign([(job.topic, p) for p in producer.partitions_for(job.topic)])
        consumer.seek_to_end()
        for p in range(job.partitions):
            consumer.position((job.topic, p))
        watch.start()
        for _ in range(job.records):
            begin = time.perf_counter()
            delivery = producer.send(job.topic, value)
            while not (got := len(consumer.poll(10))):
                pass
            watch.laps.append(time.perf_counter() - begin)
            assert got == 1
            delivery.result(10)
        watch.stop()
    return job.records, job.records * job.size


def async_latency_end_to_end(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From `send` until a consumer on the same event loop has the record."""
    from ottla import aio

    async def run() -> None:
        [value] = job.values()[:1]
        async with aio.Producer(job.bootstrap, acks=1) as producer, aio.Consumer(job.bootstrap) as consumer:
            consumer.assign([(job.topic, p) for p in await producer.partitions_for(job.topic)])
            consumer.seek_to_end()
            for p in range(job.partitions):
                await consumer.position((job.topic, p))
            watch.start()
            for _ in range(job.records):
                begin = time.perf_counter()
                delivery = await producer.send(job.topic, value)
                while not (got := len(await consumer.poll(10))):
                    pass
                watch.laps.append(time.perf_counter() - begin)
                assert got == 1
                await delivery
            watch.stop()

    asyncio.run(run())
    return job.records, job.records * job.size


def rebalance(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Members of a group in a thread each, one of which comes and goes."""
    import ottla

    settings = {"group_id": job.group, "enable_auto_commit": False, **job.properties}

    def run(tell: Callable[..., None], leaves: Leaves) -> None:
        def moved(what: str) -> Callable[[list[Any]], None]:
            return lambda partitions: tell(what, [p.partition for p in partitions])

        with ottla.Consumer(job.bootstrap, **settings) as consumer:
            revoked = moved("revoked")
            consumer.subscribe(job.topic, on_assign=moved("assigned"), on_revoke=revoked, on_lost=revoked)
            while not leaves.is_set():
                tell("read", [p.partition for p in consumer.poll(BEAT).partitions])
            time.sleep(leaves.rest)
            tell("leaves")

    return measure(Threads(run), job, watch)
