"""Programs of other libraries print the same on their own client and, by `python -m ottla.compat`, on ottla."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import ottla
from ottla.testing import Registry
from tests.libraries.environments import ROOT, python_of

# Environments of large packages, and minutes: programs of the gate show the drop-ins each time.
pytestmark = pytest.mark.nightly
PROGRAMS = Path(__file__).parent / "dropin"
# By program, the group of pyproject.toml that has its library.
GROUPS = {
    "faststream_confluent": "services",
    "faststream_kafka": "services",
    "otel_aiokafka": "services",
    "otel_confluent": "services",
    "quix": "quix",
    "serializers": "services",
}
# The topics of a program are TOPIC and these.
OTHERS = {
    "faststream_confluent": ("out", "batches"),
    "faststream_kafka": ("out", "batches"),
    "serializers": ("avro", "json", "protobuf"),
}
# Seconds until a program has ended. Large libraries take a minute to import on a busy machine.
PATIENCE = 240


def run(name: str, servers: str, side: str, **environment: str) -> list[str]:
    topic = f"{name.replace('_', '-')}-{side}"
    created = [ottla.NewTopic(topic, 3), *(ottla.NewTopic(f"{topic}-{other}", 1) for other in OTHERS.get(name, ()))]
    if name != "quix":  # which creates its topics
        with ottla.Admin(servers) as admin:
            admin.create_topics(created)
    seam = ["-m", "ottla.compat"] if side == "ours" else []
    interpreter = python_of(GROUPS.get(name, "airflow-kafka"))
    command = [str(interpreter), *seam, str(PROGRAMS / f"{name}.py"), servers, topic, f"group-{topic}"]
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore", **environment}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=settings)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.replace(topic, "TOPIC").splitlines()


@pytest.mark.timeout(2 * PATIENCE + 600)
@pytest.mark.parametrize("name", sorted(GROUPS))
def test_a_program_prints_the_same_on_ottla(name, address):
    with Registry() as registry:
        theirs = run(name, address, "theirs", SCHEMA_REGISTRY=registry.url)
    assert theirs
    with Registry() as registry:
        assert run(name, address, "ours", SCHEMA_REGISTRY=registry.url) == theirs


@pytest.mark.nightly
@pytest.mark.timeout(2 * PATIENCE + 600)
def test_hooks_operators_and_triggers_of_airflow(address, tmp_path):
    """Airflow alone takes a minute to import on two cores."""
    settings = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    theirs = run("airflow_tasks", address, "theirs", **settings)
    assert "(True, 'Connection successful.')" in theirs
    assert run("airflow_tasks", address, "ours", **settings) == theirs
