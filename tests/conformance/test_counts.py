"""The table of `tests/README.md` says what the kept corpora hold."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"


def counted() -> dict[str, list[str]]:
    """For each kind of line, its lines in each file of messages; then all lines, and the pairs of name and version."""
    columns, pairs = [], []
    for file in ("schemas-4.4.0", "schemas-3.9.1-only", "schemas-old-jars"):
        with gzip.open(HERE / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            parsed = [json.loads(line) for line in lines]
        columns.append(Counter(line["kind"] for line in parsed))
        pairs.append({(line["name"], line["v"]) for line in parsed})
    rows = {kind: [column[kind] for column in columns] for kind in sorted(set().union(*columns))}
    rows["lines"] = [sum(column.values()) for column in columns]
    table = {kind: [*row, sum(row)] for kind, row in rows.items()}
    table["pairs"] = [*map(len, pairs), len(set().union(*pairs))]
    return {kind: [f"{count:,}" for count in row] for kind, row in table.items()}


def test_the_table_of_the_readme_is_what_the_corpora_hold():
    written = {}
    for line in README.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"[\d,]+", cells[1]):
            written[cells[0]] = cells[1:]
    assert written == counted()
