"""README and the pages of docs/ run as they stand."""

import pytest

from tests.page_blocks import DOCS, ROOT, missing, pages, read, run

ALL = pages()
# Pages of Spark run in the ring that has a JVM.
WITH_SPARK = [ROOT / "README.md", *(DOCS / "spark").rglob("*.md")]
HERE = [page for page in ALL if page.shown and page.path not in WITH_SPARK]

MOST_NOT_RUN = 30
"""Blocks that need what the tests have not, such as a cloud: add a reason, not a number, where that can be."""


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("page", HERE, ids=lambda page: page.name)
def test_page(capsys, monkeypatch, page):
    monkeypatch.syspath_prepend(str(ROOT))
    run(page)
    output = capsys.readouterr().out
    assert not missing(page, output), output


def test_most_blocks_run():
    reasons = [f"{page.name}: {reason}" for page in ALL for reason in page.reasons]
    assert len(reasons) <= MOST_NOT_RUN, reasons
    assert all(len(reason.rpartition(": ")[2]) > 10 for reason in reasons)
    assert sum(page.shown for page in ALL) > 70
    assert len(HERE) > 20


def test_no_block_is_out_of_sight():
    """A block of another name, or without a comment, would not run and not be counted."""
    for page in ALL:
        text = page.path.read_text()
        assert "```py\n" not in text, page.name
        assert text.count("```python\n") == page.shown + len([r for r in page.reasons if "```" not in r]) - text.count(
            "-->\n```sh\n"
        ), page.name


def test_a_page_that_lies_is_seen(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- setup\nfirst = 1\n-->\n\n```python\nprint(first)  # 2\n```\n")
    lying = read(page)
    run(lying)
    assert missing(lying, capsys.readouterr().out) == ["2"]
