"""The page of findings names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results" / "findings.md"


def test_each_test_that_the_page_names_is_there():
    named = set(re.findall(r"`([\w/.]+)::(\w+)`", PAGE.read_text()))
    assert len(named) > 60
    missing = [f"{file}::{name}" for file, name in sorted(named) if not defines(ROOT / file, name)]
    assert missing == []


def defines(file, name):
    return file.is_file() and re.search(rf"\b(?:def|fn) {name}\(", file.read_text()) is not None
