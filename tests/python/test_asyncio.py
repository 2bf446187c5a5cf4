"""What only asyncio has: several loops and threads, cancelling, leaks, answers that do not touch the loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import threading
from pathlib import Path

import pytest

import ottla
from ottla import TopicPartition, aio


def loops():
    yield asyncio.new_event_loop
    if importlib.util.find_spec("uvloop"):
        import uvloop

        yield uvloop.new_event_loop


@pytest.fixture(params=loops(), ids=lambda make: make.__module__.split(".")[0])
def run(request):
    """Run a coroutine on a new loop of some kind."""

    def run(coroutine):
        loop = request.param()
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, 30))
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    return run


async def round_trip(address, topic, count=10):
    async with aio.Producer(address) as producer:
        sent = [await producer.send(topic, b"%d" % n, partition=0) for n in range(count)]
        offsets = [written.offset for written in await asyncio.gather(*sent)]
    async with aio.Consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, offsets[0])])
        found = []
        async for record in consumer:
            found.append(record.offset)
            if len(found) == count:
                break
    return offsets, found


def test_works_on_any_loop(run, address, topic):
    offsets, found = run(round_trip(address, topic))
    assert offsets == found


def test_works_in_several_threads_at_once(run, address, topic):
    """A producer shared by loops, each in its thread."""
    results = []

    async def work(producer):
        sent = [await producer.send(topic, b"x") for _ in range(100)]
        results.append(await asyncio.gather(*sent))

    with ottla.Producer(address) as guard:
        guard.send(topic, b"x").result(20)
    producer = aio.Producer(address)
    threads = [threading.Thread(target=lambda: run(work(producer))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    run(producer.close())
    places = {(written.partition, written.offset) for result in results for written in result}
    assert len(places) == 400


def test_an_answer_that_is_there_does_not_touch_the_loop(run, address, topic):
    async def main():
        async with aio.Producer(address) as producer:
            sent = await producer.send(topic, b"x")
            await sent
            switched = []
            asyncio.get_running_loop().call_soon(switched.append, True)
            for _ in range(10):
                await sent
                await producer.send(topic, b"x")
            assert not switched
            await asyncio.sleep(0)
            assert switched

    run(main())


def test_many_answers_come_by_one_wake_up(run, address, topic, monkeypatch):
    from ottla.aio import _completions

    drained = []
    original = _completions.Completions._drain
    monkeypatch.setattr(_completions.Completions, "_drain", lambda self: drained.append(original(self)))

    async def main():
        async with aio.Producer(address, linger_ms=200) as producer:
            await (await producer.send(topic, b"warm", partition=0))
            drained.clear()
            sent = [await producer.send(topic, b"x", partition=0) for _ in range(1000)]
            await asyncio.gather(*sent)

    run(main())
    assert 0 < len(drained) < 100


def test_cancelling_a_poll_loses_nothing(run, address, topic):
    async def main():
        async with aio.Producer(address, linger_ms=0) as producer, aio.Consumer(address) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found = []
            for n in range(50):
                await producer.send(topic, b"%d" % n, partition=0)
                poll = asyncio.create_task(consumer.poll(20))
                await asyncio.sleep(0.001 * (n % 5))
                poll.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    found += [r.offset for r in await poll]
            await producer.flush()
            while len(found) < 50:
                found += [r.offset for r in await consumer.poll(20)]
            assert found == list(range(50))

    run(main())


def test_cancelling_a_send_loses_only_that(run):
    from ottla.testing import Broker

    async def main(broker):
        options = {"buffer_memory": 20_000, "batch_size": 10_000}
        async with aio.Producer(broker.bootstrap_servers, **options) as producer:
            await (await producer.send("t", b"known"))
            broker.delay("Produce", 0.5)
            sent, cancelled = [], 0
            for _ in range(60):
                try:
                    sent.append(await asyncio.wait_for(producer.send("t", b"x" * 1000), 0.02))
                except asyncio.TimeoutError:
                    cancelled += 1
            offsets = [written.offset for written in await asyncio.gather(*sent)]
            assert cancelled
            assert offsets == list(range(1, 1 + len(sent)))

    with Broker(topics=["t"]) as broker:
        run(main(broker))


def test_what_a_cancelled_send_many_had_sent_is_not_lost_in_silence(run):
    from ottla.testing import Broker

    async def main(broker):
        times = {"request_timeout_ms": 1000, "delivery_timeout_ms": 2000}
        options = {"buffer_memory": 20_000, "batch_size": 10_000, **times}
        async with aio.Producer(broker.bootstrap_servers, **options) as producer:
            await (await producer.send("t", b"known"))
            broker.ignore("Produce", count=1000)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(producer.send_many("t", [b"x" * 1000] * 100), 0.3)
            with pytest.raises(ottla.errors.KafkaError) as caught:
                await producer.flush()
            assert "nobody asked" in caught.value.__notes__[0]
            broker.clear_faults()

    with Broker(topics=["t"]) as broker:
        run(main(broker))


def test_tasks_share_a_consumer(run, address, topic):
    async def main():
        async with aio.Consumer(address) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            empty, ends = await asyncio.gather(consumer.poll(0.3), consumer.end_offsets([(topic, 0)]))
            assert len(empty) == 0
            assert ends == {TopicPartition(topic, 0): 0}

    run(main())


def test_loops_leave_nothing_behind(run, address, topic):
    def descriptors():
        gc.collect()
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    run(round_trip(address, topic))
    before = descriptors()
    for _ in range(10):
        run(round_trip(address, topic))
    assert descriptors() <= before + 2, "clients' sockets may take a moment to close"


def test_results_must_be_awaited_first(run, address, topic):
    async def main():
        async with aio.Producer(address, linger_ms=200) as producer:
            sent = await producer.send(topic, b"x")
            many = await producer.send_many(topic, [b"x"])
            for early in (sent.result, sent.exception, many.result, many.exception, lambda: many.errors):
                with pytest.raises(asyncio.InvalidStateError, match="await"):
                    early()
            assert sent.result() == await sent if sent.done() else (await sent) == sent.result()
            await many
            assert many.errors == {}
            assert many.exception() is None
            assert len(many.result()[0]) == 1
            assert many.done()

    run(main())


def test_callbacks_of_many(run, address, topic):
    async def main():
        called = []
        async with aio.Producer(address) as producer:
            many = await producer.send_many(topic, [b"x"] * 3)
            many.add_done_callback(called.append)
            await many
            await asyncio.sleep(0.1)
        assert called == [many]

    run(main())


def test_calls_are_coroutines(address):
    async def main():
        async with aio.Admin(address) as admin:
            return await asyncio.create_task(admin.list_topics())

    assert isinstance(asyncio.run(main()), list)
