"""Add up results: `python -m tests.rings.closing target/rings/gate/*.json target/rings/gate/*.log target/rings/gate/summary` prints "N passed, N failed"."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.rings import results

CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
LANE = re.compile(r"^(\w+) +FAILED", re.MULTILINE)
NEXTEST = re.compile(r"^ *Summary .* tests run: (\d+) passed(?:, (\d+) failed)?(?:, (\d+) skipped)?", re.MULTILINE)


def counts(file: Path) -> tuple[int, int, int]:
    """What passed, failed and was skipped: results of pytest, the log of Rust tests, or the summary of lanes."""
    if file.suffix == ".json":
        found = results.read(file)
        return found.passed, found.failed, found.skipped
    text = file.read_text()
    if file.name == "summary":
        return 0, sum(is_no_test(file.parent, lane) for lane in LANE.findall(text)), 0
    rows = [[int(number or 0) for number in row] for row in (*CARGO.findall(text), *NEXTEST.findall(text))]
    passed, failed, skipped = (sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0, 0)
    return passed, failed, skipped


def is_no_test(folder: Path, lane: str) -> bool:
    """Whether a lane failed without a test that failed, as where nothing compiles."""
    files = (folder / f"{lane}.json", folder / f"{lane}.log")
    return not any(counts(file)[1] for file in files if file.exists())


def main() -> None:
    # A run that ended early has not written all of them.
    files = [path for path in map(Path, sys.argv[1:]) if path.exists()]
    passed, failed, skipped = (sum(column) for column in zip(*map(counts, files), (0, 0, 0), strict=True))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main()
