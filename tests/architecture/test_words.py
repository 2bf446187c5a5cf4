"""The pages are written in plain words: `scripts/words.py` has the list, and what to write instead."""

from pathlib import Path

from scripts import words

ROOT = Path(__file__).parents[2]

# Records of past runs, and a page that is made of texts of the source, whose words change with it.
NOT_LISTED = {
    "docs/reference/metrics.md": "written from the table of metrics in crates/engine",
}
# Lines that need a word: part of the page's name and of the line.
NEEDED = [("docs/results/questions.md", "question")]


def test_pages_have_none_of_the_words():
    pages = ["README.md", "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md")))]
    assert len(pages) > 60
    seen = []
    for name in pages:
        if name in NOT_LISTED:
            continue
        for number, line in words.prose((ROOT / name).read_text()):
            here = [word for word in words.found(line) if (name, word.lower().rstrip("s")) not in NEEDED]
            if here:
                seen.append(f"{name}:{number}: {', '.join(here)}")
    assert seen == []


def test_exceptions_are_few_and_needed():
    assert len(NOT_LISTED) <= 2
    for name in NOT_LISTED:
        assert words.found((ROOT / name).read_text()), f"{name} needs no exception"


def test_the_words_are_seen():
    text = "The broker answers.\n`answer` is code\n\n```\ntold\n```\n\n    told\nNobody was told all the same, from 4.0 on.\n"
    found = [word for _, line in words.prose(text) for word in words.found(line)]
    assert found == ["answers", "told", "all the same", "from 4.0 on"]
    assert words.found("the roommate, the lanes of bells, from Kafka 2.5 on") == ["lanes", "bells", "from Kafka 2.5 on"]
