"""`AIOProducer` on ottla, where it is not as on librdkafka; `confluent_programs/asyncio_producer.py` is what they share."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from tests.python import drop_in

pytest.importorskip("confluent_kafka.aio")
BEGIN = """
import asyncio, gc, os, sys, time
from unittest.mock import patch
from ottla.compat.confluent_kafka import install; install()
import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.aio import AIOProducer
servers = {"bootstrap.servers": sys.argv[1]}
"""


servers = pytest.fixture(scope="module")(drop_in.one_topic)
printed = partial(drop_in.printed, BEGIN)


def test_a_record_waits_for_space_in_a_full_queue(servers):
    program = """
async def main():
    async with AIOProducer(servers | {"queue.buffering.max.messages": 5}) as producer:
        async def writes(name):
            return [await producer.produce("t", f"{name}{i}") for i in range(100)]
        written = [await asyncio.gather(*futures) for futures in await asyncio.gather(writes("a"), writes("b"))]
        for messages in written:
            offsets = [message.offset() for message in messages]
            print(len(offsets), offsets == sorted(set(offsets)))
    config = servers | {"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 1, "message.timeout.ms": 300}
    producer = AIOProducer(config)
    first, second = await producer.produce("t", "1"), await producer.produce("t", "2")
    for future in first, second:
        print(*[type(e).__name__ for e in await asyncio.gather(future, return_exceptions=True)])
asyncio.run(main())
"""
    assert printed(program, servers) == ["100 True", "100 True", "KafkaException", "KafkaException"]


def test_produce_lets_other_tasks_run(servers):
    program = """
async def main():
    async with AIOProducer(servers) as producer:
        turns = 0
        async def counts():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1
        task = asyncio.create_task(counts())
        for i in range(5000):
            await producer.produce("t", b"x")
        print(turns >= 3)
        task.cancel()
asyncio.run(main())
"""
    assert printed(program, servers) == ["True"]


def test_results_come_without_a_flush_or_a_poll_and_count_for_polls(servers):
    program = """
async def main():
    async with AIOProducer(servers, buffer_timeout=0) as producer:
        print((await asyncio.wait_for(await producer.produce("t", b"x", timestamp=1234), 30)).timestamp())
        print(await producer.poll(30), await producer.poll(0), await producer.poll(0.01))
        await producer.produce("t", b"x")
        print(await producer.poll(30))
asyncio.run(main())
"""
    assert printed(program, servers) == ["(1, 1234)", "1 0 0", "1"]


def test_a_flush_does_not_wait_for_the_batch_of_a_topic_that_was_not_known(servers):
    program = """
from confluent_kafka import Producer
lingers = servers | {"linger.ms": 60_000}
producer = Producer(lingers)
producer.produce("t", b"x")
print(producer.flush(30), producer.close())
async def main():
    async with AIOProducer(lingers) as producer:
        future = await producer.produce("t", b"x")
        print(await producer.flush(30), future.result().value())
asyncio.run(main())
"""
    assert printed(program, servers) == ["0 True", "0 b'x'"]


def test_reports_that_another_thread_serves_settle_on_the_loop(servers):
    program = """
import threading
async def main():
    async with AIOProducer(servers | {"linger.ms": 50}) as producer:
        loop = asyncio.get_running_loop()
        await producer.list_topics("t", 30)
        future, cancelled = await producer.produce("t", b"x"), await producer.produce("t", b"y")
        cancelled.cancel()
        threads = []
        future.add_done_callback(lambda _: threads.append(threading.get_ident()))
        # The loop stands still: it cannot serve the report itself.
        thread = threading.Thread(target=producer._producer.flush)
        thread.start()
        thread.join()
        print(future.done(), (await asyncio.wait_for(future, 30)).value())
        await asyncio.sleep(0)
        print(threads == [threading.get_ident()], cancelled.cancelled())
asyncio.run(main())
"""
    assert printed(program, servers) == ["False b'x'", "True True"]


def test_reports_that_come_after_the_end_of_the_loop_are_served(servers):
    program = """
import threading
async def write():
    producer = AIOProducer(servers | {"linger.ms": 2000})
    return producer, await producer.produce("t", b"x")
for is_on_its_thread in True, False:
    producer, future = asyncio.run(write())
    left = []
    thread = threading.Thread(target=lambda: left.append(producer._producer.flush(30)))
    if is_on_its_thread:
        thread.run()
    else:
        thread.start()
        thread.join()
    print(left, future.done())
    asyncio.run(producer.close())
"""
    assert printed(program, servers) == ["[0] True", "[0] False"]


def test_futures_are_those_of_asyncio_and_errors_come_with_the_await(servers):
    program = """
async def main():
    async with AIOProducer(servers | {"message.max.bytes": 1000}) as producer:
        for wrong in producer.produce("t", {}), producer.produce(1), producer.produce("t", partition="0"):
            try:
                await wrong
            except TypeError as error:
                print(type(error).__name__, len(producer))
        delivered, failed = await producer.produce("t", b"x"), await producer.produce("t", b"x" * 2000)
        print(type(delivered) is asyncio.Future, delivered.get_loop() is asyncio.get_running_loop(), failed.done())
        print(failed.exception().args[0].name(), await producer.flush(30), delivered.result().value())
asyncio.run(main())
"""
    assert printed(program, servers) == [*["TypeError 0"] * 3, "True True True", "MSG_SIZE_TOO_LARGE 0 b'x'"]


def test_the_garbage_collector_sees_each_future_that_can_be_part_of_a_cycle(servers):
    """Those of delivered records it does not have to visit."""
    program = """
async def main():
    producer = AIOProducer(servers | {"linger.ms": 5000})
    delivered, cancelled = [await producer.produce("t", b"x") for _ in range(2)]
    cancelled.cancel()
    await producer.flush(30)
    purged = await producer.produce("t", b"x")
    await producer.purge()
    refused = await producer.produce("t", b"x" * 2_000_000)
    left = await producer.produce("t", b"x")
    print(delivered.result().value(), cancelled.cancelled(), *[f.exception().args[0].name() for f in (purged, refused)])
    print(*[gc.is_tracked(future) for future in (delivered, cancelled, purged, refused, left)])
    del producer
    deadline = time.monotonic() + 30
    while not gc.is_tracked(left) and time.monotonic() < deadline:
        gc.collect()
        await asyncio.sleep(0.05)
    print(left.done(), gc.is_tracked(left))
asyncio.run(main())
"""
    assert printed(program, servers) == [
        "b'x' True _PURGE_INFLIGHT MSG_SIZE_TOO_LARGE",
        "False True True True False",
        "False True",
    ]


def test_another_loop_may_use_the_producer(servers):
    program = """
async def make():
    return AIOProducer(servers)
async def use(producer):
    futures = [await producer.produce("t", b"x") for _ in range(10)]
    print(await producer.flush(30), len(await asyncio.gather(*futures)))
producer = asyncio.run(make())
asyncio.run(use(producer))
asyncio.run(use(producer))
asyncio.run(producer.close())
print(len(producer))
"""
    assert printed(program, servers) == ["0 10", "0 10", "0"]


def test_a_closed_producer_raises(servers):
    program = """
async def main():
    producer = AIOProducer(servers)
    future = await producer.produce("t", b"x")
    await producer.close()
    await producer.close()
    print(future.result().value(), len(producer))
    for call in producer.produce("t", b"x"), producer.produce("t", b"x", timestamp=1):
        try:
            await call
        except RuntimeError as error:
            print(error)
asyncio.run(main())
"""
    assert printed(program, servers) == ["b'x' 0", *["Producer has been closed"] * 2]


@pytest.mark.skipif(sys.platform == "win32", reason="counts descriptors by a folder that Windows lacks")
def test_a_producer_that_is_dropped_disconnects(servers):
    program = """
def descriptors():
    return len(os.listdir("/dev/fd"))
async def use():
    producer = AIOProducer(servers)
    await (await producer.produce("t", b"x"))
async def main():
    await use()
    before = descriptors()
    for _ in range(3):
        await use()
    deadline = time.monotonic() + 30
    while descriptors() > before and time.monotonic() < deadline:
        gc.collect()
        await asyncio.sleep(0.05)
    print(descriptors() - before)
asyncio.run(main())
"""
    [more] = printed(program, servers)
    assert int(more) <= 0


def test_a_loop_that_watches_no_descriptors_has_a_thread_for_it(servers):
    """As the default loop of Windows."""
    program = """
import threading
class Loop(asyncio.SelectorEventLoop):
    def add_reader(self, *_): raise NotImplementedError
    def remove_reader(self, *_): raise NotImplementedError
def watching():
    return sum(thread.name == "ottla-asyncio" for thread in threading.enumerate())
async def main():
    producer = AIOProducer(servers, buffer_timeout=0)
    future = await producer.produce("t", b"x")
    print((await asyncio.wait_for(future, 30)).value(), watching())
    await producer.close()
    del producer, future
    deadline = time.monotonic() + 30
    while watching() and time.monotonic() < deadline:
        gc.collect()
        await asyncio.sleep(0.1)
    print(watching())
with asyncio.Runner(loop_factory=Loop) as runner:
    runner.run(main())
"""
    assert printed(program, servers) == ["b'x' 1", "0"]


def test_callbacks_of_events_are_called_while_records_are_produced(servers):
    program = """
import json
async def main():
    seen = []
    async def statistics(text):
        seen.append(json.loads(text)["type"])
    config = servers | {"stats_cb": statistics, "statistics.interval.ms": 10}
    producer = AIOProducer(config)
    deadline = time.monotonic() + 30
    while not seen and time.monotonic() < deadline:
        await producer.produce("t", b"x")
    print(seen[:1])
    seen.clear()
    while not seen and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    print(seen[:1])
    seen.clear()
    print(await producer.flush(30), await producer.poll(30) > 0, seen[:1])
    await producer.close()
asyncio.run(main())
"""
    assert printed(program, servers) == ["['producer']", "['producer']", "0 True ['producer']"]


def test_a_producer_of_another_library_gets_its_buffer(servers):
    program = """
async def main():
    with patch("confluent_kafka.Producer"):
        producer = AIOProducer(servers)
    future = await producer.produce("t", b"x", partition=3, timestamp=5)
    [buffered] = producer._batch_processor._message_buffer
    print(buffered, future.done())
    try:
        await producer.produce("t", headers={})
    except NotImplementedError:
        print("no headers")
    producer._buffer_timeout_manager.stop_timeout_monitoring()
asyncio.run(main())
"""
    buffered = {"topic": "t", "value": b"x", "key": None, "partition": 3, "timestamp": 5}
    assert printed(program, servers) == [f"{buffered} False", "no headers"]


def test_the_module_of_the_class_keeps_its_source_and_names(servers):
    program = """
import inspect, confluent_kafka.aio.producer._AIOProducer as module
theirs = module.AIOProducer.__mro__[2]
print(inspect.getsource(module) == open(module.__file__).read(), theirs.__name__, theirs.__module__ == module.__name__)
print(AIOProducer is module.AIOProducer, AIOProducer.__module__ == module.__name__, AIOProducer.__qualname__)
"""
    assert printed(program, servers) == ["True AIOProducer True", "True True AIOProducer"]
