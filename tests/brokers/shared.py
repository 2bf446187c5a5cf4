"""One cluster of one node for each release, which all processes of a run share.

Tests that use it make topics, groups and transactional ids of names that nobody else has. What changes the whole cluster, stops
its node, or looks at all of its topics or groups has a cluster of its own.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from tests.brokers import limits, runs
from tests.brokers.brokers import Cluster
from tests.brokers.ports import free_ports
from tests.brokers.running import StartError, running, start

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD = {"auto.create.topics.enable": "false"}


@contextlib.contextmanager
def shared(folder: Path, version: str) -> Iterator[Cluster]:
    """The run's cluster of a release, which ends with the run; outside of a run one in `folder`, which ends with the block.

    It takes no token, as it may be kept idle: a test that uses it takes one.
    """
    run = runs.folder()
    if run is None:
        with running(folder, version=version, config=STANDARD) as cluster:
            yield cluster
        return
    with limits.suspended(), runs.locked(run, f"kafka-{version}"):
        place = run / f"kafka-{version}.folder"
        if not place.exists():
            with free_ports() as port:
                place.write_text(str(start(run / f"kafka-{version}", port, version=version, config=STANDARD).dir))
        cluster = Cluster(Path(place.read_text()))
    for name in cluster.st["processes"]:
        if not cluster.alive(name):
            raise StartError(f"{name} of the shared cluster of {version} has ended; its log:\n{cluster.log(name)}")
    yield cluster
