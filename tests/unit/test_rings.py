"""The rings: what is retried, what never is, what is kept of it, and that no marker hides tests."""

import datetime as dt
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import errors
from tests.brokers.running import StartError
from tests.rings import closing, real, results, selection, verdict
from tests.rings.ledger import LEDGER, Ledger, Retry
from tests.waiting import NotInTimeError

PLANTED = Path(real.__file__).parent / "planted"
TODAY = dt.date(2026, 3, 20)
EMPTY = "# Retries\n\nRuns recorded: 7\n\n| run | date | test | reason | cause |\n|---|---|---|---|---|\n"


@pytest.fixture
def ledger(tmp_path):
    file = tmp_path / "FLAKES.md"
    file.write_text(EMPTY)
    return file


@pytest.mark.parametrize(
    ("planted", "why"),
    [
        ("lost_record", "a wrong result is never retried"),
        ("panic", "a panic is never retried"),
        ("hang", "a hang of our own call is never retried"),
    ],
)
def test_what_is_planted_is_red_at_the_first_try(planted, why, tmp_path, ledger):
    (line,) = real.run([str(PLANTED / f"{planted}.py")], tmp_path / "out", ledger)
    assert line.endswith(why)
    assert not (tmp_path / "out" / "retry-1.json").exists()
    assert results.read(tmp_path / "out" / "ring.json").failed == 1
    assert ledger.read_text() == EMPTY


def test_a_foreign_program_that_was_not_ready_is_retried_and_written_down(tmp_path, ledger, monkeypatch):
    tries = tmp_path / "tries"
    tries.write_text("")
    monkeypatch.setenv("OTTLA_TRIES", str(tries))
    assert real.run([str(PLANTED / "slow_broker.py")], tmp_path / "out", ledger) == []
    assert tries.read_text() == "xx"
    found = results.read(tmp_path / "out" / "ring.json")
    assert (found.passed, found.failed) == (1, 0)
    (retry,) = Ledger(ledger).retries
    assert (retry.run, retry.cause) == (8, "unknown")
    assert retry.test.endswith("slow_broker.py::test_passes_the_second_time")


def test_more_than_eight_failures_are_red():
    failures = [{"test": f"t{n}", "when": "call", "reason": "", "never": None} for n in range(9)]
    assert real.never_again(results.Results(failures=failures)) == ["9 tests failed; at most 8 run again"]
    assert real.never_again(results.Results(failures=failures[:8])) == []


def raised(kind, *args):
    try:
        raise kind(*args)
    except BaseException as failure:
        return failure


TEST = (Path("tests/integration/test_x.py"), "consumer.poll(1)")
SLEEP = (Path("tests/integration/test_x.py"), "time.sleep(1)")
OURS = (Path(verdict.PACKAGE) / "_consumer.py", "return self._inner.poll()")
SPARK = (Path(verdict.PACKAGE) / "spark" / "reader.py", "wait()")
ASYNCIO = (Path("/usr/lib/python3.11/asyncio/base_events.py"), "self._run_once()")
WAIT = (Path("/usr/lib/python3.11/threading.py"), "waiter.acquire()")
PLUGIN = (Path("/venv/site-packages/pytest_timeout.py"), "timeout_sigalrm()")
FOREIGN = (Path("/venv/lib/site-packages/py4j/clientserver.py"), "recv()")


@pytest.mark.parametrize(
    ("frames", "hangs"),
    [
        ([TEST, OURS, PLUGIN], True),
        ([TEST, PLUGIN], True),
        ([TEST, ASYNCIO, PLUGIN], True),
        ([SLEEP, PLUGIN], False),
        ([TEST, WAIT, PLUGIN], False),
        ([TEST, SPARK, PLUGIN], False),
        ([TEST, OURS, FOREIGN, PLUGIN], False),
    ],
)
def test_a_hang_is_ours_if_our_call_is_the_innermost(frames, hangs):
    assert verdict.waits_in_our_call(frames) is hangs


@pytest.mark.parametrize(
    ("failure", "text", "never"),
    [
        (AssertionError("9 == 10"), "", "a wrong result"),
        (TypeError("x"), "", "a wrong result"),
        (NotInTimeError("not within 40 s"), "", None),
        (StartError("node1 is not up"), "", None),
        (SystemExit("no 100 free ports"), "", None),
        (ConnectionResetError(), "", None),
        (errors.KafkaTimeoutError("no response within 1 s"), "", None),
        (errors.BrokerError("UNKNOWN_SERVER_ERROR"), "", None),
        (errors.CorruptRecordError("checksum"), "", "damaged or lost records"),
        (errors.OffsetOutOfRangeError("offset 7"), "", "damaged or lost records"),
        (subprocess.TimeoutExpired(["java"], 1), "", None),
        (subprocess.TimeoutExpired([sys.executable, "x.py"], 1), "", "a hang of our own call"),
        (subprocess.CalledProcessError(1, [sys.executable]), "", "a wrong result"),
        (subprocess.CalledProcessError(-11, ["java"]), "", "signal 11"),
        (NotInTimeError("late"), "thread 'x' panicked at a.rs:1", "a panic"),
        (NotInTimeError("late"), "Fatal Python error: Segmentation fault", "a signal"),
    ],
)
def test_what_is_never_retried(failure, text, never):
    assert verdict.never_retried(failure, text, []) == never


def test_the_same_test_within_twenty_runs_and_an_old_entry_are_red(ledger):
    old = dt.date(2026, 3, 1)
    for run, date, test in [(1, TODAY, "a"), (20, TODAY, "a"), (1, TODAY, "b"), (21, TODAY, "b"), (5, old, "c")]:
        with ledger.open("a") as file:
            file.write(Retry(run, date, test, "late | busy\nmore").row() + "\n")
    said = Ledger(ledger).violations(TODAY)
    assert len(said) == 2
    assert said[0].startswith("a: retried in runs 1 and 20;")
    assert said[1].startswith("c: retried 19 days ago")


def test_runs_without_retries_are_counted(ledger):
    Ledger(ledger).record({}, TODAY)
    Ledger(ledger).record({"a": "late"}, TODAY)
    assert Ledger(ledger).retries == [Retry(9, TODAY, "a", "late")]


def test_the_ledger_of_the_project_can_be_read():
    assert Ledger(LEDGER).runs >= 0


def test_the_closing_line_counts_tests_and_lanes_that_failed(tmp_path, capsys, monkeypatch):
    results.write(tmp_path / "python.json", results.Results(passed=5, failed=1, skipped=2))
    (tmp_path / "rust.log").write_text("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n")
    (tmp_path / "summary").write_text(
        "python       FAILED in 1 s\nrust         FAILED in 2 s\nlint         passed in 3 s\n"
    )
    files = [str(tmp_path / name) for name in ("python.json", "rust.log", "summary", "missing.json")]
    monkeypatch.setattr(sys, "argv", ["closing", *files])
    closing.main()
    assert capsys.readouterr().out == "8 passed, 2 failed, 3 skipped\n"


def test_hidden_tests_are_an_error():
    stored = selection.COLLECTED["gate"]
    assert selection.hidden("gate", stored) is None
    assert selection.hidden("gate", int(stored * 0.98)) is not None


def test_a_frame_whose_source_is_not_python_has_no_statement():
    """As uvloop's, which is Cython: a failure with such a frame ended the whole run."""

    class Entry:
        @property
        def statement(self):
            compile("cimport cython", "source", "exec")

    assert results.statement(Entry()) == ""
