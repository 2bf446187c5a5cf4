"""What Spark imports in every session, whether or not it reads Kafka: it is cheap, and it never raises."""

import subprocess
import sys
import zipfile

import pytest

import ottla


def printed(program):
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize("package", ["pyspark_ottla", "pyspark_ottla_log"])
def test_a_session_imports_nothing_that_only_reads_need(package):
    heavy = ["pandas", "pyarrow", "asyncio", "ottla.spark.read.client_pool", "ottla.spark.read.schema"]
    program = f"import pyspark.sql, sys; before = set(sys.modules); import {package}"
    assert printed(f"{program}; print(set({heavy!r}) & set(sys.modules) - before)") == ["set()"]


@pytest.mark.parametrize(
    ("package", "module", "name"),
    [("pyspark_ottla", "source", "ottla"), ("pyspark_ottla_log", "log.source", "ottla-log")],
)
def test_what_cannot_be_imported_is_told_when_it_is_used(package, module, name):
    program = f"""
import sys
sys.modules["ottla.spark.{module}"] = None
from {package} import DefaultSource
print(DefaultSource.name())
try:
    DefaultSource({{}}).schema()
except ImportError as error:
    print(error)
"""
    named, told = printed(program)
    assert named == name
    assert told.startswith("ottla is installed and cannot be imported by Spark's Python: ModuleNotFoundError(")
    assert f"ottla.spark.{module}" in told


def test_a_zip_says_what_to_use(tmp_path):
    """`--py-files` puts archives on the path, from which Python loads no compiled module."""
    path = tmp_path / "ottla.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(ottla.__file__, "ottla/__init__.py")
    ended = subprocess.run(
        [sys.executable, "-S", "-c", "import ottla"],
        env={"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stderr.splitlines()[-1] == (
        f"ImportError: ottla is in the archive {path}, from which Python loads no compiled module: install it with pip. "
        "On Spark, bring a packed environment by --archives, not a zip by --py-files"
    )
