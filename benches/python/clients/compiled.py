"""The limit of producers, by a program in Rust: requests made beforehand, over the fastest number of connections."""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker import warm

import ottla
from clients.sockets import batch_of, default_batch_size, produce_request

if TYPE_CHECKING:
    from measurement import Job, Stopwatch

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "target" / "release" / "produce-limit"
CONNECTIONS, IN_FLIGHT = (1, 2, 4), (1, 2, 5)
TRIAL = 100
"""Requests by which each of these is tried before the measurement: few, since the disk is busy with them in it."""


def build() -> None:
    """Build it, before anything is measured."""
    command = ["cargo", "build", "--release", "--quiet", "--locked", "-p", "ottla-benches", "--bin", PROGRAM.name]
    subprocess.run(command, cwd=ROOT, check=True)


def produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Batches made beforehand, as large as ours are by default."""
    per_batch, batch = batch_of(job, job.properties.get("batch_size") or default_batch_size())
    trial = f"{job.topic}-trial"
    with ottla.Admin(job.bootstrap) as admin:
        admin.create_topics([ottla.NewTopic(trial, partitions=job.partitions)])
    warm(job.bootstrap, trial, job.partitions)  # the program never asks again where a partition is not led yet
    with tempfile.TemporaryDirectory() as folder:

        def run(topic: str, way: tuple[int, int], requests: int) -> dict[str, Any]:
            connections, in_flight = way
            frames = Path(folder) / topic
            if not frames.exists():
                heads = (produce_request(topic, partition, len(batch), acks=-1) for partition in range(job.partitions))
                frames.write_bytes(b"".join(head + batch for head in heads))
            arguments = [job.bootstrap, frames, connections, in_flight, requests, job.budget]
            done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            return dict(json.loads(done.stdout))

        def rate(way: tuple[int, int]) -> float:
            tried = run(trial, way, min(TRIAL, job.records))
            return float(tried["answered"] / tried["seconds"])

        ways = list(itertools.product(CONNECTIONS, IN_FLIGHT))
        # The broker's first requests for a topic take longer.
        rate(ways[0])
        fastest = max(ways, key=rate)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run(job.topic, fastest, max(1, job.records // per_batch))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    watch.reported(done["seconds"], used, after.ru_maxrss * 1024)
    count = done["answered"] * per_batch
    return count, count * job.size
