"""Real brokers that end with a block, on ports apart from those of other test runs on the machine."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from tests.brokers.brokers import QUICK, Cluster, NotUp, listens

if TYPE_CHECKING:
    from collections.abc import Iterator

# Tests write records of any age; Kafka deletes what is older than seven days when it looks, every five minutes. In hours, as
# releases before 0.11 know no retention without an end.
KEPT = {"log.retention.hours": "876000"}


@contextlib.contextmanager
def running(folder: Path, *, grace: float = 0, purge: bool = True, **options: Any) -> Iterator[Cluster]:
    """A cluster with these options of the harness, which keeps old records; `grace` and `purge` say how it ends."""
    options["config"] = KEPT | options.get("config", {})
    options["jvm"] = [*QUICK, *options.get("jvm", ())]
    with free_ports() as port:
        try:
            cluster = Cluster.start(folder, port=port, **options)
        except NotUp as why:
            # That a broker does not come up on a busy machine is not what tests are about; the second time it is.
            print(f"{folder}: started once more: {why}", file=sys.stderr)
            cluster = Cluster.start(folder / "again", port=port, **options)
        try:
            yield cluster
        finally:
            cluster.stop(grace=grace, purge=purge)


@contextlib.contextmanager
def free_ports() -> Iterator[int]:
    """The first of 100 ports that nobody listens on, as the harness takes them; kept from other runs meanwhile."""
    locks = Path(tempfile.gettempdir()) / "ottla-test-ports"
    locks.mkdir(exist_ok=True)
    for base in range(23000, 30000, 100):
        with contextlib.ExitStack() as kept:
            try:
                kept.enter_context(FileLock(locks / str(base), blocking=False))
            except Timeout:
                continue
            if any(listens(base + i) for i in range(100)):
                continue
            yield base
            return
    raise SystemExit("no 100 free ports between 23000 and 30000")
