"""Count words that this project does not use, per 1,000 lines: what users read, and comments of Rust.

Each has a plain replacement in `LISTED`. Code is not counted: a name in backticks is what it is.

Usage: words.py [--list] [PATH...]
    --list shows each line; PATH limits the count to these files.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

LISTED = {
    r"answer(?:s|ed)?": "response, responds",
    r"questions?|asks": "request, requests",
    r"told|tells?|says|hears": "reported, returns, receives, is notified",
    r"fates?": "delivery result",
    r"view of the cluster": "metadata",
    r"anew": "again, recreated",
    r"room": "space",
    r"lanes?": "connection",
    r"(?:bell|knock)s?": "wake-up, doorbell",
    r"pulses?": "heartbeat flag",
    r"(?:what|who) waits": "pending records, the waiter",
    r"lies": "malformed, invalid; is",
    r"hostile": "malformed, invalid",
    r"g(?:ive|ives|ave|iven|iving) up": "abandons, expires",
    r"succeeds it": "fences it, replaces it",
    r"all the same": "still",
    r"in vain": "without success",
    r"if need be": "if needed",
    r"beside": "next to, besides",
    r"so many": "that many",
    r"(?-i:is none)": "is not a ...",
    r"from (?:(?:Kafka|Spark|Java|Python|PySpark) )?\d[\d.]* on": "since",
    r"of (?:ottla|Kafka|Spark|Java|librdkafka)'s(?=[.,;:)]|$| (?:that|which|and|or)\b)": "ottla's ..., Spark's ...",
}
"""What is counted, as a pattern of whole words, and what to write."""

PATTERN = re.compile(rf"(?<![\w'-])(?:{'|'.join(LISTED)})(?![\w-])", re.IGNORECASE)
_BUILDER = re.compile(r"\bfn \w+_is\(")

Line = tuple[Path, int, str]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page without its code: number and text."""
    is_code = is_setup = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif line.startswith("<!-- setup"):
            is_setup = True
        elif is_setup:
            is_setup = "-->" not in line
        elif not is_code and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)|\"[^\"]*\"(?=:)", "", line)


def found(text: str) -> list[str]:
    """The words of the list in a text."""
    return [match[0] for match in PATTERN.finditer(text)]


def _files(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]


def _pages() -> Iterator[Line]:
    for path in _files("README.md", "CHANGELOG.md", "docs/*.md"):
        yield from ((path, number, line) for number, line in prose(path.read_text()))


def _python() -> Iterator[Line]:
    """Docstrings, and the texts of errors, help and logs: every string of the package with a space in it."""
    for path in _files("python/*.py", "python/*.pyi"):
        if "/_sync/" in str(path):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
                for number, line in enumerate(node.value.splitlines(), node.lineno):
                    yield path, number, re.sub(r"`[^`]*`", "", line)


_COMMENT = re.compile(r"^\s*//[/!]?\s?(.*)$|\s//\s(.*)$")
_TEST_MODULE = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod \w+ \{$", re.MULTILINE)


def comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments of a source in Rust without their code: number and text."""
    for number, line in enumerate(source.splitlines(), 1):
        if match := _COMMENT.search(line):
            yield number, re.sub(r"`[^`]*`", "", match[1] or match[2] or "")


def sources() -> list[Path]:
    """The sources in Rust, with their tests."""
    return _files("crates/*.rs")


def _code() -> Iterator[tuple[Path, str]]:
    """The sources in Rust without their tests."""
    for path in sources():
        if "/tests/" not in str(path) and path.name != "tests.rs":
            yield path, _TEST_MODULE.split(path.read_text(), 1)[0]


def _rust_comments() -> Iterator[Line]:
    for path, source in _code():
        yield from ((path, number, text) for number, text in comments(source))
        for number, line in enumerate(source.splitlines(), 1):
            if _BUILDER.search(line) and not _COMMENT.search(line):
                yield path, number, "answers"


def _rust_texts() -> Iterator[Line]:
    """The texts in strings of Rust, which users read as errors."""
    for path, source in _code():
        for number, line in enumerate(source.splitlines(), 1):
            if not _COMMENT.search(line):
                for text in re.findall(r'"((?:[^"\\]|\\.)* (?:[^"\\]|\\.)*)"', line):
                    yield path, number, re.sub(r"\{[^}]*\}", "", text)  # A placeholder is code.


TEXTS = {
    "pages: README, CHANGELOG, docs": _pages,
    "docstrings, errors and help of Python": _python,
    "errors and logs of Rust": _rust_texts,
    "comments of Rust": _rust_comments,
}


def main() -> None:
    """Print a table, and with --list each line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    wanted = {path.resolve() for path in arguments.paths}
    print(f"{'':40} {'words':>6} {'lines':>7} {'per 1,000':>10}")
    users = [0, 0]
    for name, lines in TEXTS.items():
        words = count = 0
        for path, number, line in lines():
            if wanted and path not in wanted:
                continue
            count += 1
            here = found(line)
            words += len(here)
            if here and arguments.list:
                print(f"{path.relative_to(ROOT)}:{number}: {', '.join(here)}: {line.strip()}")
        if not name.startswith("comments"):
            users = [users[0] + words, users[1] + count]
        print(f"{name:40} {words:6} {count:7} {1000 * words / max(count, 1):10.1f}")
    print(f"{'what users read':40} {users[0]:6} {users[1]:7} {1000 * users[0] / max(users[1], 1):10.1f}")


if __name__ == "__main__":
    main()
