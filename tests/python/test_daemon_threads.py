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
import asyncio, collections.abc, contextlib, sys, threading, warnings
import ottla, ottla.protocol
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
warnings.simplefilter("always")
warnings.showwarning = lambda *_: busy()

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

def each(items):
    for _ in range(200):
        busy()
        yield from items

class Place:
    partition = 0

    @property
    def topic(self):
        busy()
        return "t"

class Words(collections.abc.Mapping):
    def __len__(self):
        return 1

    def __iter__(self):
        busy()
        return iter(["topics"])

    def __getitem__(self, name):
        busy()
        if name != "topics":
            raise KeyError(name)
        return []

class PathLike:
    def __fspath__(self):
        busy()
        return "a"

def iterable(me):
    me.consumer.pause(each([("t", 0)]))

def attributes(me):
    me.consumer.pause([Place()] * 50)

def settings(me):
    with contextlib.suppress(ottla.errors.ConfigError):
        ottla.Admin({"client.id": [PathLike()] * 50, "no.such.property": "1"})

def mapping(me):
    ottla.protocol.encode_request("Metadata", 4, Words())

def assignment(me):
    me.consumer.assignment()

def warning(me):
    ottla.Admin(address)

class Worker(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.said = False
        if sys.argv[1] in {"poll", "iterable", "attributes", "assignment"}:
            self.consumer = ottla.Consumer(address)
            self.consumer.assign([("t", 0)])

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


# What our calls call back: iterators, properties, conversions and hooks of a user, classes and functions of the facades.
CALLED_BACK = [
    "iterable",
    "attributes",
    "settings",
    "mapping",
    "assignment",
    "warning",
]


@pytest.mark.parametrize(
    "kind", ["send", "flush", "callback", "partitioner", "generator", "poll", "awaited", *CALLED_BACK]
)
def test_daemon_threads_inside_our_calls_end_with_the_interpreter(kind):
    for _ in range(RUNS if kind not in CALLED_BACK else 2):
        code, _, err = run(SCRIPT, kind)
        assert code == 0, err
        # The exit reports records that it did not deliver, and nothing else.
        lost = ("was not closed before exit", "was abandoned")
        assert [line for line in err.splitlines() if not any(words in line for words in lost)] == []
