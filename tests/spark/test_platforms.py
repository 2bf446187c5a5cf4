"""Spark where it runs: the rows of the table of platforms (docs/spark/platforms.md) that one machine can rebuild.

Each starts a driver of its own. Most of them read a topic as a batch, and copy it as a stream.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyspark
import pytest
from tests.brokers.running import free_ports
from tests.rings import memory
from tests.rings.needs import pythons
from tests.waiting import check_time

import ottla
from ottla.spark import ensure_java
from ottla.testing import Broker

from .environments import SPARK, environment
from .standalone import standalone

pytestmark = [pytest.mark.nightly, pytest.mark.needs("java"), pytest.mark.timeout(950)]

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
HOME = Path(pyspark.__file__).parent
SUBMIT = HOME / "bin" / "spark-submit"
RECORDS = 1000
# Seconds of a driver, which takes one of them on a machine that does nothing else.
LIMIT = 400
PATHS = f"{ROOT / 'python'}{os.pathsep}{ROOT}"
# What notebooks, pipelines and jobs without ottla need, in one environment, as PySpark has 450 MB.
TOOLS = (f"pyspark[connect,pipelines]=={pyspark.__version__}", "pandas<3", "ipykernel", "jupyter-core", "nbclient")
# Records of the topic that has more bytes than a pod has memory.
LARGE, SIZE = 30_000, 100_000
POD_MEMORY = 2 << 30


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"source": 2}) as running:
        with ottla.Producer(running.bootstrap_servers) as producer:
            values = [b"%d" % number for number in range(RECORDS)]
            producer.send_many("source", values, partitions=[n % 2 for n in range(RECORDS)]).result(60)
        yield running.bootstrap_servers


def printed(*command, cwd, **variables):
    """What a command prints, whose processes end with it."""
    ensure_java()
    process = subprocess.Popen(
        list(map(str, command)),
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **variables},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # To be killed with all that it has started.
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LIMIT)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, f"{out[-3000:]}\n{err[-6000:]}"
    return out


@pytest.fixture
def copied(broker, tmp_path, request):
    """Run `jobs/places.py` by a command, to which its arguments are added; what it printed of its workers."""
    target = f"target-{request.node.name}".replace("[", "-").replace("]", "")
    with ottla.Admin(broker) as admin:
        admin.create_topics([ottla.NewTopic(target, partitions=2)])

    def copied(*command, master="local[2]", cwd=tmp_path, **variables):
        variables = {"PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable, **variables}
        out = printed(*command, master, broker, "source", target, tmp_path / "checkpoint", cwd=cwd, **variables)
        found = json.loads(out.strip().splitlines()[-1])
        assert (found["batch"], found["ended"]) == (sum(range(RECORDS)), True)
        values = sorted(int(record.value) for record in ottla.read(broker, target))
        assert values == list(range(RECORDS))
        return found["worker"]

    return copied


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("python3.12", "python3.13")]
)
def test_a_driver_and_workers_of_another_python(copied, name):
    python = environment(name, *SPARK, base=pythons()[name])
    version, *_ = copied(python, JOBS / "places.py", PYSPARK_PYTHON=str(python))
    assert version.startswith(f"{name.removeprefix('python')}.")


def pod(*also):
    """A shell that runs a command where packages are read-only, nothing has shared memory, and files are few."""
    packages = [str(ROOT / "python"), str(HOME.parent)]
    steps = [f"mount --bind {each} {each} && mount -o remount,ro,bind {each}" for each in packages]
    steps += ["mount -t tmpfs -o ro none /dev/shm", "ulimit -n 1024", *also]
    steps += [f"if touch {each}/written 2>/dev/null; then exit 3; fi" for each in [*packages, "/dev/shm"]]
    return ["unshare", "--mount", "sh", "-e", "-c", "\n".join([*steps, 'exec "$@"']), "sh"]


@pytest.mark.needs("mounts")
def test_a_pod(copied, tmp_path):
    """Read-only packages, no shared memory, 64 descriptors and 1 GiB for each Python; Spark's daemon forks the workers."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -n 64\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    variables = {"PYSPARK_SUBMIT_ARGS": "--conf spark.executor.pyspark.memory=1g pyspark-shell", "HOME": "/nonexistent"}
    command = [*pod(), sys.executable, JOBS / "places.py"]
    _, _, files, space = copied(*command, PYSPARK_PYTHON=str(python), **variables)
    assert (files, space) == ("64", str(2**30))


@pytest.mark.needs("mounts", "memory-limits")
def test_a_pod_reads_more_than_its_memory(broker, tmp_path):
    """The JVM and the Pythons have 2 GiB together, as a pod of Kubernetes has it, and read 3 GB."""
    with ottla.Admin(broker) as admin:
        admin.create_topics([ottla.NewTopic("large", partitions=2)])
    with ottla.Producer(broker, compression_type="zstd") as producer:
        for number in range(0, LARGE, 500):
            producer.send_many("large", [bytes(SIZE)] * 500, partitions=number // 500 % 2).result(60)
    with memory.group(POD_MEMORY) as group:
        command = [*pod(f"echo $$ >{group}/cgroup.procs"), sys.executable, JOBS / "sizes.py", broker, "large"]
        variables = {"PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable}
        variables["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 768m pyspark-shell"
        out = printed(*command, cwd=tmp_path, **variables)
        assert out.split() == [str(LARGE), str(LARGE * SIZE)]
        assert memory.kills(group) == 0
        print(f"at most {memory.peak(group) / 2**20:.0f} MiB of {POD_MEMORY / 2**20:.0f}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster whose executors run a Python only if the job brings or names one: its address, and its folder."""
    folder = tmp_path_factory.mktemp("cluster")
    # Executors inherit the variables, and must find ottla by nothing else than the job.
    with standalone(folder, PYSPARK_PYTHON="/nowhere/python", PYTHONPATH="") as address:
        yield address, folder


def submit(address, *more):
    return [
        SUBMIT,
        "--master",
        address,
        "--conf",
        "spark.executor.memory=512m",
        "--conf",
        "spark.executor.cores=1",
        *more,
    ]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """An environment with ottla as `venv-pack` packs it, and a folder for drivers in which it is unpacked."""
    python = environment("packed", "pyarrow", "pandas<3", "venv-pack", "setuptools<81")
    [site] = python.parents[1].glob("lib/*/site-packages")
    for package in ("ottla", "pyspark_ottla", "pyspark_ottla_log"):
        shutil.copytree(ROOT / "python" / package, site / package, dirs_exist_ok=True)
    folder = tmp_path_factory.mktemp("packed")
    archive, driver = folder / "env.tar.gz", folder / "driver"
    pack = [python.parent / "venv-pack", "-q", "-p", python.parents[1], "-o", archive, "--compress-level", "1"]
    subprocess.run(pack, check=True, timeout=300)
    (driver / "env").mkdir(parents=True)
    shutil.unpack_archive(archive, driver / "env", filter="fully_trusted")
    return archive, driver


def test_an_archive_brings_the_environment(cluster, copied, packed):
    """`venv-pack` and `--archives` on a standalone cluster of two workers, as clusters.md says."""
    (address, folder), (archive, driver) = cluster, packed
    command = submit(address, "--archives", f"{archive}#env", JOBS / "places.py")
    _, place, *_ = copied(*command, master="-", cwd=driver, PYSPARK_PYTHON="env/bin/python", PYTHONPATH="")
    assert "/env/lib/" in place
    assert str(folder / "work") in place


def test_executors_run_the_program_that_the_driver_found_the_source_with(cluster, copied, packed, tmp_path):
    """A PYSPARK_DRIVER_PYTHON: they need it at the same place, whatever PYSPARK_PYTHON and the archive say."""
    (address, folder), (archive, driver) = cluster, packed
    python, log = tmp_path / "python", tmp_path / "log"
    python.write_text(f'#!/bin/sh\necho "$PWD $*" >>{log}\nexec {driver}/env/bin/python "$@"\n')
    python.chmod(0o755)
    command = submit(address, "--archives", f"{archive}#env", JOBS / "places.py")
    variables = {"PYSPARK_PYTHON": "env/bin/python", "PYSPARK_DRIVER_PYTHON": str(python), "PYTHONPATH": ""}
    _, place, *_ = copied(*command, master="-", cwd=driver, **variables)
    assert str(folder / "work") in place, "a function of the job runs in PYSPARK_PYTHON"
    started = log.read_text().splitlines()
    assert [line for line in started if line.startswith(f"{folder}/work") and "pyspark.daemon" in line], started


def test_py_files_cannot_bring_ottla(broker, tmp_path):
    python = environment("tools", *TOOLS)
    shutil.make_archive(str(tmp_path / "packages"), "zip", ROOT / "python")
    command = [SUBMIT, "--master", "local[2]", "--py-files", tmp_path / "packages.zip", JOBS / "py_files.py"]
    out = printed(*command, broker, "source", cwd=tmp_path, PYTHONPATH="", PYSPARK_PYTHON=str(python))
    said = json.loads(out.strip().splitlines()[-1])
    assert said["import"].startswith("ottla is in the archive ")
    assert "bring a packed environment by --archives, not a zip by --py-files" in said["import"]
    assert "bring a packed environment by --archives, not a zip by --py-files" in said["read"]


def test_py_files_bring_modules_of_the_job(cluster, broker, tmp_path):
    address, _ = cluster
    module = (
        "import pyarrow as pa\n"
        "import pyarrow.compute as pc\n"
        "def double(batch):\n"
        "    return pa.RecordBatch.from_arrays([pc.multiply(batch.column(0), 2)], ['value'])\n"
    )
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
        archive.writestr("doubling.py", module)
    command = submit(address, "--py-files", tmp_path / "modules.zip", JOBS / "py_files.py")
    out = printed(*command, broker, "source", cwd=tmp_path, PYTHONPATH=PATHS, PYSPARK_PYTHON=sys.executable)
    assert json.loads(out.strip().splitlines()[-1]) == {"sum": 2 * sum(range(RECORDS))}


@contextlib.contextmanager
def connect_server(folder):
    """A server of Spark Connect, whose workers run this Python: its address."""
    ensure_java()
    with free_ports() as port, (folder / "server.log").open("w") as log:
        conf = {"spark.connect.grpc.binding.port": port, "spark.connect.grpc.binding.address": "127.0.0.1"}
        conf |= {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
        server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"]
        server += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        variables = {"PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        process = subprocess.Popen(
            [SUBMIT, *server, "spark-internal"], env={**os.environ, **variables}, stdout=log, stderr=log
        )
        try:
            deadline = time.monotonic() + 200
            while "Spark Connect server started at" not in (text := (folder / "server.log").read_text()):
                assert process.poll() is None, text[-3000:]
                check_time(deadline, text[-3000:])
                time.sleep(0.2)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def test_connect_without_java(copied, tmp_path):
    """A client that has no JVM and no jar. The server and its workers have ottla."""
    client = environment("client", "pyspark-client==4.2.0", "pandas<3")
    [package] = client.parents[1].glob("lib/*/site-packages/pyspark")
    assert not (package / "jars").exists()
    with connect_server(tmp_path) as address:
        version, *_ = copied(client, JOBS / "places.py", master=address, JAVA_HOME="/nowhere")
    assert version == sys.version.split()[0]


@pytest.fixture
def tools():
    """Variables of programs in that environment, and Spark's home in it."""
    python = environment("tools", *TOOLS)
    [home] = python.parents[1].glob("lib/*/site-packages/pyspark")
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "SPARK_HOME": str(home), "PYTHONPATH": PATHS, "PYSPARK_PYTHON": str(python)}, home


def test_a_pipeline(broker, tools, tmp_path):
    """A declarative pipeline with a stream of a topic, and a sink."""
    variables, home = tools
    with ottla.Admin(broker) as admin:
        admin.create_topics([ottla.NewTopic("pipeline", partitions=1)])
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: copy\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: steps/**\n"
    )
    (tmp_path / "steps").mkdir()
    text = (JOBS / "pipeline.py").read_text().replace("localhost:9092", broker)
    (tmp_path / "steps" / "copy.py").write_text(text)
    printed(home / "bin" / "spark-pipelines", "run", cwd=tmp_path, **variables)
    assert sorted(int(record.value) for record in ottla.read(broker, "pipeline")) == [n * 2 for n in range(RECORDS)]


SESSION = (
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()"
)
COUNT = (
    "options = {'kafka.bootstrap.servers': '%s', 'subscribe': 'source'}\n"
    "spark.read.format('ottla').options(**options).load().count()"
)


def shown(outputs, kind):
    """The text of a cell's outputs of a kind."""
    texts = [
        out["data"]["text/plain"] if kind == "execute_result" else out["text"]
        for out in outputs
        if out["output_type"] == kind
    ]
    return "".join("".join(text) for text in texts)


@pytest.mark.parametrize("import_first", [False, True])
def test_a_jupyter_driver(broker, tools, tmp_path, import_first):
    """PYSPARK_DRIVER_PYTHON=jupyter: an import makes the format known to a session, or says what does."""
    variables, home = tools
    cells = ["import ottla.spark", COUNT % broker]
    if import_first:
        cells[1:1] = [SESSION, "ottla.spark.register(spark)"]
    made = [
        {"cell_type": "code", "metadata": {}, "source": text, "outputs": [], "execution_count": None} for text in cells
    ]
    book = tmp_path / "book.ipynb"
    book.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": made}))
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    variables |= {name: str(tmp_path / name.lower()) for name in folders} | {"PYSPARK_DRIVER_PYTHON": "jupyter"}
    run = f"execute --inplace --kernel_name=python3 {book}"
    if import_first:
        printed("jupyter", *run.split(), cwd=tmp_path, **variables)
    else:
        # The shell makes the session before the first cell.
        command = [home / "bin" / "pyspark", "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
        printed(*command, cwd=tmp_path, **variables, PYSPARK_DRIVER_PYTHON_OPTS=run)
    done = json.loads(book.read_text())["cells"]
    assert ("ottla.spark.register(spark)" in shown(done[0]["outputs"], "stream")) == import_first
    assert shown(done[-1]["outputs"], "execute_result") == str(RECORDS)
