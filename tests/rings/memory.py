"""Groups of processes (cgroups) whose memory has a limit."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/sys/fs/cgroup")
# Seconds until the last process of a group has left it.
PATIENCE = 30.0


@contextlib.contextmanager
def group(limit: int) -> Iterator[Path]:
    """A group below the one of this process. A process joins it by writing its id to the file `cgroup.procs`.

    Args:
        limit: Bytes that all its processes have together. The kernel kills one of them that needs more.

    Raises:
        OSError: This user may make no group, or the group has no limit of memory.
    """
    folder, name = _home()
    made = folder / f"ottla-{os.getpid()}"
    made.mkdir()
    try:
        if not (made / name).exists():
            raise OSError(f"{made} has no file {name}: its parent gives its groups no control of memory")
        (made / name).write_text(str(limit))
        yield made
    finally:
        _remove(made)


def kills(made: Path) -> int:
    """How many processes of a group the kernel has killed for want of memory."""
    found = [path for name in ("memory.oom_control", "memory.events") if (path := made / name).exists()]
    counts = dict(line.split() for line in found[0].read_text().splitlines())
    return int(counts["oom_kill"])


def peak(made: Path) -> int:
    """The most bytes that a group had at one time, the pages of files that it read among them."""
    found = [path for name in ("memory.max_usage_in_bytes", "memory.peak") if (path := made / name).exists()]
    return int(found[0].read_text())


def _home() -> tuple[Path, str]:
    """The group of this process, and the name of the file with a limit: of the first version of cgroups, or of the second."""
    groups = [line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for controllers, path in groups:
        if controllers == "memory":
            return ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
    for controllers, path in groups:
        if not controllers:
            return ROOT / path.lstrip("/"), "memory.max"
    raise OSError("this process is in no cgroup that can limit memory")


def _remove(made: Path) -> None:
    """Wait for the end of the group's processes; a group with processes cannot be removed."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            made.rmdir()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return
