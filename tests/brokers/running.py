"""Real brokers that end with a block, on ports apart from those of other test runs on the machine."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from tests.brokers import limits, runs, tokens
from tests.brokers.brokers import OPTIONS, Cluster, NotUp, java_program, quick
from tests.brokers.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Tests write records of any age; Kafka deletes what is older than seven days when it looks, every five minutes. In hours, as
# releases before 0.11 know no retention without an end.
KEPT = {"log.retention.hours": "876000"}
# The same for the embedded broker.
EMBEDDED_KEPT = {"log.retention.ms": 876_000 * 3_600_000}
# Seconds in which a start has to succeed. Beside compilers a broker had a twentieth of a core, and was not up within 90.
START = 180.0


class StartError(Exception):
    """A cluster did not come up, twice. pytest keeps an `Exception` of a fixture for the tests that follow, but no SystemExit."""


@contextlib.contextmanager
def running(folder: Path, *, grace: float = 0, purge: bool = True, **options: Any) -> Iterator[Cluster]:
    """A cluster with these options of the harness, which keeps old records; `grace` and `purge` say how it ends."""
    with tokens.held(tokens.NODE * options.get("nodes", 1)), free_ports() as port:
        cluster = start(folder, port, **options)
        try:
            yield cluster
        finally:
            cluster.stop(grace=grace, purge=purge)


def start(folder: Path, port: int, **options: Any) -> Cluster:
    """Start a cluster with these options of the harness, which keeps old records; the run ends it at the latest."""
    release, java = options.get("version", OPTIONS["version"]), options.get("java") or java_program()
    options["config"] = KEPT | options.get("config", {})
    options.setdefault("timeout", START)
    options["jvm"] = [*quick(release, java), *options.get("jvm", ())]
    # The start has a deadline of its own, and no test is about its length.
    with limits.suspended():
        runs.keep(folder)
        try:
            return Cluster.start(folder, port=port, **options)
        except NotUp as why:
            # That a broker does not come up on a busy machine is not what tests are about; the second time it is.
            print(f"{folder}: started once more: {why}", file=sys.stderr)
        runs.keep(folder / "again")
        try:
            return Cluster.start(folder / "again", port=port, **options)
        except NotUp as why:
            raise StartError(str(why)) from why
