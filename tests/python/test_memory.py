"""A producer whose broker stops answering holds `buffer.memory` and little more, however much is offered to it; a consumer
`prefetch.max.bytes`, and many of a process `prefetch.total.max.bytes`, however much waits for them in however many partitions, and
whether or not anybody polls.

`OTTLA_OFFERED=10e9 pytest tests/python/test_memory.py` offers ten gigabytes by each way of sending, and
`OTTLA_WAITING=100e6` has a hundred megabytes wait in each of 200 partitions: on the disk, twenty gigabytes. With `OTTLA_KAFKA=4.4.0`
they wait on real Kafka of that release.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import ottla
from ottla.testing import Broker
from tests.brokers.running import running

pytestmark = pytest.mark.alone

BUFFER = 48_000_000
OFFERED = float(os.environ.get("OTTLA_OFFERED", 8 * BUFFER))
RECORD, AT_ONCE = 1000, 1000

# Says how many bytes it was offered, by how much the process grew, and how the last call that was refused ended.
CHILD = f"""
import json, os, sys, time
import pyarrow as pa
import ottla

def kilobytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name + ":"))

address, way, topic = sys.argv[1:]
values = [bytes([row % 256]) * {RECORD} for row in range({AT_ONCE})]
chunk = pa.record_batch({{"value": values}})
offered = 0

def send_many(producer):
    producer.send_many(topic, values)

def send(producer):
    for value in values:
        producer.send(topic, value)

def send_arrow(producer):
    producer.send_arrow(topic, pa.RecordBatchReader.from_batches(chunk.schema, iter([chunk])))

way = {{"send": send, "send_many": send_many, "send_arrow": send_arrow}}[way]
options = {{"buffer_memory": {BUFFER}, "max_block_ms": 5, "request_timeout_ms": 600_000, "delivery_timeout_ms": 700_000}}
producer = ottla.Producer(address, **options)
while True:
    # The first sends pay for the connection, and max.block.ms is short.
    try:
        producer.send(topic, b"warm").result(20)
        break
    except ottla.KafkaError:
        time.sleep(0.01)
print("ready", flush=True)
sys.stdin.readline()
# From here on the highest mark is that of what follows.
with open("/proc/self/clear_refs", "w") as marks:
    marks.write("5")
before = kilobytes("VmRSS")
refused = None
while offered < {OFFERED}:
    offered += {RECORD} * {AT_ONCE}
    try:
        way(producer)
    except ottla.errors.KafkaTimeoutError as error:
        refused = error
print(json.dumps({{
    "offered": offered,
    "grown": 1024 * (kilobytes("VmHWM") - before),
    "refused": str(refused),
    "room": producer.metrics().value("buffer-available-bytes"),
}}), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says how large a process is")
@pytest.mark.timeout(1800 if OFFERED > 1e9 else 60)
@pytest.mark.parametrize("way", ["send", "send_many", "send_arrow"])
def test_what_is_offered_to_a_silent_broker_is_not_held(way):
    with Broker(topics=["t"]) as broker:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, broker.bootstrap_servers, way, "t"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert child.stdout.readline() == "ready\n", child.stderr.read()
            broker.hang("Produce", count=1_000_000)
            out, err = child.communicate("go\n", timeout=1700 if OFFERED > 1e9 else 50)
        finally:
            child.kill()
            child.wait(10)
    assert child.returncode == 0, err
    found = json.loads(out)
    print(found)
    assert found["offered"] >= OFFERED
    assert "buffer.memory is full" in found["refused"]
    assert found["grown"] < 1.2 * BUFFER
    assert found["grown"] > 0.5 * BUFFER, "what was taken is measured"
    assert found["room"] < 0.1 * BUFFER


PREFETCH = 64_000_000
PARTITIONS, CONSUMERS = 200, 5
VALUE = b"0123456789" * 1000
# Records of one partition; all are six times as much as may be fetched ahead.
WAITING = int(float(os.environ.get("OTTLA_WAITING", 192 * len(VALUE)))) // len(VALUE)
READING = 900 if WAITING > 1000 else 100
KAFKA = os.environ.get("OTTLA_KAFKA")

# Says how many records it was given, and by how much the process grew.
READER = f"""
import json, os, sys, time
import ottla, pyarrow

def kilobytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name + ":"))

address, way = sys.argv[1:]
options = {{"auto_offset_reset": "earliest", "prefetch_max_bytes": {PREFETCH}, "prefetch_total_max_bytes": {PREFETCH}}}
consumers = [ottla.Consumer(address, **options) for _ in range({CONSUMERS} if way == "many consumers" else 1)]
consumer = consumers[0]
for each in consumers:
    each.assign([ottla.TopicPartition("t", partition) for partition in range({PARTITIONS})])
    each.beginning_offsets([ottla.TopicPartition("t", 0)])
with open("/proc/self/clear_refs", "w") as marks:
    marks.write("5")
before = kilobytes("VmRSS")
given = 0
if way in ("no polls", "many consumers"):
    # The first one begins the fetching. It takes little: what is given is not held ahead, but is measured all the same.
    given = sum(len(each.poll(20, max_records=1)) for each in consumers)
    last = 0
    while kilobytes("VmRSS") > last:
        last = kilobytes("VmRSS")
        time.sleep(2)
elif way == "records":
    for record in consumer:
        given += 1
        if given == {PARTITIONS * WAITING}:
            break
else:
    while given < {PARTITIONS * WAITING}:
        batch = consumer.poll(20)
        given += len(batch)
        if way != "batches":
            batch.to_arrow(view=way == "views")
print(json.dumps({{"given": given, "grown": 1024 * (kilobytes("VmHWM") - before)}}), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def full_of_records():
    """A broker whose partitions all have much to be read."""
    with tempfile.TemporaryDirectory() as folder, kept_in(folder) as bootstrap:
        with ottla.Producer(bootstrap, batch_size=1_000_000, linger_ms=10) as producer:
            for partition in range(PARTITIONS):
                producer.send_many("t", [VALUE] * WAITING, partitions=[partition] * WAITING)
            producer.flush(60)
        yield bootstrap


@contextlib.contextmanager
def kept_in(folder):
    """The address of a broker with such a topic."""
    if not KAFKA:
        with Broker(topics={"t": PARTITIONS}, data_dir=folder) as broker:
            yield broker.bootstrap_servers
        return
    with running(Path(folder) / "kafka", version=KAFKA) as cluster:
        bootstrap = cluster.st["bootstrap"]["PLAINTEXT"]
        with ottla.Admin(bootstrap) as admin:
            admin.create_topics([ottla.NewTopic("t", PARTITIONS, 1)])
        yield bootstrap


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says how large a process is")
@pytest.mark.timeout(2 * READING)
@pytest.mark.parametrize("way", ["no polls", "many consumers", "batches", "columns", "views", "records"])
def test_what_waits_in_many_partitions_is_not_held(full_of_records, way):
    found = subprocess.run(
        [sys.executable, "-c", READER, full_of_records, way],
        capture_output=True,
        text=True,
        timeout=READING,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    found = json.loads(found.stdout)
    print(found)
    assert found["grown"] < 1.2 * PREFETCH
    if way not in ("no polls", "many consumers"):
        assert found["given"] == PARTITIONS * WAITING
    else:
        assert found["given"] > 0
        # A half of the bytes is for what waits, which is all there is between polls.
        assert found["grown"] > 0.3 * PREFETCH, "what was fetched is measured"
