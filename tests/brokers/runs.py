"""What the processes of one test run share: a folder, and a keeper that ends the run's clusters however the run ends.

A run is one `pytest` with its workers. The process that hands the tests out makes the folder, whose name the others find in the
environment. The first cluster starts the keeper, a process of its own, which waits for the end of that first process: where it is
killed, nobody else is left to end the brokers.

    python -m tests.brokers.runs FOLDER
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.brokers.brokers import Cluster, command_line

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "OTTLA_TEST_RUN"
# Of workers whose run was killed: so long they may take to end by themselves.
WORKERS_END = 60.0


def begin() -> None:
    """Begin a run, unless this process belongs to one."""
    if VARIABLE not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="ottla-run-"))
        (folder / "owner").write_text(str(os.getpid()))
        (folder / "clusters").mkdir()
        os.environ[VARIABLE] = str(folder)


def end() -> None:
    """End the run and the clusters that it has left; for the process that began it, and in others nothing."""
    if (run := folder()) and _owner(run) == os.getpid():
        _sweep(run)
        shutil.rmtree(run, ignore_errors=True)
        del os.environ[VARIABLE]


def folder() -> Path | None:
    """The run's folder; None outside of a run, as in the programs of this folder."""
    found = os.environ.get(VARIABLE)
    return Path(found) if found else None


@contextlib.contextmanager
def locked(run: Path, name: str) -> Iterator[None]:
    """One process of the run at a time."""
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def keep(cluster: Path) -> None:
    """Have a cluster of this folder ended with the run at the latest. Call it before the cluster starts."""
    if (run := folder()) is None:
        return
    descriptor, _ = tempfile.mkstemp(dir=run / "clusters", prefix=f"{os.getpid()}-")
    with os.fdopen(descriptor, "w") as noted:
        noted.write(str(cluster))
    with locked(run, "keeper"):
        if not (run / "keeper").exists():
            (run / "keeper").touch()
            subprocess.Popen(
                [sys.executable, "-m", "tests.brokers.runs", str(run)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ).returncode = 0  # nobody waits for it: it outlives this process


def _owner(run: Path) -> int:
    return int((run / "owner").read_text())


def _sweep(run: Path) -> bool:
    """End all clusters that are noted; whether processes are left that may start more."""
    left = False
    for noted in (run / "clusters").iterdir():
        with contextlib.suppress(OSError, SystemExit):  # its own process may be ending it at this moment
            Cluster(noted.read_text()).stop(grace=0, purge=True)
        left |= command_line(int(noted.name.partition("-")[0])) is not None
    return left


def main(run: Path) -> None:
    owner = _owner(run)
    while command_line(owner) is not None:
        time.sleep(0.5)
    until = time.monotonic() + WORKERS_END
    while run.exists() and _sweep(run) and time.monotonic() < until:
        time.sleep(0.5)
    shutil.rmtree(run, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
