"""What must not stand in the tree: places of one machine, marks of unfinished work."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Written so that this file does not match itself.
PLACES = re.compile(
    r"(?<![\w.$}])/(?:work|farm|root|home/\w+)/|file:/{2}/(?:work|root)|\b(?:10\.\d{1,3}|192\.168)(?:\.\d{1,3}){2}\b(?!\.)"
)
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b|\bto" r"do!\(|\bunimpl" r"emented!\(")
# Data, where such letters are chance.
DATA = {".gz", ".png", ".jar", ".bin", ".lock", ".jsonl"}


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
