"""What a release is checked for, and what its recipe promises."""

import datetime as dt
import re
from pathlib import Path

import pytest
from scripts import release_check

ROOT = Path(__file__).parents[2]
TODAY = dt.date(2026, 11, 29)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture
def project(tmp_path):
    (tmp_path / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.3"\n')
    (tmp_path / "Cargo.lock").write_text('[[package]]\nname = "ottla-module"\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 - 2026-11-29\n\n## 1.2.2 - 2026-01-01\n")
    return tmp_path


def test_a_release_that_agrees(project):
    assert not release_check.problems(project, "v1.2.3", TODAY)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("Cargo.toml", "1.2.3", "1.2.2", "Cargo.toml has version 1.2.2"),
        ("Cargo.lock", "1.2.3", "1.2.2", "Cargo.lock has version 1.2.2"),
        ("CHANGELOG.md", "## 1.2.3", "## Unreleased", "no heading `## 1.2.3 - 2026-11-29`"),
        ("CHANGELOG.md", "2026-11-29", "2026-11-28", "dates 1.2.3 2026-11-28"),
    ],
)
def test_a_release_that_does_not_agree(project, file, old, new, told):
    path = project / file
    path.write_text(path.read_text().replace(old, new))
    (problem,) = release_check.problems(project, "v1.2.3", TODAY)
    assert told in problem


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2", "v1.2.3-rc1", "main"])
def test_a_tag_that_is_no_version(project, tag):
    (problem,) = release_check.problems(project, tag, TODAY)
    assert "is not a version" in problem


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash(workflow):
    used = re.findall(r"^ *- uses: (.*)$|^ *uses: (.*)$", workflow.read_text(), re.MULTILINE)
    assert used
    for action in map("".join, used):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_end_and_may_only_read(workflow):
    text = workflow.read_text()
    assert text.count("runs-on:") == text.count("timeout-minutes:")
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)


def test_the_supported_versions_are_those_of_the_build():
    support = (ROOT / "docs" / "support.md").read_text()
    rust = re.search(r'^rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    python = re.search(r'^requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert f"| {rust} and later |" in support
    assert f"CPython {python} and later" in support
