"""A standalone cluster of two worker processes, where a failed task is repeated, and whose Python may lack ottla."""

import os
import socket
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

import pyspark
import pytest

import ottla
from ottla.testing import Broker

from .once import Driver
from .standalone import standalone
from .test_read import sentence

pytestmark = [pytest.mark.needs("java"), pytest.mark.timeout(380)]

JOB = Path(__file__).parent / "jobs" / "cluster.py"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python that has all that ours has, except ottla."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, symlinks=True)
    (ours,) = {Path(module.__file__).parents[1] for module in (pyspark, pytest)}
    (site,) = folder.glob("lib/*/site-packages")
    for entry in ours.iterdir():
        # Where ottla is installed to be edited, a file of paths leads to it.
        if "ottla" not in entry.name and entry.suffix != ".pth" and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def master(tmp_path_factory, python):
    """The address of a cluster of two workers with a core each, whose executors are told of the Python that lacks ottla."""
    variables = {"PYSPARK_PYTHON": sys.executable, "OTTLA_PYTHON": str(python)}
    with standalone(tmp_path_factory.mktemp("cluster"), **variables) as address:
        yield address


def counted(broker, topic):
    """How often each value is in a topic."""
    with ottla.Consumer(broker.bootstrap_servers, topics=[topic], auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets([ottla.TopicPartition(topic, p) for p in consumer.partitions_for(topic)])
        values = []
        while len(values) < sum(ends.values()):
            values += [int(record.value) for record in consumer.poll(timeout=10)]
    return Counter(values)


def test_a_repeated_task_loses_nothing(master):
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with Broker(topics={"batch": 3}) as broker:
        command = [sys.executable, str(JOB), master, broker.bootstrap_servers]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert ran.stdout.splitlines()[-1] == "2", "executors"
        batch = counted(broker, "batch")
        assert set(batch) == set(range(2000))
        # What the failed attempt sent is there twice; its task alone was repeated.
        assert set(batch.values()) == {1, 2}
        assert {value for value, times in batch.items() if times == 2} <= set(range(450))


def test_an_executor_without_ottla_says_where_to_install_it(master, python, tmp_path):
    # One path that leads to another Python on the hosts of executors, where nothing of the driver's is to be found; the
    # driver, which plans, has ottla.
    path = tmp_path / "python"
    path.write_text(
        f'#!/bin/sh\n[ -z "$OTTLA_PYTHON" ] && exec {sys.executable} "$@"\nunset PYTHONPATH\nexec "$OTTLA_PYTHON" "$@"\n'
    )
    path.chmod(0o755)
    with Broker(topics={"t": 1}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"1").result(30)
        driver = Driver(master, tmp_path / "faults", "spark.executor.memory=512m", PYSPARK_PYTHON=str(path))
        try:
            driver.ask({"bootstrap": broker.bootstrap_servers, "source": "t", "kafka": {}, "select": ["count(*)"]})
            error = driver.answer()["error"]
        finally:
            driver.kill()
    assert error is not None
    told = sentence(error)
    assert told.startswith(f"ImportError: the Python of this executor ({python} on {socket.gethostname()}) "), told
    assert "cannot import ottla: No module named 'ottla'" in told
    assert "Install ottla there as it is on the driver, or set PYSPARK_PYTHON to a Python on each host" in told
