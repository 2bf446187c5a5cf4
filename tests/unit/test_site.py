"""The site: every link inside leads somewhere, every page is in the navigation, and the pages of the reference have everything."""

import ast
import json
import re

import pytest
from scripts.docs import pages, tables

from tests.page_blocks import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("site") / "pages"
    pages.assemble(target)
    return target


def test_links_and_anchors(folder):
    assert pages.broken_links(folder) == []
    assert len(list(folder.rglob("*.md"))) > 60


def test_a_broken_link_is_seen(tmp_path):
    (tmp_path / "a.md").write_text("# A\n\n[one](b.md#there) [two](b.md#nowhere) [three](c.md) `[four](d.md)`\n")
    (tmp_path / "b.md").write_text("# B\n\n## There\n")
    assert pages.broken_links(tmp_path.resolve()) == ["a.md: b.md#nowhere", "a.md: c.md"]


def test_each_page_is_in_the_navigation(folder):
    listed = set(re.findall(r"(?:- |: )([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {str(path.relative_to(folder)) for path in folder.rglob("*.md")}


def test_links_of_readme(folder):
    """They are absolute, since PyPI shows README too, and lead to files of this repository."""
    text = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20
    for link in links:
        if link.startswith("#"):
            assert link[1:] in pages.anchors(text)
        else:
            assert link.startswith(pages.FORGE + "/blob/main/"), link
            assert (ROOT / link.removeprefix(pages.FORGE + "/blob/main/")).is_file(), link
    assert text.count("\n") <= 170


def test_the_changelog_is_short():
    assert (ROOT / "CHANGELOG.md").read_text().count("\n") <= 60


def test_the_reference_has_every_property_and_code(folder):
    module = ast.parse((ROOT / "python/ottla/_properties.py").read_text())
    names = {
        field.target.id.replace("_", ".")
        for node in module.body
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    } - {"sasl.token"}
    text = (folder / "reference/properties.md").read_text()
    assert names <= set(re.findall(r"`([^`]+)` \|", text))
    assert len(names) > 100
    codes = (folder / "reference/error-codes.md").read_text()
    for row in json.loads((ROOT / "schemas/errors.json").read_text()):
        assert f"| {row['code']} | `{row['name']}` |" in codes


def test_the_tables_of_other_clients_are_whole():
    source = (ROOT / "crates/engine/src/config/moved.rs").read_text().partition("#[cfg(test)]")[0]
    names = re.findall(
        r'^    \("([^"]+)", Instead::', source.partition("static NAMES")[2].partition("\n];")[0], re.MULTILINE
    )
    table = tables.moved_properties()
    assert len(names) > 100
    assert [name for name in names if f"| `{name}` |" not in table] == []
    habits = (ROOT / "python/ottla/_habits.py").read_text()
    for name in ("produce", "send_and_wait", "getmany", "store_offsets"):
        assert f'"{name}"' in habits
        assert f".{name}` |" in tables.other_calls("Producer", "Consumer")


def test_the_reference_has_every_public_name(folder):
    for module, page in (
        ("ottla", "ottla"),
        ("ottla/aio", "aio"),
        ("ottla/testing", "testing"),
        ("ottla/protocol", "protocol"),
    ):
        tree = ast.parse((ROOT / f"python/{module}/__init__.py").read_text())
        (exported,) = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        ]
        text = (folder / f"reference/api/{page}.md").read_text()
        submodules = {"aio", "errors", "log", "protocol", "testing", "__version__"}
        absent = [name for name in exported if name not in submodules and f"\n## {name}\n" not in text]
        assert absent == []


def test_the_page_of_administration_lists_every_call():
    sources = [ROOT / "python/ottla/_sync/_admin.py", *(ROOT / "python/ottla/_sync/_calls").glob("*.py")]
    calls = {
        method.name
        for source in sources
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for method in node.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
    }
    table = (ROOT / "docs/guides/administration.md").read_text().partition("## Calls")[2]
    assert len(calls) > 50
    assert calls - set(re.findall(r"`(\w+)`", table)) == set()


def test_cells_show_no_backslash_before_a_pipe(folder):
    """Python-Markdown would show the one that GitHub needs."""
    assert "`str | Assignor | " in (folder / "reference/properties.md").read_text()
    spans = [
        span
        for page in folder.rglob("*.md")
        for row in re.findall(r"^\|.*\|$", page.read_text(), re.MULTILINE)
        for span in re.findall(r"`[^`]+`", row)
    ]
    assert len(spans) > 1000
    assert [span for span in spans if "\\|" in span] == []


def test_each_column_has_a_title(folder):
    for name in ("properties", "metrics"):
        assert "| |\n|--" not in (folder / f"reference/{name}.md").read_text()


def test_the_options_of_spark_are_those_of_the_source():
    from ottla.spark.plan import read_options
    from ottla.spark.write import options as write_options

    text = (ROOT / "docs/reference/spark-options.md").read_text()
    shown = {
        name for row in re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
    }
    for known in (read_options.KNOWN, write_options.KNOWN):
        absent = {name for name in known if not name.startswith("key.")} - shown
        assert {name for name in absent if name.removeprefix("value.") not in shown} == set()
