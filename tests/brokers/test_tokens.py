"""Tokens: never more than there are at a time, no two processes that wait for each other, and an error that names the holder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.brokers import tokens

ROOT = Path(__file__).parents[2]
# Holds each need within the one before, for a while, and prints from when to when it held how many.
HOLDER = """
import contextlib, json, sys, time
from tests.brokers import tokens
with contextlib.ExitStack() as stack:
    for number in sys.argv[2:]:
        stack.enter_context(tokens.held(int(number)))
        begin = time.time()
        time.sleep(float(sys.argv[1]))
        print(json.dumps([begin, time.time(), len(tokens._held)]), flush=True)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of this test's own."""
    monkeypatch.setenv("OTTLA_TEST_RUN", str(tmp_path))
    monkeypatch.setattr(tokens, "_needs", [])
    monkeypatch.setattr(tokens, "_held", [])
    return tmp_path


def holder(seconds: float, *needs: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(seconds), *map(str, needs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def periods(process: subprocess.Popen[str]) -> list[tuple[float, float, int]]:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return [tuple(json.loads(line)) for line in out.splitlines()]


def test_needs_that_grow_in_several_processes_are_met_and_never_exceed_the_tokens(run: Path) -> None:
    """Each holds one or two, and then wants what only the others could give back."""
    needs = [(1, 2), (1, 3), (2, 2), (1, 9)]
    found = [periods(process) for process in [holder(0.3, *each) for each in needs]]
    assert [[held for _, _, held in each] for each in found] == [[1, 3], [1, 4], [2, 4], [1, 5]]
    every = [period for each in found for period in each]
    for begin, _, _ in every:
        assert sum(held for start, end, held in every if start <= begin < end) <= tokens.TOKENS


def test_tokens_of_a_process_that_is_killed_are_free(run: Path) -> None:
    process = holder(60, 3)
    while not (run / "token-2").exists():
        time.sleep(0.05)
    process.kill()
    process.communicate()
    with tokens.held(tokens.TOKENS):
        assert len(tokens._held) == tokens.TOKENS
    assert tokens._held == []


def test_the_error_of_a_wait_that_ends_names_the_holder(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "PATIENCE", 0.3)
    process = holder(60, 3)
    try:
        while not ((run / "token-2").exists() and (run / "token-2").read_text()):
            time.sleep(0.05)
        with (
            tokens.held(1),
            pytest.raises(
                TimeoutError, match=f"no 3 of {tokens.TOKENS} tokens within 0.3 s.* of process {process.pid}"
            ),
            tokens.held(2),
        ):
            pass
    finally:
        process.kill()
        process.communicate()
    with tokens.held(tokens.TOKENS):
        pass
