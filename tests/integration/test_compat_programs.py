"""Programs for confluent-kafka and aiokafka print the same on real Kafka by their own client and by ottla."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from tests.integration.conftest import REAL

if TYPE_CHECKING:
    from tests.brokers.brokers import Cluster

pytestmark = [REAL]
PROGRAMS = Path(__file__).parents[1] / "python"
# Seconds until a program has ended: it waits up to 30 for each thing.
PATIENCE = 180
NUMBERS = itertools.count()
# Access control lists need an authorizer, which this cluster does not have.
NAMES = [
    ("confluent_programs", "admin"),
    ("confluent_programs", "configs_and_partitions"),
    ("aiokafka_programs", "admin"),
    ("aiokafka_programs", "configs_and_partitions"),
]


def run(folder: str, name: str, servers: str, side: str) -> list[str]:
    topic = f"compat-{next(NUMBERS)}"
    with ottla.Admin(servers) as admin:
        admin.create_topics(ottla.NewTopic(topic, 3))
    seam = ["-m", "ottla.compat"] if side == "ours" else []
    command = [sys.executable, *seam, str(PROGRAMS / folder / f"{name}.py"), servers, topic, f"group-of-{topic}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.replace(topic, "TOPIC").splitlines()


@pytest.mark.parametrize(("folder", "name"), NAMES, ids=["-".join(each) for each in NAMES])
def test_a_program_prints_the_same_on_ottla(folder: str, name: str, cluster: Cluster) -> None:
    servers = str(cluster.st["bootstrap"]["PLAINTEXT"])
    theirs = run(folder, name, servers, "theirs")
    assert theirs
    assert run(folder, name, servers, "ours") == theirs
