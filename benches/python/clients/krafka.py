"""krafka, a client in Rust: `benches/krafka` uses it, and this starts that."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from measurement import Job, Stopwatch

ROOT = Path(__file__).resolve().parents[3]
CRATE = ROOT / "benches" / "krafka"
TARGET = ROOT / "target" / "krafka"


def build() -> None:
    """Build it, before anything is measured."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=CRATE, env=environment, check=True)


def poll(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`poll`, and each record's value."""
    return _run("consume", job, watch)


def enqueue(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`enqueue` of each record, all deliveries awaited at the end."""
    return _run("produce", job, watch)


def _run(what: str, job: Job, watch: Stopwatch) -> tuple[int, int]:
    numbers = [job.partitions, job.records, job.size, job.budget]
    done = subprocess.run(
        [
            TARGET / "release" / "ottla-krafka-bench",
            *(what, job.bootstrap, job.topic),
            *map(str, numbers),
            *(f"{name}={value}" for name, value in job.properties.items()),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures = json.loads(done.stdout)
    watch.reported(figures["seconds"], figures["cpu_seconds"], figures["peak_bytes"])
    return figures["records"], figures["bytes"]
