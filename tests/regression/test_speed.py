"""A clear loss of speed fails here, on any machine and on a busy one.

What is measured is processor time of this process, all its threads, for records of 100 bytes that the embedded broker in
another process gives and takes. It is divided by that of a reference that does something like it in the same process: MD5
of the same bytes, for which no processor has instructions, or a loop in Python. Both are measured in turn, many times,
and the least of each counts. A bound is three times what a quiet machine showed.
"""

import hashlib
import subprocess
import sys
import time
from functools import partial
from itertools import islice

import pyarrow as pa
import pytest

import ottla

pytestmark = pytest.mark.alone

SIZE = 100
READ, WRITTEN = 400_000, 100_000
STRETCHES = 15
CHUNK = 10_000
VALUES = [(b"%d " % (i * 2_654_435_761) * SIZE)[:SIZE] for i in range(CHUNK)]
PATIENCE = 20


@pytest.fixture(scope="module")
def broker():
    """The address of an embedded broker in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "broker", "--port", "0", "--topic", "read"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().split()[4].rstrip(";")
        with ottla.Producer(address) as producer:
            for _ in range(READ // CHUNK):
                producer.send_many("read", VALUES)
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


@pytest.fixture
def written(broker):
    """An empty topic, whose memory the broker has back at the end."""
    with ottla.Admin(broker) as admin:
        admin.create_topics("written")
        yield "written"
        admin.delete_topics("written")


def processor_time(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def ratio(work, reference) -> float:
    """How many times as much processor time the work takes, by the least of both."""
    work()
    pairs = [(processor_time(work), processor_time(reference)) for _ in range(STRETCHES)]
    return min(w for w, _ in pairs) / min(r for _, r in pairs)


def md5(records: int):
    """MD5 of the values of so many records."""
    data = b"".join(VALUES)
    for _ in range(records // CHUNK):
        hashlib.md5(data).digest()


def loop(records: int):
    """A look at the values of so many records."""
    for _ in range(records // CHUNK):
        sum(len(value) for value in VALUES)


def test_columns(broker):
    with ottla.Consumer(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([("read", 0)])

        def read():
            consumer.seek_to_beginning()
            count = 0
            while count < READ:
                count += consumer.poll(PATIENCE).to_arrow().num_rows
            assert count == READ

        assert ratio(read, partial(md5, READ)) < 1.5


def test_records(broker):
    with ottla.Consumer(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([("read", 0)])

        def read():
            consumer.seek_to_beginning()
            assert sum(len(record.value) for record in islice(consumer, READ)) == READ * SIZE

        assert ratio(read, partial(loop, READ)) < 26


@pytest.mark.parametrize("way", ["send_arrow", "send_many"])
def test_many_at_once(broker, written, way):
    values = VALUES if way == "send_many" else pa.table({"value": pa.array(VALUES, pa.binary())})
    with ottla.Producer(broker) as producer:
        send = getattr(producer, way)

        def write():
            deliveries = [send(written, values) for _ in range(WRITTEN // CHUNK)]
            producer.flush(PATIENCE)
            assert not any(d.exception(0) for d in deliveries)

        assert ratio(write, partial(md5, WRITTEN)) < 3


def test_send(broker, written):
    with ottla.Producer(broker) as producer:

        def write():
            for _ in range(WRITTEN // CHUNK):
                deliveries = [producer.send(written, value) for value in VALUES]
            producer.flush(PATIENCE)
            assert not any(d.exception(0) for d in deliveries)

        assert ratio(write, partial(loop, WRITTEN)) < 120
