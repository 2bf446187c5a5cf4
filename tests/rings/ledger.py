"""`tests/FLAKES.md`: which tests of the real ring had to run again, and since when that is not explained."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import astuple, dataclass
from pathlib import Path

LEDGER = Path(__file__).parents[1] / "FLAKES.md"
UNKNOWN = "unknown"

# The same test twice within as many runs is a defect, and so is an entry that nobody resolved for as many days.
RUNS = 20
DAYS = 14

RECORDED = re.compile(r"^Runs recorded: (\d+)$", re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \| (\d{4}-\d\d-\d\d) \| `([^`]+)` \| (.*) \| (.*) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Retry:
    """A test that failed in a run and passed when it ran again."""

    run: int
    date: dt.date
    test: str
    reason: str
    cause: str = UNKNOWN

    def row(self) -> str:
        run, date, test, reason, cause = astuple(self)
        return f"| {run} | {date} | `{test}` | {one_cell(reason)} | {one_cell(cause)} |"


def one_cell(text: str) -> str:
    """The first line of a text, as a cell of a table."""
    return (text.strip().splitlines() or [""])[0].replace("|", "/")[:160]


class Ledger:
    """The table and its rules."""

    def __init__(self, file: Path = LEDGER) -> None:
        self.file = file
        self.text = file.read_text()
        found = RECORDED.search(self.text)
        if not found:
            raise ValueError(f"{file}: no line 'Runs recorded: N'")
        self.runs = int(found[1])
        self.retries = [
            Retry(int(run), dt.date.fromisoformat(date), test, reason, cause)
            for run, date, test, reason, cause in ROW.findall(self.text)
        ]

    def record(self, retried: dict[str, str], today: dt.date) -> list[Retry]:
        """Count one more run, and add its retried tests with their reasons. Returns the new rows."""
        self.runs += 1
        new = [Retry(self.runs, today, test, reason) for test, reason in sorted(retried.items())]
        self.retries += new
        self.text = RECORDED.sub(f"Runs recorded: {self.runs}", self.text).rstrip("\n")
        self.text = "\n".join([self.text, *(retry.row() for retry in new)]) + "\n"
        self.file.write_text(self.text)
        return new

    def violations(self, today: dt.date) -> list[str]:
        """What makes a run red although each retried test passed."""
        found = []
        latest: dict[str, int] = {}
        for retry in self.retries:
            if (age := (today - retry.date).days) > DAYS:
                found.append(f"{retry.test}: retried {age} days ago, and not resolved; {DAYS} days are allowed")
            before = latest.get(retry.test)
            if before is not None and retry.run - before < RUNS:
                found.append(
                    f"{retry.test}: retried in runs {before} and {retry.run}; once within {RUNS} runs is allowed"
                )
            latest[retry.test] = retry.run
        return found
