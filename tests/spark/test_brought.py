"""What a job brings to a cluster whose hosts have no ottla: archives and `--py-files`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile

import pytest

from .drivers import JOBS, PATHS, RECORDS, ROOT, SUBMIT, Copies, numbers, printed
from .environments import TOOLS, environment
from .standalone import standalone

pytestmark = [pytest.mark.nightly, pytest.mark.needs("java"), pytest.mark.timeout(950)]


@pytest.fixture(scope="module")
def source(broker):
    return numbers(broker)


@pytest.fixture
def copies(broker, source, tmp_path):
    return Copies(broker, source, tmp_path)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster whose executors run a Python only if the job brings or names one: its address, and its folder."""
    folder = tmp_path_factory.mktemp("cluster")
    # Executors inherit the variables, and must find ottla by nothing else than the job.
    with standalone(folder, PYSPARK_PYTHON="/nowhere/python", PYTHONPATH="") as address:
        yield address, folder


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


def submit(address, *more):
    small = ["--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"]
    return [SUBMIT, "--master", address, *small, "--conf", "spark.ui.enabled=false", *more]


def test_an_archive_brings_the_environment(cluster, copies, packed):
    """`venv-pack` and `--archives` on a standalone cluster of two workers, as clusters.md says."""
    (address, folder), (archive, driver) = cluster, packed
    command = submit(address, "--archives", f"{archive}#env", JOBS / "places.py")
    _, place, *_ = copies.run(*command, master="-", cwd=driver, PYSPARK_PYTHON="env/bin/python", PYTHONPATH="")
    assert "/env/lib/" in place
    assert str(folder / "work") in place


def test_executors_run_the_program_that_the_driver_found_the_source_with(cluster, copies, packed, tmp_path):
    """That of PYSPARK_DRIVER_PYTHON: they need it at the same place, whatever PYSPARK_PYTHON and the archive say."""
    (address, folder), (archive, driver) = cluster, packed
    python, log = tmp_path / "python", tmp_path / "log"
    python.write_text(f'#!/bin/sh\necho "$PWD $*" >>{log}\nexec {driver}/env/bin/python "$@"\n')
    python.chmod(0o755)
    command = submit(address, "--archives", f"{archive}#env", JOBS / "places.py")
    variables = {"PYSPARK_PYTHON": "env/bin/python", "PYSPARK_DRIVER_PYTHON": str(python), "PYTHONPATH": ""}
    _, place, *_ = copies.run(*command, master="-", cwd=driver, **variables)
    assert str(folder / "work") in place, "a function of the job runs in PYSPARK_PYTHON"
    started = log.read_text().splitlines()
    assert [line for line in started if line.startswith(f"{folder}/work") and "pyspark.daemon" in line], started


def test_py_files_cannot_bring_ottla(broker, source, tmp_path):
    python = environment("tools", *TOOLS)
    shutil.make_archive(str(tmp_path / "packages"), "zip", ROOT / "python")
    command = submit("local[2]", "--py-files", tmp_path / "packages.zip", JOBS / "py_files.py")
    variables = {"PYTHONPATH": "", "PYSPARK_PYTHON": str(python)}
    out = printed(*command, broker.bootstrap_servers, source, cwd=tmp_path, **variables)
    said = json.loads(out.strip().splitlines()[-1])
    assert said["import"].startswith("ottla is in the archive ")
    assert "bring a packed environment by --archives, not a zip by --py-files" in said["import"]
    # Spark looks for data sources where the driver's Python has its packages.
    assert "DATA_SOURCE_NOT_FOUND" in said["read"]


def test_py_files_bring_modules_of_the_job(cluster, broker, source, tmp_path):
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
    variables = {"PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable}
    out = printed(*command, broker.bootstrap_servers, source, cwd=tmp_path, **variables)
    assert json.loads(out.strip().splitlines()[-1]) == {"sum": 2 * sum(range(RECORDS))}
