"""What must not stand in the tree: places of one machine, marks of unfinished work, files and subjects that are too long."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written so that this file does not match itself.
PLACES = re.compile(
    r"(?<![\w.$}])/(?:work|farm|root|home/\w+)/|file:/{2}/(?:work|root)|\b(?:10\.\d{1,3}|192\.168)(?:\.\d{1,3}){2}\b(?!\.)"
)
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b|\bto" r"do!\(|\bunimpl" r"emented!\(")
# Data, where such letters are chance.
DATA = {".gz", ".png", ".jar", ".bin", ".lock", ".jsonl"}

MOST_LINES = 1000
"""Of a source file, without its tests."""
TESTS_AT_THE_END = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{\n(?:.|\n)*\n\}\n\Z", re.MULTILINE)
MOST_OF_A_SUBJECT = 72
SUBJECTS_SINCE = "cd7815e"
"""The rule about subjects came after this commit."""


def text_files():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    ).stdout
    for name in listed.decode().split("\0"):
        path = ROOT / name
        if name and path.suffix not in DATA and path.is_file():
            yield path


def found(pattern):
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in text_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_place_of_one_machine():
    assert found(PLACES) == []


def test_nothing_marked_unfinished():
    assert found(UNFINISHED) == []


def test_no_source_file_is_too_long():
    sources = [p for p in text_files() if p.suffix in {".rs", ".py"}]
    sources = [p for p in sources if "tests" not in p.relative_to(ROOT).with_suffix("").parts]
    lines = {str(p.relative_to(ROOT)): TESTS_AT_THE_END.sub("", p.read_text()).count("\n") for p in sources}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)


def test_commit_subjects_are_short():
    if git("merge-base", "--is-ancestor", SUBJECTS_SINCE, "HEAD").returncode:
        pytest.skip(f"the history does not reach back to {SUBJECTS_SINCE}")
    subjects = git("log", "--format=%s", f"{SUBJECTS_SINCE}..HEAD").stdout.splitlines()
    assert [subject for subject in subjects if len(subject) > MOST_OF_A_SUBJECT] == []
