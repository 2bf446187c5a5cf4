"""Runs a suite, and compares it with what may fail."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.environments import make
from tests.judges.suites import PYTEST, SUITES, Suite, name_of
from tests.judges.trees import CACHE, ROOT, source, source_distribution

HERE: Final = Path(__file__).parent
# Seconds for one test, and for all of them.
ONE_TEST, ALL_TESTS = 120, 3000
# pytest's statuses after it ran all tests, of which some may have failed.
ENDED: Final = (0, 1)
# The reason of a test that passes or fails by chance.
SOMETIMES: Final = "sometimes: "
HEADER: Final = "| suite | version | its tests | tests | passed | skipped | failed | allowed to fail |\n|---|---|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Verdict:
    """How a run ended.

    Attributes:
        row: Its row in the table.
        problems: What makes it red.
    """

    row: str
    problems: list[str]

    @classmethod
    def of(cls, start: str, outcomes: dict[str, str], allowed: dict[str, str], wrong: list[str]) -> Verdict:
        """The verdict on a run.

        Args:
            start: The row until the counts.
            outcomes: By test "passed", "skipped" or "failed".
            allowed: The tests that may fail, with reasons.
            wrong: What makes the run red.
        """
        counts = Counter(outcomes.values())
        numbers = [len(outcomes), counts["passed"], counts["skipped"], counts["failed"], len(allowed)]
        return cls(f"{start} {' | '.join(map(str, numbers))} |", wrong)

    @classmethod
    def without_tests(cls, start: str, allowed: dict[str, str], why: str) -> Verdict:
        """The verdict if there are no tests."""
        return cls(f"{start} none | | | | {len(allowed)} |", [why])


def run(name: str, tree: Path | None = None) -> Verdict:
    """Run a suite.

    Args:
        name: The suite's name.
        tree: A checkout of its repository. Without it the tests are those of the package's source distribution.
    """
    suite = SUITES[name]
    tree = tree or source_distribution(suite.name, suite.version)
    files = sorted(str(path.relative_to(tree)) for pattern in suite.files for path in tree.glob(pattern))
    allowed = allowlist((HERE / f"{name}.txt").read_text())
    start = f"| `{name}` | {suite.name} {suite.version} | {source(tree)} |"
    if not files:
        return Verdict.without_tests(start, allowed, f"{name}: {tree} has no {' '.join(suite.files)}")
    status, outcomes = outcomes_of(suite, tree, files)
    wrong = problems(outcomes, allowed)
    if status not in ENDED:
        wrong.insert(0, f"{name}: pytest ended with status {status}: some tests did not run")
    return Verdict.of(start, outcomes, allowed, wrong)


def interpreter(package: str, *needs: str) -> Path:
    """The Python of an environment with these packages, which is made when it is first needed."""
    packages = [package, *needs]
    digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()[:8]
    return make(CACHE / "environments" / f"{name_of(package)}-{digest}", packages)


def outcomes_of(suite: Suite, tree: Path, files: list[str]) -> tuple[int, dict[str, str]]:
    """Run pytest: its status, and by test "passed", "skipped" or "failed"."""
    python = interpreter(suite.package, *suite.needs, *PYTEST)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        paths = [str(HERE / "plugin"), str(ROOT / "python")]
        environment = {**os.environ, **dict(suite.environment)}
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "OTTLA_JUDGE_REPORT": str(report)}
        # -P: the tree's own package is not to be found before the one that is installed.
        command = [python, "-P", "-m", "pytest", "-q", "-p", suite.plugin, "-o", f"cache_dir={folder}/cache"]
        # Options of a run that this one is a part of are not for the suite's.
        environment.pop("PYTEST_ADDOPTS", None)
        command += [f"--timeout={ONE_TEST}", *suite.arguments, *files]
        # A shell lets what it runs in the background ignore SIGINT, and tests interrupt calls by it.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        ended = subprocess.run(command, cwd=tree, env=environment, timeout=ALL_TESTS, check=False)
        return ended.returncode, json.loads(report.read_text()) if report.exists() else {}


def allowlist(text: str) -> dict[str, str]:
    """By test that may fail, the reason: lines are a test's id, two spaces, a hash and the reason.

    The reason of a test that also passes begins with `sometimes: `.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("  # ", 1) for line in lines)


def problems(outcomes: dict[str, str], allowed: dict[str, str]) -> list[str]:
    """What makes a run red."""
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    return [
        *(f"failed: {test}" for test in sorted(failed - allowed.keys())),
        *(
            f"passes, take it off the list: {test}"
            for test in sorted(t for t, why in allowed.items() if outcomes.get(t) == "passed" and SOMETIMES not in why)
        ),
        *(f"does not exist, take it off the list: {test}" for test in sorted(allowed.keys() - outcomes.keys())),
    ]
