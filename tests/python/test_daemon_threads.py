"""Daemon threads inside our calls while the interpreter ends: the process exits with 0.

Before 3.14, Python ends such a thread by `pthread_exit` when it requests the GIL. Rust aborts the process if that unwinds
its frames (python/cpython#87135).
"""

from __future__ import annotations

import pytest

from tests.python.test_process import run

# More than one, since the moment at which a thread is ended is chance.
RUNS = 4

SCRIPT = """
import asyncio, contextlib, sys, threading
import ottla
from ottla import aio
from ottla.testing import Broker

broker = Broker(topics=["t"]).start()
address = broker.bootstrap_servers
ready = threading.Semaphore(0)

def busy(rounds=100):
    for _ in range(rounds):
        pass

def place(topic, keys, partitions):
    busy(2_000)
    yield from [0] * len(keys)

def values():
    for _ in range(200):
        busy()
        yield b"v"

producer = ottla.Producer(address, partitioner=place if sys.argv[1] == "partitioner" else None)
producer.send("t", b"v").result(60)

def send(me):
    producer.send("t", b"v")

def flush(me):
    producer.send("t", b"v")
    producer.flush(60)

def callback(me):
    producer.send("t", b"v").add_done_callback(lambda _: busy())

def partitioner(me):
    producer.send("t", b"v", key=b"k")

def generator(me):
    producer.send_many("t", values())

def poll(me):
    me.consumer.poll(0.01)

def awaited(me):
    async def main():
        async with aio.Producer(address) as asyncio_producer:
            while True:
                await (await asyncio_producer.send("t", b"v"))
                me.ready()
    asyncio.run(main())

class Worker(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.said = False
        if sys.argv[1] == "poll":
            self.consumer = ottla.Consumer(address, topics=["t"])

    def ready(self):
        if not self.said:
            self.said = True
            ready.release()

    def run(self):
        # Errors of a client that the exit closed are made inside our calls, too.
        while True:
            with contextlib.suppress(ottla.errors.ClosedError):
                globals()[sys.argv[1]](self)
                self.ready()

for _ in range(4):
    Worker().start()
for _ in range(4):
    ready.acquire()
"""


@pytest.mark.parametrize("kind", ["send", "flush", "callback", "partitioner", "generator", "poll", "awaited"])
def test_daemon_threads_inside_our_calls_end_with_the_interpreter(kind):
    for _ in range(RUNS):
        code, _, err = run(SCRIPT, kind)
        assert code == 0, err
        # The exit reports records that it did not deliver, and nothing else.
        lost = ("was not closed before exit", "was given up")
        assert [line for line in err.splitlines() if not any(words in line for words in lost)] == []
