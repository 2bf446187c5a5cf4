"""Processes: signals, forks, pickles, exits, threads."""

from __future__ import annotations

import ast
import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import ottla
from ottla import TopicPartition, aio, errors
from ottla.testing import Broker
from tests.pace import patience
from tests.python.conftest import PATIENCE

NOBODY = "127.0.0.1:1"
# Seconds that a script or a forked child may take.
DEADLINE = patience(60)


def run(script, *arguments, interrupt=None, timeout=DEADLINE):
    """Run a Python script; with `interrupt`, send SIGINT so many seconds after it said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if interrupt is not None:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            time.sleep(interrupt)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
        process.stderr.close()
    return process.returncode, out, err


def test_ctrl_c_ends_asyncio():
    script = f"""
import asyncio
from ottla import aio
async def main():
    async with aio.Consumer({NOBODY!r}) as consumer:
        consumer.assign([("t", 0)])
        print("ready", flush=True)
        await consumer.poll(60)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""
    code, out, err = run(script, interrupt=0.3)
    assert (code, out) == (0, "interrupted\n"), err


def test_a_signal_handler_that_returns_does_not_end_the_wait(address, topic):
    """The record is sent only when the handler has run, and `poll` returns only when the record is there."""
    called = threading.Event()

    def send():
        if called.wait(PATIENCE):
            time.sleep(0.2)  # in which a poll that the handler had ended would return
            with ottla.Producer(address) as producer:
                producer.send(topic, b"after the handler", partition=0)

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGALRM, lambda *_: called.set())
    try:
        with ottla.Consumer(address) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            sender.start()
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            batch = consumer.poll(2 * PATIENCE)
    finally:
        signal.signal(signal.SIGALRM, before)
        called.set()
        sender.join(PATIENCE)
    assert [record.value for record in batch] == [b"after the handler"]


def in_child(function):
    """What `function` returns in a forked child, or how it failed there."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = function()
        except BaseException as error:  # All of it must reach the parent.
            result = error
        os.write(send, pickle.dumps(result))
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        import select

        assert select.select([pipe], [], [], DEADLINE)[0], "the child hangs"
        data = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return pickle.loads(data)


@pytest.fixture
def outside():
    """The address of a broker in a process of its own, which a forked child can reach."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "broker", "--port", "0", "--topic", "t"], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().split()[4].rstrip(";")
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def test_clients_that_crossed_a_fork_say_what_to_do(outside):
    with ottla.Producer(outside) as producer, ottla.Consumer(outside) as consumer, ottla.Admin(outside) as admin:
        sent = producer.send("t", b"v")
        sent.result(20)
        many = producer.send_many("t", [b"v"])
        many.result(20)
        consumer.assign([("t", 0)])
        for call in (
            lambda: producer.send("t", b"v"),
            lambda: producer.flush(1),
            lambda: producer.close(1),
            lambda: consumer.poll(1),
            lambda: consumer.seek(("t", 0), 1),
            lambda: admin.list_topics(timeout=1),
            sent.result,
            many.result,
        ):
            error = in_child(call)
            assert isinstance(error, errors.ForkedError), error
            assert "in the child" in str(error)
        assert producer.send("t", b"still here").result(20).topic == "t"


def test_a_forked_child_makes_its_own_clients(outside):
    """Also while the parent's threads are at work, and whatever the parent left behind is dropped without harm."""
    with ottla.Producer(outside) as producer:

        def child():
            import gc

            nonlocal producer
            del producer
            gc.collect()
            called = threading.Event()
            with ottla.Producer(outside) as own:
                sent = own.send("t", b"from the child")
                sent.add_done_callback(lambda _: called.set())
                offset = sent.result(20).offset
                assert called.wait(10)
            with ottla.Consumer(outside, topics=["t"], auto_offset_reset="earliest") as consumer:
                assert len(consumer.poll(20))
            return offset

        for _ in range(5):
            pending = [producer.send("t", b"x" * 100) for _ in range(1000)]
            assert in_child(child) >= 0
        producer.flush(20)
        assert all(d.exception() is None for d in pending)


def test_a_batch_that_crossed_a_fork_can_be_read_and_dropped(outside):
    """Its memory goes back to a consumer whose threads the child does not have."""
    with ottla.Producer(outside, compression_type="lz4") as producer:
        for _ in range(20):
            producer.send_many("t", [b"%06d" % i * 100 for i in range(2_000)])
    with ottla.Consumer(outside, topics=["t"], auto_offset_reset="earliest") as consumer:
        for _ in range(20):
            kept = [consumer.poll(20)]

            def child(kept=kept):
                import gc

                table = kept.pop().to_arrow()
                values = table["value"].to_pylist()
                del table
                gc.collect()
                return len(values)

            assert in_child(child) == len(kept[0]) > 0
            consumer.seek_to_beginning()


def test_a_child_of_a_fork_exits_cleanly(outside):
    script = """
import os, sys, ottla
producer = ottla.Producer(sys.argv[1])
producer.send("t", b"v").result(20)
child = os.fork()
if child == 0:
    sys.exit(0)  # With all of the interpreter's exit, and the parent's producer still open.
assert os.waitpid(child, 0)[1] == 0
producer.close()
"""
    code, _, err = run(script, outside)
    assert code == 0, err


def test_spawned_workers_take_options_not_clients(outside):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_produce, (outside, {"linger_ms": 1})) == "t"


def _produce(address, options):
    with ottla.Producer(address, **options) as producer:
        return producer.send("t", b"v").result(20).topic


def test_what_pickles_and_what_does_not(address, topic):
    with ottla.Producer(address) as producer, ottla.Consumer(address) as consumer, ottla.Admin(address) as admin:
        consumer.assign([TopicPartition(topic, 0, 0)])
        sent, many = producer.send(topic, b"v", partition=0), producer.send_many(topic, [b"v"])
        written = sent.result(20)
        batch = consumer.poll(20)
        for refuses, advice in [
            (producer, "options"),
            (consumer, "options"),
            (admin, "options"),
            (sent, "result()"),
            (many, "result()"),
            (batch, "to_arrow()"),
            (batch[0], "record.value"),
        ]:
            with pytest.raises(TypeError, match="cannot be pickled") as caught:
                pickle.dumps(refuses)
            assert advice in str(caught.value)
    for kind in (aio.Producer, aio.Consumer, aio.Admin):
        client = kind(address)
        with pytest.raises(TypeError, match="options"):
            pickle.dumps(client)
        asyncio.run(client.close())
    for value in (written, TopicPartition(topic, 1, 5), ottla.NewTopic("t", 3, config={"a": "b"})):
        assert pickle.loads(pickle.dumps(value)) == value
    assert pickle.loads(pickle.dumps(TopicPartition(topic, 1, 5))).offset == 5


def test_records_of_an_unclosed_producer_are_sent_at_exit(address, topic):
    script = """
import sys, ottla
producer = ottla.Producer(sys.argv[1], linger_ms=60_000)
producer.send(sys.argv[2], b"last words", partition=0)
"""
    code, _, err = run(script, address, topic)
    assert (code, err) == (0, "")
    with ottla.Consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(10)[0].value == b"last words"


@pytest.mark.timeout(400)
def test_exit_does_not_wait_for_ever_and_says_what_is_lost():
    """It ends long before `delivery.timeout.ms`."""
    script = """
import ottla
from ottla.testing import Broker
broker = Broker(topics=["t"]).start()
producer = ottla.Producer(broker.bootstrap_servers, delivery_timeout_ms=1_000_000)
producer.send("t", b"known").result(100)
broker.ignore("Produce", count=1000)
producer.send("t", b"lost")
"""
    code, _, err = run(script, timeout=300)
    assert code == 0
    assert "not all of its records were delivered" in err


def test_a_forgotten_client_warns_and_still_delivers(address, topic):
    producer = ottla.Producer(address, linger_ms=50)
    sent = producer.send(topic, b"v")
    with pytest.warns(ResourceWarning, match="unclosed Producer"):
        del producer
    assert sent.result(20).topic == topic
    consumer, admin = ottla.Consumer(address), ottla.Admin(address)
    with pytest.warns(ResourceWarning, match="unclosed Consumer"):
        del consumer
    with pytest.warns(ResourceWarning, match="unclosed Admin"):
        del admin


def test_threads_may_share_clients(address, topic):
    failures = []

    def work(producer, consumer):
        try:
            for n in range(200):
                producer.send(topic, b"%d" % n)
            producer.flush(20)
            consumer.poll(0.01)
        except BaseException as error:
            failures.append(error)

    with ottla.Producer(address) as producer, ottla.Consumer(address, topics=[topic]) as consumer:
        threads = [threading.Thread(target=work, args=(producer, consumer)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failures
        ends = consumer.end_offsets([(topic, 0), (topic, 1)])
    assert sum(ends.values()) == 8 * 200


def test_import_loads_only_a_few_modules_of_the_standard_library():
    """An import costs what it loads. Which modules those are is the same on each run; how long they take is not."""
    known = "__future__, atexit, base64, bisect, contextlib, dataclasses, datetime, enum, queue, re, selectors, struct, threading, typing, weakref"
    loaded = "print(sorted(name for name in sys.modules if name.split('.')[0] != 'ottla'))"
    code, few, err = run(f"import sys, {known}; {loaded}")
    assert code == 0, err
    code, ours, err = run(f"import sys, ottla; {loaded}")
    assert code == 0, err
    assert set(ast.literal_eval(ours)) - set(ast.literal_eval(few)) == set()


def test_import_loads_no_part_that_has_an_import_of_its_own():
    parts = ("cli", "log", "otel", "protocol", "spark", "testing")
    code, out, err = run(f"import sys, ottla; print([part for part in {parts} if f'ottla.{{part}}' in sys.modules])")
    assert (code, out) == (0, "[]\n"), err


def test_import_fails_in_a_second_interpreter():
    """Also in one that is not isolated, which Python itself lets import."""
    name = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    create = {11: "create()", 12: "create(isolated=False)"}.get(sys.version_info.minor, "create('legacy')")
    pytest.importorskip(name)
    inside = "try: import ottla\nexcept ImportError as error: print(error, flush=True)"
    script = f"import ottla, {name} as interpreters; interpreters.run_string(interpreters.{create}, {inside!r})"
    code, out, err = run(script)
    assert code == 0, err
    assert "ottla cannot be imported in interpreter" in out


def test_a_broker_of_the_process_stops_with_it():
    code, _, err = run("from ottla.testing import Broker; broker = Broker().start(); print(broker)")
    assert (code, err) == (0, "")


def test_closing_twice_from_two_threads(address, topic):
    producer = ottla.Producer(address)
    producer.send(topic, b"v")
    threads = [threading.Thread(target=producer.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_the_fixture_is_a_broker(ottla_broker):
    assert isinstance(ottla_broker, Broker)
    with ottla.Admin(ottla_broker.bootstrap_servers) as admin:
        assert admin.list_topics() == []
