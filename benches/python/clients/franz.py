"""franz-go, a client in Go: `benches/franz` uses it, and this starts that."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance import Program, measure

if TYPE_CHECKING:
    from measurement import Job, Stopwatch

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "benches" / "franz"
PROGRAM = ROOT / "target" / "franz-bench"


def build() -> None:
    """Build it, before anything is measured; without Go there is none."""
    if shutil.which("go"):
        subprocess.run(["go", "build", "-o", str(PROGRAM), "."], cwd=SOURCE, check=True)


def version() -> str:
    """The client's."""
    found = re.search(r"franz-go v(\S+)", (SOURCE / "go.mod").read_text())
    return found[1] if found else "unknown"


def rebalance(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Members in a goroutine each, one of which comes and goes."""
    if not PROGRAM.exists():
        raise RuntimeError("go is needed to build benches/franz, and was not found")
    properties = [f"{name}={value}" for name, value in job.properties.items()]
    return measure(Program([str(PROGRAM), job.bootstrap, job.topic, job.group, *properties]), job, watch)
