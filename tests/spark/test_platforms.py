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

from .environments import environment, interpreters

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


@pytest.mark.parametrize("minor", [12, 13])
def test_a_driver_and_workers_of_another_python(copied, minor):
    if minor not in interpreters():
        pytest.skip(f"there is no Python 3.{minor} on this machine")
    python = environment(f"python3.{minor}", f"pyspark=={pyspark.__version__}", "pyarrow", "pandas<3", minor=minor)
    version, *_ = copied(python, JOBS / "places.py", PYSPARK_PYTHON=str(python))
    assert version.startswith(f"3.{minor}.")


def test_a_pod(copied, tmp_path):
    """Read-only packages, no shared memory, 64 descriptors and bounded memory; workers are forked by Spark's daemon."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -n 64\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    packages = [str(ROOT / "python"), str(Path(pyspark.__file__).parents[1])]
    mounts = "".join(f"mount --bind {each} {each} && mount -o remount,ro,bind {each} && " for each in packages)
    inside = f'{mounts} mount -t tmpfs -o ro none /dev/shm && ! touch {packages[0]}/x 2>/dev/null && exec "$@"'
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    conf = "--conf spark.executor.pyspark.memory=2g pyspark-shell"
    command = ["unshare", "--mount", "sh", "-c", inside, "sh", sys.executable, JOBS / "places.py"]
    _, _, files, space = copied(*command, PYSPARK_PYTHON=str(python), PYSPARK_SUBMIT_ARGS=conf)
    assert (files, space) == ("64", str(2**30))


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


def test_connect_without_java(copied, tmp_path):
    """A client that has no JVM and no jar. The server and its workers have ottla."""
    client = environment("client", "pyspark-client==4.2.0", "setuptools<81")
    with free_ports() as port, (tmp_path / "server.log").open("w") as log:
        conf = ["--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"]
        conf += ["--conf", "spark.connect.grpc.binding.address=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"]
        server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]", *conf]
        environ = {**os.environ, "PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        process = subprocess.Popen([SUBMIT, *server, "spark-internal"], env=environ, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 200
            while "Spark Connect server started at" not in (text := (tmp_path / "server.log").read_text()):
                check_time(deadline, text[-3000:])
                time.sleep(0.2)
            version, *_ = copied(client, JOBS / "places.py", master=f"sc://127.0.0.1:{port}", JAVA_HOME="/nowhere")
        finally:
            process.terminate()
            process.wait(60)
    assert version.startswith("3.11.")


def test_a_pipeline(broker, tmp_path):
    """A declarative pipeline with a stream of a topic, and a sink."""
    python = environment("pipelines", f"pyspark[connect,pipelines]=={pyspark.__version__}", "setuptools<81")
    with ottla.Admin(broker) as admin:
        admin.create_topics([ottla.NewTopic("pipeline", partitions=1)])
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: copy\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: steps/**\n"
    )
    (tmp_path / "steps").mkdir()
    text = (JOBS / "pipeline.py").read_text().replace("localhost:9092", broker)
    (tmp_path / "steps" / "copy.py").write_text(text)
    [home] = python.parents[1].glob("lib/*/site-packages/pyspark")
    done = subprocess.run(
        [home / "bin" / "spark-pipelines", "run"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "SPARK_HOME": str(home),
            "PYTHONPATH": PATHS,
            "PYSPARK_PYTHON": str(python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert sorted(int(r.value) for r in ottla.read(broker, "pipeline")) == [n * 2 for n in range(RECORDS)]


def test_a_jupyter_driver(broker, tmp_path):
    """A kernel whose environment names jupyter as the driver's Python: `import ottla.spark` makes the format found."""
    python = environment("jupyter", f"pyspark=={pyspark.__version__}", "pyarrow", "pandas<3", "ipykernel", "nbclient")
    done = subprocess.run(
        [python, JOBS / "notebook.py", broker, "source"],
        env={
            **os.environ,
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": PATHS,
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": "jupyter",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.split()[-1] == str(RECORDS)
