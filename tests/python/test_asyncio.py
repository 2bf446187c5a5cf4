"""What only asyncio has: several loops and threads, cancelling, leaks, answers that do not touch the loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from pathlib import Path

import pytest

import ottla
from ottla import TopicPartition, aio
from ottla.testing import Broker
from tests.pace import patience
from tests.python.loops import LOOPS, least_share, longest_hold, new_loop, until

# Only a flush sends, so that the test decides when a record is delivered.
HELD = {"linger_ms": 100_000, "delivery_timeout_ms": 200_000}
# The cause while each Produce request fails with NOT_LEADER_OR_FOLLOWER: that, or what the metadata says by then.
WITHOUT_LEADER = r"still undelivered after \d+ ms: (NOT_LEADER_OR_FOLLOWER|LEADER_NOT_AVAILABLE)"


@pytest.fixture(params=LOOPS)
def run(request):
    """Run a coroutine on a new loop of some kind."""

    def run(coroutine):
        loop = new_loop(request.param)
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, patience(30)))
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


def all_come_while_the_loop_is_busy(sent):
    end = time.monotonic() + 30
    while not all(each.done() for each in sent):
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.2)  # A fate is known a moment before its task is to be woken.


def test_many_answers_come_by_one_wake_up(run, address, topic, monkeypatch):
    from ottla.aio import _completions

    drained = []
    original = _completions.Completions._drain
    monkeypatch.setattr(_completions.Completions, "_drain", lambda self: drained.append(original(self)))

    async def main():
        async with aio.Producer(address, **HELD) as producer:
            await producer.send(topic, b"warm", partition=0)
            await producer.flush()
            sent = [await producer.send(topic, b"x", partition=0) for _ in range(1000)]
            answers = asyncio.gather(*sent, producer.flush())
            await asyncio.sleep(0)
            all_come_while_the_loop_is_busy(sent)
            drained.clear()
            await answers
            assert 0 < len(drained) < 100

    run(main())


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
    async def main(broker):
        options = {"buffer_memory": 20_000, "batch_size": 10_000}
        async with aio.Producer(broker.bootstrap_servers, **options) as producer:
            await (await producer.send("t", b"known"))
            broker.delay("Produce", 0.5, count=1000)
            sent, cancelled = [], 0
            # Twenty records fill the buffer. Responses make space for ten at a time, and the next sends fill that too.
            while cancelled < 40:
                try:
                    sent.append(await asyncio.wait_for(producer.send("t", b"x" * 1000), 0.02))
                except TimeoutError:
                    cancelled += 1
            broker.clear_faults()
            # The sends after those that were cancelled get the space.
            sent += [await producer.send("t", b"x" * 1000) for _ in range(20)]
            offsets = [written.offset for written in await asyncio.gather(*sent)]
            assert cancelled
            assert offsets == list(range(1, 1 + len(sent)))

    with Broker(topics=["t"]) as broker:
        run(main(broker))


def test_what_a_cancelled_send_many_had_sent_is_not_lost_in_silence(run):
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
    end = time.monotonic() + 20
    while descriptors() > before + 2:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_results_must_be_awaited_first(run, address, topic):
    async def main():
        async with aio.Producer(address, linger_ms=60_000) as producer:  # only a flush sends
            sent = await producer.send(topic, b"x")
            many = await producer.send_many(topic, [b"x"])
            for early in (sent.result, sent.exception, many.result, many.exception, lambda: many.errors):
                with pytest.raises(asyncio.InvalidStateError, match="await"):
                    early()
            flushed = asyncio.ensure_future(producer.flush())
            assert (await sent) == sent.result()
            await many
            await flushed
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
            await until(lambda: called, "the callback is called")
        assert called == [many]

    run(main())


def test_calls_are_coroutines(address):
    async def main():
        async with aio.Admin(address) as admin:
            return await asyncio.create_task(admin.list_topics())

    assert isinstance(asyncio.run(main()), list)


@pytest.fixture(scope="module")
def large():
    """A broker, and by codec a topic whose first batch is large: many records, or few that compress to next to nothing."""
    limits = {"message.max.bytes": 100_000_000}
    many = [b"%099d" % number for number in range(300_000)]
    values = {"none": many, "lz4": many, "zstd": [bytes(900_000)] * 50}
    with Broker(topics=list(values), config=limits) as broker:
        for codec, them in values.items():
            sizes = {"batch_size": 90_000_000, "max_request_size": 90_000_000, "buffer_memory": 200_000_000}
            with ottla.Producer(
                broker.bootstrap_servers, compression_type=codec, linger_ms=20_000, **sizes
            ) as producer:
                producer.send_many(codec, them, partitions=[0] * len(them))
                producer.flush(patience(30))
        yield broker.bootstrap_servers, {codec: len(them) for codec, them in values.items()}


@pytest.mark.alone
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_a_large_batch_is_decoded_beside_the_loop(run, large, codec):
    address, counts = large
    with ottla.Consumer(address) as consumer:
        consumer.assign([TopicPartition(codec, 0, 0)])
        begun = time.thread_time()
        batch = consumer.poll(20, max_records=1_000_000)
        decoding = time.thread_time() - begun
    assert len(batch) == counts[codec], "one batch"

    async def main():
        async with aio.Consumer(address) as consumer:
            consumer.assign([TopicPartition(codec, 0, 0)])
            found, longest = await longest_hold(consumer.poll(20, max_records=1_000_000))
            assert len(found) == counts[codec]
            return longest

    # The least of three, for the reason that `least_share` gives.
    longest = min(run(main()) for _ in range(3))
    assert longest < decoding / 4, f"{longest:.4f} s of {decoding:.4f} s"


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_cancelling_a_poll_while_its_batch_is_decoded_loses_nothing(run, large, codec):
    address, counts = large

    async def main():
        async with aio.Consumer(address) as consumer:
            for step in range(8):
                consumer.assign([TopicPartition(codec, 0, 0)])
                poll = asyncio.create_task(consumer.poll(20))
                await asyncio.sleep(0.02 * step)
                poll.cancel()
                offsets = []
                with contextlib.suppress(asyncio.CancelledError):
                    offsets += [(batch := await poll)[0].offset, batch[-1].offset]
                while not offsets or offsets[-1] < counts[codec] - 1:
                    batch = await consumer.poll(20)
                    offsets += [batch[0].offset, batch[-1].offset]
                assert offsets[0] == 0
                assert all(last + 1 == first for last, first in zip(offsets[1::2], offsets[2::2], strict=False))

    run(main())


def test_a_client_closes_while_a_batch_is_decoded(run, large):
    address, _counts = large

    async def main():
        async with aio.Consumer(address) as consumer:
            consumer.assign([TopicPartition("none", 0, 0)])
            poll = asyncio.create_task(consumer.poll(20))
            await asyncio.sleep(0.05)
        with contextlib.suppress(ottla.errors.ClosedError):
            assert len(await poll)

    run(main())


@pytest.mark.alone
@pytest.mark.parametrize("each", [0, 0.001])
def test_an_iteration_lets_other_tasks_have_their_turn(run, large, each):
    address, counts = large
    count = 100 if each else counts["none"] // 2

    async def main():
        async with aio.Consumer(address) as consumer:

            async def iterate():
                consumer.assign([TopicPartition("none", 0, 0)])
                await consumer._core.poll_to_iterate(None)
                begun, left = time.thread_time(), count
                async for _ in consumer:
                    end = time.thread_time() + each
                    while time.thread_time() < end:
                        pass
                    left -= 1
                    if not left:
                        break
                return time.thread_time() - begun

            assert await least_share(iterate) < 1 / 3

    run(main())


@pytest.mark.alone
def test_batches_let_other_tasks_have_their_turn(run):
    async def main(address):
        async with aio.Consumer(address, max_poll_records=1) as consumer:

            async def iterate():
                consumer.assign([TopicPartition("t", 0, 0)])
                begun, left = time.thread_time(), 10_000
                async for batch in consumer.batches():
                    left -= len(batch)
                    if not left:
                        break
                return time.thread_time() - begun

            assert await least_share(iterate) < 1 / 3

    with Broker(topics=["t"]) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"x"] * 10_000).result(20)
        run(main(broker.bootstrap_servers))


def test_functions_of_asyncio_take_deliveries(run, address, topic):
    async def main():
        async with aio.Producer(address, linger_ms=50) as producer:

            async def sent():
                return await producer.send(topic, b"x", partition=0), await producer.send_many(topic, [b"x"] * 2)

            for function in (asyncio.gather, lambda *them: asyncio.gather(*map(asyncio.shield, them))):
                one, many = await function(*await sent())
                assert (one.topic, len(many[0])) == (topic, 2)
            for delivery in await sent():
                assert await asyncio.wait_for(delivery, 20) is not None
                assert isinstance(asyncio.ensure_future(delivery), asyncio.Task)
            for first in asyncio.as_completed(await sent(), timeout=20):
                assert await first is not None

    run(main())


@pytest.mark.parametrize("what", ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION"])
def test_deliveries_are_waited_for_like_futures(run, address, topic, what):
    async def main():
        async with aio.Producer(address, linger_ms=50) as producer:
            sent = [await producer.send(topic, b"x") for _ in range(20)] + [await producer.send_many(topic, [b"x"] * 2)]
            done, pending = await asyncio.wait(sent, timeout=20, return_when=getattr(asyncio, what))
            assert done
            assert done | pending == set(sent)
            assert all(each.done() and not each.cancelled() for each in done)
            assert what == "FIRST_COMPLETED" or not pending
            done, pending = await asyncio.wait(sent, timeout=20)
            assert done == set(sent)

    run(main())


def test_a_wait_for_deliveries_has_an_end(run, address, topic):
    from ottla.aio import _completions

    async def main():
        async with aio.Producer(address, **HELD) as producer:
            sent = [await producer.send(topic, b"x"), await producer.send_many(topic, [b"x"])]
            for _ in range(3):
                assert await asyncio.wait(sent, timeout=0.05) == (set(), set(sent))
            completions = _completions._completions()
            assert not any(completions._callbacks.values()), "nothing is left of it"
            assert len(completions._deliveries) == 2, "waiting again costs nothing"
            await producer.flush()
            assert await asyncio.wait(sent, timeout=20) == (set(sent), set())

    run(main())


def test_a_flush_says_why_a_delivery_is_late(run):
    """The TimeoutError of asyncio does not, whatever it waits for."""

    async def main():
        with Broker(topics=["t"]) as broker:
            async with aio.Producer(
                broker.bootstrap_servers, request_timeout_ms=300, delivery_timeout_ms=60_000
            ) as producer:
                await (await producer.send("t", b"first"))
                broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", count=10_000)
                delivery = await producer.send("t", b"late")
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(delivery, 0.05)
                await until(lambda: producer.metrics().value("record-retry-total") > 0, "a retry")
                with pytest.raises(ottla.errors.KafkaTimeoutError, match=WITHOUT_LEADER):
                    await producer.flush(0.5)
                broker.clear_faults()
                assert (await delivery).offset == 1

    run(main())


def test_a_callback_that_is_removed_is_not_called(run, address, topic):
    async def main():
        called = []
        async with aio.Producer(address, linger_ms=50) as producer:
            for delivery in (await producer.send(topic, b"x"), await producer.send_many(topic, [b"x"])):
                stays, goes = called.append, (lambda _: called.append("gone"))
                for callback in (goes, stays, goes):
                    delivery.add_done_callback(callback)
                assert delivery.remove_done_callback(goes) == 2
                assert delivery.remove_done_callback(goes) == 0
                await delivery
                await until(lambda: called, "the callback is called")
                assert called == [delivery]
                assert delivery.remove_done_callback(stays) == 0
                delivery.add_done_callback(stays)
                assert delivery.remove_done_callback(stays) == 1, "not called yet, though it is done"
                # Callbacks run in the order in which they were added.
                passed = []
                delivery.add_done_callback(passed.append)
                await until(lambda passed=passed: passed, "a later callback is called")
                assert called == [delivery]
                called.clear()

    run(main())


def test_callbacks_come_in_the_order_of_fates(run, broker, address, topic):
    """Also one that is asked for when its fate is known, and when those before it were not called yet."""

    async def main():
        called = []
        async with aio.Producer(address) as producer:
            broker.delay("Produce", 0.1)
            first = await producer.send(topic, b"v", partition=0)
            second = await producer.send_many(topic, [b"v"], partitions=0)
            first.add_done_callback(called.append)
            await asyncio.sleep(0)
            while not second.done():
                time.sleep(0.01)  # noqa: ASYNC251 the loop stands still
            second.add_done_callback(called.append)
            await until(lambda: len(called) == 2, "both callbacks are called")
            assert called == [first, second]

    run(main())


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_that_ends_before_a_callback_is_let_go(address, topic, kind):
    async def main():
        loop = asyncio.get_running_loop()
        producer = aio.Producer(address, **HELD)
        (await producer.send(topic, b"v")).add_done_callback(lambda _: loop.stop())
        return producer, weakref.ref(loop)

    def run(coroutine):
        loop = new_loop(kind)
        try:
            return loop.run_until_complete(coroutine)
        finally:
            loop.close()

    producer, ended = run(main())
    gc.collect()
    assert ended() is None
    run(producer.close())


@pytest.mark.parametrize("many", [False, True])
def test_a_wait_with_a_timeout_says_why_a_delivery_is_late(run, many):
    """asyncio's TimeoutError does not, whatever it waits for."""

    async def main():
        with Broker(topics=["t"]) as broker:
            settings = {"request_timeout_ms": 300, "delivery_timeout_ms": 60_000}
            async with aio.Producer(broker.bootstrap_servers, **settings) as producer:
                await (await producer.send("t", b"first"))
                broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", count=10_000)
                delivery = await (producer.send_many("t", [b"late"]) if many else producer.send("t", b"late"))
                await until(lambda: producer.metrics().value("record-retry-total") > 0, "a retry")
                with pytest.raises(ottla.errors.KafkaTimeoutError, match=WITHOUT_LEADER):
                    await delivery.wait(0.2)
                assert not delivery.done()
                broker.clear_faults()
                written = await delivery.wait(patience(30))
                assert (written[1][0] if many else written.offset) == 1
                assert await delivery.wait(0) == await delivery

    run(main())


@pytest.mark.parametrize("many", [False, True])
def test_a_wait_raises_the_error_of_the_record(run, many):
    async def main():
        with Broker(topics=["t"]) as broker:
            async with aio.Producer(broker.bootstrap_servers) as producer:
                broker.fail("Produce", "MESSAGE_TOO_LARGE")
                delivery = await (producer.send_many("t", [b"v"]) if many else producer.send("t", b"v"))
                with pytest.raises(ottla.errors.TooLargeError):
                    await delivery.wait(patience(30))
                if many:
                    assert list((await delivery.wait(check=False))[1]) == [-1]
                with pytest.raises(ottla.errors.ArgumentError, match="timeout"):
                    delivery.wait(-1)

    run(main())


def test_a_thread_that_watches_for_a_loop_ends_with_it(address, topic):
    def watching():
        return [thread for thread in threading.enumerate() if thread.name == "ottla-asyncio"]

    others = watching()
    loop = new_loop("no readers")
    loop.run_until_complete(round_trip(address, topic))
    (thread,) = (thread for thread in watching() if thread not in others)
    loop.close()
    thread.join(patience(20))
    assert not thread.is_alive()


def test_a_callback_that_raises_is_told_to_the_loop_and_ends_nothing(run, broker, address, topic):
    async def main():
        told, called = [], []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        async with aio.Producer(address) as producer:
            broker.delay("Produce", 0.1)
            delivery = await producer.send(topic, b"v")
            delivery.add_done_callback(lambda _: 1 / 0)
            delivery.add_done_callback(called.append)
            await delivery
            await until(lambda: called, "the second callback is called")
        assert called == [delivery]
        assert [type(error) for error in told] == [ZeroDivisionError]

    run(main())
