"""The limit of producers, by a program in Rust: requests made beforehand, over as many connections as are fastest."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clients.sockets import IN_FLIGHT, batch_of, default_batch_size, produce_request

if TYPE_CHECKING:
    from measurement import Job, Stopwatch

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "target" / "release" / "produce-limit"
CONNECTIONS = (1, 2, 4)
# Seconds in which each number of connections is tried before the measurement.
TRIAL = 0.3


def build() -> None:
    """Build it, before anything is measured."""
    command = ["cargo", "build", "--release", "--quiet", "--locked", "-p", "ottla-benches", "--bin", PROGRAM.name]
    subprocess.run(command, cwd=ROOT, check=True)


def produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Batches made beforehand, as large as ours are by default, five in flight on each connection."""
    per_batch, batch = batch_of(job, job.properties.get("batch_size") or default_batch_size())
    with tempfile.NamedTemporaryFile() as frames:
        for partition in range(job.partitions):
            frames.write(produce_request(job.topic, partition, len(batch), acks=-1) + batch)
        frames.flush()

        def run(connections: int, requests: int, seconds: float) -> dict[str, Any]:
            arguments = [job.bootstrap, frames.name, connections, IN_FLIGHT, requests, seconds]
            done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            return dict(json.loads(done.stdout))

        def rate(connections: int) -> float:
            tried = run(connections, job.records, min(TRIAL, job.budget))
            return float(tried["answered"] / tried["seconds"])

        fastest = max(CONNECTIONS, key=rate)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run(fastest, max(1, job.records // per_batch), job.budget)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    watch.reported(done["seconds"], used, after.ru_maxrss * 1024)
    count = done["answered"] * per_batch
    return count, count * job.size
