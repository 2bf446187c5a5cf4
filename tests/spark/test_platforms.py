"""Spark where it runs: the rows of the table of platforms (docs/spark/platforms.md) that one machine can rebuild.

Each starts a driver of its own. Most of them read a topic as a batch, and copy it as a stream.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time

import pytest
from tests.brokers.running import free_ports
from tests.rings import memory
from tests.rings.needs import pythons
from tests.waiting import check_time

import ottla
from ottla.spark import ensure_java

from .drivers import HOME, JOBS, PATHS, RECORDS, ROOT, SUBMIT, Copies, new_topic, numbers, printed
from .environments import SPARK, TOOLS, environment

pytestmark = [pytest.mark.nightly, pytest.mark.needs("java"), pytest.mark.timeout(950)]

# Records of the topic that has more bytes than a pod has memory.
LARGE, SIZE = 30_000, 100_000
POD_MEMORY = 2 << 30


@pytest.fixture(scope="module")
def source(broker):
    return numbers(broker)


@pytest.fixture
def copies(broker, source, tmp_path):
    return Copies(broker, source, tmp_path)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("python3.12", "python3.13")]
)
def test_a_driver_and_workers_of_another_python(copies, name):
    python = environment(name, *SPARK, base=pythons()[name])
    version, *_ = copies.run(python, JOBS / "places.py", PYSPARK_PYTHON=str(python))
    assert version.startswith(f"{name.removeprefix('python')}.")


def pod(*also):
    """A shell that runs a command where packages are read-only, nothing has shared memory, and files are few."""
    packages = [str(ROOT / "python"), str(HOME.parent)]
    steps = [f"mount --bind {each} {each}\nmount -o remount,ro,bind {each}" for each in packages]
    steps += ["mount -t tmpfs -o ro none /dev/shm", "ulimit -n 1024", *also]
    steps += [f"if touch {each}/written 2>/dev/null; then exit 3; fi" for each in [*packages, "/dev/shm"]]
    return ["unshare", "--mount", "sh", "-e", "-c", "\n".join([*steps, 'exec "$@"']), "sh"]


@pytest.mark.needs("mounts")
def test_a_pod(copies, tmp_path):
    """Read-only packages, no shared memory, 64 descriptors and 1 GiB for each Python; Spark's daemon forks the workers."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -n 64\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    variables = {"PYSPARK_SUBMIT_ARGS": "--conf spark.executor.pyspark.memory=1g pyspark-shell", "HOME": "/nonexistent"}
    command = [*pod(), sys.executable, JOBS / "places.py"]
    _, _, files, space = copies.run(*command, PYSPARK_PYTHON=str(python), **variables)
    assert (files, space) == ("64", str(2**30))


@pytest.mark.needs("mounts", "memory-limits")
def test_a_pod_reads_more_than_its_memory(broker, tmp_path):
    """The JVM and the Pythons have 2 GiB together, as a pod of Kubernetes has it, and read 3 GB."""
    large = new_topic(broker, 2)
    # They shrink to a tenth, as text does.
    values = [random.Random(number).randbytes(SIZE // 10) * 10 for number in range(500)]
    with ottla.Producer(broker.bootstrap_servers, compression_type="lz4") as producer:
        for number in range(0, LARGE, len(values)):
            producer.send_many(large, values, partitions=number // len(values) % 2).result(60)
    with memory.group(POD_MEMORY) as group:
        command = [*pod(f"echo $$ >{group}/cgroup.procs"), sys.executable, JOBS / "sizes.py"]
        variables = {"PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable}
        variables["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 768m pyspark-shell"
        out = printed(*command, broker.bootstrap_servers, large, cwd=tmp_path, **variables)
        assert out.split() == [str(LARGE), str(LARGE * SIZE)]
        assert memory.kills(group) == 0
        print(f"at most {memory.peak(group) / 2**20:.0f} MiB of {POD_MEMORY / 2**20:.0f}")


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


def test_connect_without_java(copies, tmp_path):
    """A client that has no JVM and no jar. The server and its workers have ottla."""
    client = environment("client", "pyspark-client==4.2.0", "pandas<3")
    [package] = client.parents[1].glob("lib/*/site-packages/pyspark")
    assert not (package / "jars").exists()
    with connect_server(tmp_path) as address:
        version, *_ = copies.run(client, JOBS / "places.py", master=address, JAVA_HOME="/nowhere")
    assert version == sys.version.split()[0]


@pytest.fixture
def tools():
    """Variables of programs in that environment, and Spark's home in it."""
    python = environment("tools", *TOOLS)
    [home] = python.parents[1].glob("lib/*/site-packages/pyspark")
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "SPARK_HOME": str(home), "PYTHONPATH": PATHS, "PYSPARK_PYTHON": str(python)}, home


def test_a_pipeline(broker, source, tools, tmp_path):
    """A declarative pipeline with a stream of a topic, and a sink."""
    variables, home = tools
    target = new_topic(broker, 1)
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: copy\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: steps/**\n"
    )
    (tmp_path / "steps").mkdir()
    names = {"localhost:9092": broker.bootstrap_servers, "SOURCE": source, "TARGET": target}
    text = (JOBS / "pipeline.py").read_text()
    for placeholder, name in names.items():
        text = text.replace(f'"{placeholder}"', f'"{name}"')
    (tmp_path / "steps" / "copy.py").write_text(text)
    printed(home / "bin" / "spark-pipelines", "run", cwd=tmp_path, **variables)
    assert sorted(int(record.value) for record in ottla.read(broker.bootstrap_servers, target)) == [
        n * 2 for n in range(RECORDS)
    ]


SESSION = (
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()"
)
COUNT = (
    "options = {'kafka.bootstrap.servers': '%s', 'subscribe': '%s'}\n"
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
def test_a_jupyter_driver(broker, source, tools, tmp_path, import_first):
    """PYSPARK_DRIVER_PYTHON=jupyter: an import makes the format known to a session, or says what does."""
    variables, home = tools
    cells = ["import ottla.spark", COUNT % (broker.bootstrap_servers, source)]
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
