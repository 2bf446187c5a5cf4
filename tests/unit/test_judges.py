"""What makes a run of a judge red."""

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.judges import __main__ as command
from tests.judges import side_by_side, suite, trees
from tests.judges.examples import EXAMPLES, NOT_RUN, Example
from tests.judges.side_by_side import printed
from tests.judges.suite import HERE, Verdict, allowlist, problems, run
from tests.judges.suites import SUITES, Suite


def test_a_failure_that_is_not_listed_is_red_and_so_is_a_listed_test_that_passes():
    allowed = allowlist("# a comment\na::one  # why\na::two  # why\na::gone  # why\n")
    outcomes = {"a::one": "failed", "a::two": "passed", "a::three": "failed", "a::four": "skipped", "a::five": "passed"}
    assert problems(outcomes, allowed) == [
        "failed: a::three",
        "passes, take it off the list: a::two",
        "does not exist, take it off the list: a::gone",
    ]


def test_every_suite_has_a_list_with_reasons():
    for name in SUITES:
        assert all(reason for reason in allowlist((HERE / f"{name}.txt").read_text()).values())


NAME = "opentelemetry-confluent"


def test_a_run_that_did_not_reach_all_tests_is_red(tmp_path, monkeypatch):
    (tmp_path / "test_one.py").touch()
    monkeypatch.setitem(SUITES, NAME, Suite("pytest==9", "", ("test_*.py",), "outcomes"))
    monkeypatch.setattr(suite, "outcomes_of", lambda *_: (0, {"test_one.py::test": "passed"}))
    row = f"| `{NAME}` | pytest 9 | {tmp_path.name} | 1 | 1 | 0 | 0 | 0 |"
    assert run(NAME, tmp_path) == Verdict(row, [])
    monkeypatch.setattr(suite, "outcomes_of", lambda *_: (2, {"test_one.py::test": "passed"}))
    assert run(NAME, tmp_path) == Verdict(row, [f"{NAME}: pytest ended with status 2: some tests did not run"])


def test_the_command_prints_one_table_and_names_the_suites_whose_tests_are_not_here(tmp_path, monkeypatch, capsys):
    """The allowlist counts in the table, too."""
    monkeypatch.setattr("sys.argv", ["judges", "all", "--trees", str(tmp_path)])
    (tmp_path / "aiokafka").mkdir()
    runs = []

    def judged(name, tree=None):
        runs.append((name, tree))
        return Verdict(f"| `{name}` | 1 | here | 1 | 1 | 0 | 0 | 0 |", [])

    monkeypatch.setattr(command, "run", judged)
    assert command.main() == 1
    printed_lines = capsys.readouterr().out.splitlines()
    here = [name for name, each in SUITES.items() if not each.repository or each.repository == "aiokafka"]
    assert sorted(runs) == sorted((name, tmp_path / "aiokafka" if SUITES[name].repository else None) for name in here)
    table = printed_lines[printed_lines.index(suite.HEADER.splitlines()[0]) :]
    assert "| `bytewax` | not here | bytewax | none | | | | 0 |" in table
    assert any(line.startswith("bytewax: no source distribution has its tests") for line in table)
    monkeypatch.setattr("sys.argv", ["judges", NAME])
    assert command.main() == 0


def test_tests_come_from_the_source_distribution_which_is_checked_and_kept(tmp_path, monkeypatch):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        entry = tarfile.TarInfo("thing-1.0/tests/test_one.py")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"x = 1"))
    data = content.getvalue()
    (tmp_path / "thing-1.0.tar.gz").write_bytes(data)
    locked = (
        '[[packages]]\nname = "thing"\nversion = "1.0"\n'
        f'sdist = {{ url = "{(tmp_path / "thing-1.0.tar.gz").as_uri()}", hashes = {{ sha256 = "HASH" }} }}\n'
    )
    monkeypatch.setattr(trees, "CACHE", tmp_path / "kept")
    monkeypatch.setattr(trees, "with_index", dict)
    digest = "0" * 64
    calls = []

    def lock(*arguments, **_):
        calls.append(arguments)
        return subprocess.CompletedProcess(arguments, 0, locked.replace("HASH", digest))

    monkeypatch.setattr(trees.subprocess, "run", lock)
    with pytest.raises(ValueError, match="hash"):
        trees.source_distribution("thing", "1.0")
    digest = hashlib.sha256(data).hexdigest()
    for _ in range(2):
        folder = trees.source_distribution("thing", "1.0")
        assert (folder / "tests" / "test_one.py").read_text() == "x = 1"
    assert len(calls) == 2
    assert trees.source(folder) == "thing-1.0"


def test_examples_have_ids_of_their_own_and_differences_have_reasons():
    assert len({example.id for example in EXAMPLES}) == len(EXAMPLES)
    assert not {example.name for example in EXAMPLES} & NOT_RUN.keys()
    assert allowlist((HERE / f"{side_by_side.NAME}.txt").read_text()).keys() <= {example.id for example in EXAMPLES}


def test_an_example_gets_what_it_asks_for_and_then_ctrl_c(tmp_path):
    text = (
        "import sys\n"
        "print('at', sys.argv[1])\n"
        "try:\n    while True: print('hello', input('name: '))\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "print('to log', file=sys.stderr)\n"
    )
    (tmp_path / "asks.py").write_text(text)
    example = Example("asks", "{broker}", ("Ann", "Bob"), ("name: ", 3))
    found = printed(example, "theirs", tmp_path, {"broker": "127.0.0.1:40123"}, Path(sys.executable))
    expected = ["at ADDRESS", "name: hello Ann", "name: hello Bob", "name: interrupted", "to log", "status 0, in time"]
    assert found == expected
    kept = Example("asks", "{broker}", ("Ann",), kept="^name: hello")
    assert printed(kept, "theirs", tmp_path, {"broker": "x"}, Path(sys.executable)) == [
        "name: hello Ann",
        "status 1, in time",
    ]
