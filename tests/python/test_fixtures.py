"""The fixtures of pytest: of every scope, and started in less time than a test notices."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.testing import Broker
from tests.python.conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCOPES = ["function", "class", "module", "session"]
# Two folders of two modules, of two classes, of two tests.
MODULE = """
import json
import pytest


class Tests:
    @pytest.mark.parametrize("number", [1, 2])
    def test(self, {fixture}, number):
        broker = {fixture}{start}
        with open({file!r}, "a") as file:
            file.write(json.dumps([hasattr(broker, "met"), broker.bootstrap_servers, broker.nodes]) + "\\n")
        broker.met = True


class TestOne(Tests):
    pass


class TestTwo(Tests):
    pass


del Tests
"""


@pytest.mark.parametrize("fixture", ["ottla_broker", "start_ottla_broker"])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_broker_lasts_as_long_as_its_scope(fixture: str, scope: str, tmp_path: Path) -> None:
    name = fixture if scope == "function" else f"{fixture}_{scope}"
    seen = tmp_path / "seen"
    text = MODULE.format(fixture=name, file=str(seen), start="" if fixture == "ottla_broker" else "(nodes=2)")
    for name_of_folder in ("one", "two"):
        folder = tmp_path / name_of_folder
        folder.mkdir()
        (folder / "__init__.py").touch()
        for module in ("test_a.py", "test_b.py"):
            (folder / module).write_text(text)
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore:this is a debug build",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            tmp_path,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in seen.read_text().splitlines()]
    assert len(rows) == 16
    of_a_scope = {"function": 1, "class": 2, "module": 4, "session": 16}[scope]
    if fixture == "ottla_broker":
        assert [met for met, _, _ in rows] == [number % of_a_scope > 0 for number in range(16)]
        return
    # Each call starts one, and all stay until the scope ends, so that no two have an address.
    addresses = [address for _, address, _ in rows]
    for begin in range(0, 16, of_a_scope):
        assert len(set(addresses[begin : begin + of_a_scope])) == of_a_scope
    assert {len(nodes) for _, _, nodes in rows} == {2}


def test_a_broker_that_tests_share_keeps_old_records(ottla_broker: Broker) -> None:
    with ottla.Admin(ottla_broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("old", 1)])
        (of_topic,) = admin.describe_configs([("TOPIC", "old")]).values()
    assert {entry.name: entry.value for entry in of_topic}["retention.ms"] == "-1"


def took(work: Callable[[], object]) -> float:
    """The seconds that it takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@pytest.mark.alone
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_broker_starts_and_stops_sooner_than_an_interpreter(nodes: int) -> None:
    """Compared with what this machine does at the same time, since milliseconds are another number on each."""

    def broker() -> None:
        with Broker(nodes=nodes, topics={"flights": 4}):
            pass

    def interpreter() -> None:
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True, timeout=PATIENCE)

    # In turn, so that both have the same times, and the best of them. A machine that is busy may need many; who has become
    # slower never gets there.
    pairs = []
    for _ in range(40):
        pairs.append((took(broker), took(interpreter)))
        if len(pairs) >= 9 and min(ours for ours, _ in pairs) < min(theirs for _, theirs in pairs):
            return
    pytest.fail(f"seconds of a broker and of an interpreter: {pairs}")
