"""Run the real-world ring: `python -m tests.rings.real [arguments for pytest]`.

Kafka's own brokers, foreign clients, Spark and the JVM have a pace of their own, so here, and only here, a failed test may run again:
alone, at most twice, at most eight tests. `verdict.py` says which failures are never retried, `ledger.py` what becomes of retries.
"""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import sys
from pathlib import Path

from tests.rings import results
from tests.rings.ledger import LEDGER, Ledger
from tests.rings.results import Results

ROOT = Path(__file__).parents[2]
OUT = ROOT / "target" / "rings" / "real"
RETRIES = 2
MOST_RETRIED = 8
FAILED = 1  # the exit code of pytest whose tests failed; any other one is an error of the run itself
WORKERS = 4
# Files share brokers and sessions, so that a file stays in one process.
SHARED_OUT = ["--numprocesses", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder"]


def pytest(file: Path, *arguments: str) -> tuple[int, Results]:
    """Run pytest; its exit code and its results, which are kept in the file."""
    command = [sys.executable, "-m", "pytest", "--ring", "real", "--results", str(file), *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False)
    return done.returncode, results.read(file)


def never_again(found: Results) -> list[str]:
    """Why these failures are red at once."""
    never = [
        f"{failure['test']}: {failure['never']} is never retried" for failure in found.failures if failure["never"]
    ]
    if never:
        return never
    if (count := len({failure["test"] for failure in found.failures})) > MOST_RETRIED:
        return [f"{count} tests failed; at most {MOST_RETRIED} run again"]
    return []


def run(arguments: list[str], out: Path = OUT, ledger: Path = LEDGER) -> list[str]:
    """Run the ring and what may run again. Returns why the ring is red, nothing if it is green."""
    shutil.rmtree(out, ignore_errors=True)
    code, found = pytest(out / "first.json", *arguments)
    total, retried = Results(found.passed, found.failed, found.skipped), {}
    for retry in range(1, RETRIES + 1):
        if code != FAILED or not found.failures:
            break
        if never_again(found):
            break
        reasons = {failure["test"]: f"{failure['when']}: {failure['reason']}" for failure in found.failures}
        retried = reasons | retried
        print(f"\n==== retry {retry} of {RETRIES}, alone: {len(reasons)} tests", flush=True)
        for test, reason in reasons.items():
            print(f"{test}: {reason}", flush=True)
        code, found = pytest(out / f"retry-{retry}.json", *sorted(reasons))
        total = Results(total.passed + found.passed, found.failed, total.skipped)
    results.write(out / "ring.json", total)
    if code == FAILED:
        return never_again(found) or [f"{f['test']}: failed {RETRIES + 1} times" for f in found.failures]
    if code:
        return [f"pytest ended with exit code {code}"]
    return record(retried, Ledger(ledger))


def record(retried: dict[str, str], ledger: Ledger) -> list[str]:
    """Write the retried tests down. Returns which rules they break."""
    today = dt.datetime.now(tz=dt.UTC).date()
    for retry in ledger.record(retried, today):
        print(f"retried: {retry.row()}", flush=True)
    if retried:
        print(f"{len(retried)} tests passed when they ran again. Commit tests/FLAKES.md, which has a row for each.")
    return ledger.violations(today)


def main() -> int:
    """Run the ring; the exit code."""
    why = run([*SHARED_OUT, *sys.argv[1:]])
    for line in why:
        print(f"RED: {line}")
    return int(bool(why))


if __name__ == "__main__":
    sys.exit(main())
