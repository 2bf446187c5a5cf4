"""A new process until it has its first record: the interpreter, the import, the connection and the fetch."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from measurement import Job, Stopwatch

OTTLA = """
import ottla
with ottla.Consumer(BOOTSTRAP, **PROPERTIES) as consumer:
    consumer.assign([ottla.TopicPartition(TOPIC, 0, 0)])
    while not len(consumer.poll(10)):
        pass
"""
CONFLUENT = """
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "bench", **PROPERTIES})
consumer.assign([TopicPartition(TOPIC, 0, 0)])
while (message := consumer.poll(10)) is None or message.error():
    pass
consumer.close()
"""
NOTHING = ""


def ottla(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A program on ottla."""
    return _run(OTTLA, job, watch)


def confluent(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A program on confluent-kafka."""
    return _run(CONFLUENT, job, watch)


def interpreter(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """A program that does nothing."""
    return _run(NOTHING, job, watch)


def _run(program: str, job: Job, watch: Stopwatch) -> tuple[int, int]:
    names = {"BOOTSTRAP": job.bootstrap, "TOPIC": job.topic, "PROPERTIES": job.properties}
    head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    command = [sys.executable, "-c", head + program]
    subprocess.run(command, check=True)  # reads the files of the library into the kernel's cache
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for _ in range(job.records):
        lap = time.perf_counter()
        subprocess.run(command, check=True)
        watch.laps.append(time.perf_counter() - lap)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - begin
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    watch.reported(wall, used, after.ru_maxrss * 1024)
    return job.records, job.records * job.size
