"""README and the pages about Spark run as they stand."""

import pytest
from tests.page_blocks import DOCS, ROOT, missing, read, run

PAGES = [page for page in map(read, sorted((DOCS / "spark").rglob("*.md"))) if page.shown]


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::ResourceWarning:pyspark.*")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(spark, capsys, page):
    run(page)
    output = capsys.readouterr().out
    assert not missing(page, output), output


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::ResourceWarning:pyspark.*")
def test_readme(spark, capsys):
    from ottla.testing import Broker

    page = read(ROOT / "README.md")
    assert page.shown == 6
    with Broker(topics={"orders": 2, "copies": 1}) as broker:
        run(page, broker=broker)
    output = capsys.readouterr().out
    assert not missing(page, output), output
