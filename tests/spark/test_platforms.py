"""Spark where it runs: the rows of the table of platforms (docs/spark/platforms.md) that one machine can rebuild.

Each starts a driver of its own, which reads a topic as a batch and copies it as a stream.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from tests.brokers.running import free_ports
from tests.waiting import check_time

import ottla
from ottla.spark import ensure_java
from ottla.testing import Broker

from .environments import environment

pytestmark = [pytest.mark.nightly, pytest.mark.needs("java"), pytest.mark.timeout(950)]

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
RECORDS = 1000
# Seconds of a driver. Many of them are for a machine that does other things, too.
LIMIT = 800
PATHS = f"{ROOT / 'python'}{os.pathsep}{ROOT}"


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"source": 2}) as running:
        with ottla.Producer(running.bootstrap_servers) as producer:
            values = [b"%d" % number for number in range(RECORDS)]
            producer.send_many("source", values, partitions=[n % 2 for n in range(RECORDS)]).result(60)
        yield running.bootstrap_servers


@pytest.fixture
def copied(broker, tmp_path, request):
    """Run a driver by a command, to which its arguments are added; what it printed of its workers."""
    target = f"target-{request.node.name}".replace("[", "-").replace("]", "")
    with ottla.Admin(broker) as admin:
        admin.create_topics([ottla.NewTopic(target, partitions=2)])

    def copied(*command, master="local[2]", cwd=tmp_path, **variables):
        ensure_java()
        variables = {"PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable, **variables}
        arguments = (master, broker, "source", target, tmp_path / "checkpoint")
        done = subprocess.run(
            [*map(str, command), *map(str, arguments)],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **variables},
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        found = json.loads(done.stdout.strip().splitlines()[-1])
        assert (found["batch"], found["ended"]) == (sum(range(RECORDS)), True)
        values = sorted(int(record.value) for record in ottla.read(broker, target))
        assert values == list(range(RECORDS))
        return found["worker"]

    return copied


@contextlib.contextmanager
def standalone(folder, python):
    """A cluster of a master and two workers with a core each, whose executors run this Python unless a job brings one."""
    ensure_java()
    home = Path(pyspark.__file__).parent
    variables = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with contextlib.ExitStack() as running:
        port = running.enter_context(free_ports())
        address = f"spark://127.0.0.1:{port}"

        def start(name, *arguments):
            log = running.enter_context((folder / f"{name}.log").open("w"))
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
            environment = {**os.environ, **variables, "PYSPARK_PYTHON": str(python)}
            # Executors inherit it, and must find ottla by nothing else than the job.
            environment.pop("PYTHONPATH", None)
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            running.callback(process.wait, 30)
            running.callback(process.terminate)

        start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        for number in (1, 2):
            where = ["--work-dir", str(folder / f"work{number}"), "--host", "127.0.0.1", "--webui-port", "0"]
            start(f"worker{number}", "worker.Worker", *where, "--cores", "1", "--memory", "600m", address)
        deadline = time.monotonic() + 200
        while (folder / "master.log").read_text().count("Registering worker") < 2:
            check_time(deadline, (folder / "master.log").read_text())
            time.sleep(0.2)
        yield address


def test_an_archive_brings_the_environment(copied, tmp_path):
    """`venv-pack` and `--archives` on a standalone cluster of two workers, as clusters.md says.

    Spark's executors run Python data sources with the program that the driver found them with, so that one relative path
    has to lead to the environment on both sides.
    """
    packed = environment("packed", "pyarrow", "pandas<3", "venv-pack", "setuptools<81")
    [site] = packed.parents[1].glob("lib/*/site-packages")
    for package in ("ottla", "pyspark_ottla", "pyspark_ottla_log"):
        shutil.copytree(ROOT / "python" / package, site / package, dirs_exist_ok=True)
    archive, driver = tmp_path / "env.tar.gz", tmp_path / "driver"
    pack = [packed.parent / "venv-pack", "-q", "-p", packed.parents[1], "-o", archive, "--compress-level", "1"]
    subprocess.run(pack, check=True, timeout=300)
    (driver / "env").mkdir(parents=True)
    shutil.unpack_archive(archive, driver / "env", filter="fully_trusted")
    with standalone(tmp_path, "/nowhere/python") as address:
        conf = ["--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"]
        command = [SUBMIT, "--master", address, *conf, "--archives", f"{archive}#env", JOBS / "places.py"]
        _, place, *_ = copied(*command, master="-", cwd=driver, PYSPARK_PYTHON="env/bin/python", PYTHONPATH="")
    assert "/env/lib/" in place
    assert str(tmp_path / "work") in place
