"""Whether Spark finds `format("ottla")` by itself, which runs a Python that may be another one."""

import os
import shutil
import subprocess
import sys

import pytest
from tests.pace import patience

import ottla.spark
from ottla.spark.shared.source_lookup import problem

SYSTEM = "/usr/bin:/bin"
OURS = os.path.dirname(sys.executable)  # noqa: PTH120


@pytest.fixture
def other(tmp_path):
    """A folder with a Python that has no ottla, and a jupyter."""
    for name, text in (("python3", "exit 1"), ("jupyter", f"touch {tmp_path}/started")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_this_python_is_found(tmp_path):
    assert problem({"PATH": f"{OURS}:{SYSTEM}"}) is None
    assert problem({"PATH": SYSTEM, "PYSPARK_PYTHON": sys.executable}) is None
    assert problem({"PATH": SYSTEM, "PYSPARK_PYTHON": "/absent", "PYSPARK_DRIVER_PYTHON": sys.executable}) is None
    shim = tmp_path / "python3"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    assert problem({"PATH": f"{tmp_path}:{SYSTEM}"}) is None, "as pyenv does it"


def test_the_program_that_spark_will_run_is_named(other):
    path = f"{other}:{SYSTEM}"
    todo = (
        f"Call ottla.spark.register(spark) when the session is there, or set PYSPARK_DRIVER_PYTHON to {sys.executable} "
    )
    told = problem({"PATH": path})
    assert "with python3, the first in PATH, which is no Python that has ottla. " + todo in told
    told = problem({"PATH": path, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": "jupyter"})
    assert "with PYSPARK_DRIVER_PYTHON=jupyter, which is no Python that has ottla. " + todo in told
    assert not (other / "started").exists(), "a notebook server would be"
    assert "PYSPARK_PYTHON=/absent, which is not there. " in problem({"PATH": path, "PYSPARK_PYTHON": "/absent"})


def run(script, *more, **environment):
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment}
    return subprocess.run(
        [sys.executable, *more, "-c", script] if not more else [sys.executable, *more],
        capture_output=True,
        text=True,
        env=environment,
        timeout=patience(120),
        check=False,
    )


def test_an_import_says_it_once_and_only_to_drivers(other):
    broken = {"PYSPARK_DRIVER_PYTHON": "jupyter"}
    script = "import ottla.spark, ottla.spark.shared.java"
    assert run(script, **broken).stderr.count('Spark will not find format("ottla") by itself') == 1
    assert run(script, PYSPARK_DRIVER_PYTHON=sys.executable).stderr == ""
    # A worker of Spark's has the driver's environment.
    worker = (
        "import sys, types; sys.modules['__main__'].__spec__ = types.SimpleNamespace(name='pyspark.daemon'); " + script
    )
    assert run(worker, **broken).stderr == ""
    done = run("", "-m", "ottla", "ingest", "--check", "absent.toml", **broken)
    assert "will not find" not in done.stderr


def test_a_python_that_is_on_executors_alone_is_not_started(tmp_path, monkeypatch):
    """`--archives env.tar.gz#env` in client mode: `register` ended with a FileNotFoundError of env/bin/python."""
    monkeypatch.chdir(tmp_path)
    ottla.spark._check_worker_python("env/bin/python")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    there = tmp_path / "env" / "bin" / "python"
    there.write_text("#!/bin/sh\necho no ottla >&2\nexit 1\n")
    there.chmod(0o755)
    with pytest.raises(ImportError, match="Spark's workers run env/bin/python, which cannot import ottla: no ottla"):
        ottla.spark._check_worker_python("env/bin/python")


@pytest.mark.real
def test_an_import_registers_with_the_session_that_is_there(broker):
    script = f"""
from ottla.spark.shared.java import ensure_java
ensure_java()
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
import importlib, ottla.spark
importlib.reload(ottla.spark)
frame = spark.read.format("ottla").option("kafka.bootstrap.servers", "{broker.bootstrap_servers}")
print("columns", frame.option("subscribe", "t").load().columns)
print("files", spark.read.format("ottla-log").option("path", "/absent").load)
"""
    wrong = {"PYSPARK_DRIVER_PYTHON": shutil.which("false"), "PYSPARK_PYTHON": sys.executable}
    more = {name: os.environ[name] for name in ("JAVA_HOME", "SPARK_SUBMIT_OPTS", "HOME") if name in os.environ}
    done = run(script, **wrong, **more, SPARK_LOCAL_IP="127.0.0.1")
    assert "columns ['key', 'value', 'topic'" in done.stdout, done.stderr
    assert "files <bound method" in done.stdout
