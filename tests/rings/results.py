"""Results of a run of pytest: failures are printed at once, and all is written down for the run that decides what runs again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

# The section of a report on a test that hung, in which lines say where.
HUNG = "hung"
NEVER = "never retried"
MOST_OF_A_REASON = 300


@dataclass
class Results:
    """What a run of pytest ended with. A failure has `test`, `when`, `reason` and `never`: why it is never retried, or null."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)


def read(file: Path) -> Results:
    """The results in a file; none where pytest ended before it wrote them."""
    return Results(**json.loads(file.read_text())) if file.exists() else Results()


def write(file: Path, found: Results) -> None:
    """Write results to a file, whose folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(found), indent=1))


def note_verdict(report: pytest.TestReport, call: pytest.CallInfo[Any]) -> None:
    """Add to a failed report whether its test may run again."""
    if not report.failed or call.excinfo is None:
        return
    try:
        from tests.rings import verdict
    except ModuleNotFoundError:
        # tests/architecture runs before ottla is built; none of it runs again.
        return
    frames = [(Path(str(entry.path)), statement(entry)) for entry in call.excinfo.traceback]
    text = "\n".join([report.longreprtext, *(content for _, content in report.sections)])
    report.user_properties.append((NEVER, verdict.never_retried(call.excinfo.value, text, frames)))


def statement(entry: Any) -> str:
    """The statement of a frame; nothing where pytest cannot parse the source, as that of Cython in uvloop."""
    try:
        return str(entry.statement)
    except SyntaxError:
        return ""


class Recorder:
    """In the process that hands the tests out: prints each failure when it comes, and writes the results when the run ends."""

    def __init__(self, config: pytest.Config, file: Path | None) -> None:
        self.config, self.file = config, file
        self.results = Results()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = (crash.message if crash else str(report.longrepr)).strip()[:MOST_OF_A_REASON]
            # A worker that died left no verdict.
            never = dict(report.user_properties).get(NEVER, "a signal")
            failure = {"test": report.nodeid, "when": report.when, "reason": reason, "never": never}
            self.results.failures.append(failure)
            if self.config.getoption("numprocesses", None):
                self.print(failure, report)

    def print(self, failure: dict[str, Any], report: pytest.TestReport) -> None:
        # A run that is stopped before its end has no summary.
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        terminal.ensure_newline()
        terminal.write_line(f"FAILED at {failure['when']}: {failure['test']}: {failure['reason']}", red=True)
        for line in dict(report.sections).get(HUNG, "").splitlines():
            terminal.write_line(f"{HUNG}: {line[:MOST_OF_A_REASON]}", red=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = {name: len(reports) for name, reports in terminalreporter.stats.items()}
        self.results.passed = counts.get("passed", 0)
        self.results.failed = counts.get("failed", 0) + counts.get("error", 0)
        self.results.skipped = counts.get("skipped", 0)
        if self.file:
            write(self.file, self.results)
