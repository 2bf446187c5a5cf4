"""Pages, docstrings, errors and comments are written in plain words: `scripts/words.py` has the list, and what to write.

The package of Python is read without comments, and Rust with the comments of its tests.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from scripts import words

ROOT = Path(__file__).parents[2]

# Lines that need a word: the file and the word.
NEEDED = [
    ("crates/sim/src/main.rs", "hostile"),
    ("docs/results/questions.md", "question"),
    ("python/ottla/testing/__init__.py", "answered"),
]


def comments() -> Iterator[words.Line]:
    for path in words.sources():
        yield from ((path, number, text) for number, text in words.comments(path.read_text()))


KINDS = {**words.TEXTS, "comments of Rust with its tests": comments}
SOURCES = [kind for kind in KINDS if not kind.startswith("pages")]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def unplain(lines: Iterator[words.Line]) -> Iterator[tuple[str, int, list[str]]]:
    """The places with words of the list that nothing needs: file, line, words."""
    for path, number, line in lines:
        name = name_of(path)
        here = [word for word in words.found(line) if (name, word.lower().rstrip("s")) not in NEEDED]
        if here:
            yield name, number, here


def test_pages_have_none_of_the_words():
    pages = ["README.md", "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md")))]
    assert len(pages) > 60
    lines = ((ROOT / name, *line) for name in pages for line in words.prose(_read(name)))
    assert [f"{name}:{number}: {', '.join(here)}" for name, number, here in unplain(lines)] == []


def _read(name: str) -> str:
    return (ROOT / name).read_text()


@cache
def places(kind: str) -> list[tuple[str, int, list[str]]]:
    """The places in all texts of a kind, of which there must be many."""
    lines = list(KINDS[kind]())
    assert len(lines) > 3000
    return list(unplain(iter(lines)))


@pytest.mark.parametrize("kind", SOURCES)
def test_sources_have_none_of_the_words(kind):
    assert [f"{name}:{number}: {', '.join(here)}" for name, number, here in places(kind)] == []


def test_exceptions_are_few_and_needed():
    assert len(NEEDED) <= 3
    for name, word in NEEDED:
        assert word in _read(name), f"{name} needs no exception"


def test_the_words_are_seen():
    text = "The broker answers.\n`answer` is code\n\n```\ntold\n```\n\n    told\nNobody was told all the same, from 4.0 on.\n"
    found = [word for _, line in words.prose(text) for word in words.found(line)]
    assert found == ["answers", "told", "all the same", "from 4.0 on"]
    assert words.found("the roommate, the lanes of bells, from Kafka 2.5 on") == ["lanes", "bells", "from Kafka 2.5 on"]


def test_words_are_seen_in_comments_only():
    source = "//! It tells.\nlet answer = 1; // The answer, not `answer`.\n    /// Room.\nfn answer() {}\n#[cfg(test)]\nmod tests;\n"
    found = [(number, word) for number, text in words.comments(source) for word in words.found(text)]
    assert found == [(1, "tells"), (2, "answer"), (3, "Room")]
