"""What a release is checked for, and what its recipe promises."""

import datetime as dt
import os
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
from scripts import release_check, wheels

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


def test_the_page_on_installation_lists_the_extras():
    text = (ROOT / "docs" / "start" / "install.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == extras.keys() - {"demo", "dev"}


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


@pytest.fixture
def machine(tmp_path):
    """Run a script of the repository where some programs are others; what it writes goes to a folder of the test."""
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / "Cargo.toml").symlink_to(ROOT / "Cargo.toml")
    (tmp_path / "bin").mkdir()

    def run(*command, **programs):
        for name, text in programs.items():
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / "bin" / name).chmod(0o755)
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "MSRV_RUSTC": "", "DENY": ""}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    return run


def test_without_cargo_deny_nothing_passes(machine):
    done = machine("scripts/deny.sh", cargo="echo 'error: no such command: `deny`' >&2; exit 101")
    assert done.returncode == 1
    assert "missing: cargo-deny; nothing was checked" in done.stderr
    assert "cargo install cargo-deny --locked" in done.stderr
    nightly = machine("scripts/nightly.sh", "deny", cargo="exit 101")
    assert nightly.returncode == 1
    assert re.search(r"^deny +FAILED in", nightly.stdout, re.MULTILINE)
    assert "cargo install cargo-deny --locked" in nightly.stdout


def test_a_finding_of_cargo_deny_fails_the_nightly_step(machine):
    cargo = 'case "$*" in *--version) echo cargo-deny 0.20.2 ;; *) echo "$*"; exit 4 ;; esac'
    nightly = machine("scripts/nightly.sh", "deny", cargo=cargo)
    assert nightly.returncode == 1
    assert "deny --locked check" in nightly.stdout


def test_without_the_oldest_rust_nothing_passes(machine):
    rust = re.search(r'^rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    done = machine("scripts/msrv.sh", rustup="exit 1")
    assert done.returncode == 1
    assert f"missing: Rust {rust}, the oldest that Cargo.toml allows; nothing was checked" in done.stderr
    assert f"rustup toolchain install {rust}" in done.stderr


def test_the_lint_knows_the_oldest_rust():
    """Clippy compares the standard library's functions with `rust-version`, which each crate takes from the workspace."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    assert workspace["lints"]["clippy"]["incompatible_msrv"] == "deny"
    for manifest in (ROOT / "crates").glob("*/Cargo.toml"):
        crate = tomllib.loads(manifest.read_text())
        assert crate["package"]["rust-version"] == {"workspace": True}, manifest
        assert crate["lints"] == {"workspace": True}, manifest


def test_a_wheel_that_lists_no_crates_fails_its_audit(tmp_path, monkeypatch, capsys):
    """PEP 770: `.dist-info/sboms`."""
    monkeypatch.setattr(
        wheels, "run", lambda *_: 'consistent with the following platform tag: "manylinux_2_17_x86_64".'
    )
    wheel = tmp_path / "ottla-0.1.0-cp311-abi3-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("ottla-0.1.0.dist-info/METADATA", "")
    with pytest.raises(wheels.FailedError, match="sbom"):
        wheels.audit(wheel, wheels.PLATFORMS[0])
    assert "has no SBOM" in capsys.readouterr().err
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("ottla-0.1.0.dist-info/sboms/module.cyclonedx.json", "{}")
    assert wheels.audit(wheel, wheels.PLATFORMS[0]) == "manylinux_2_17_x86_64, stable ABI only, SBOM inside"


def test_a_python_without_the_gil_turns_it_on():
    """PyO3 declares a module free of the GIL by default; docs/reference/free-threading.md lists what that needs first."""
    assert "#[pymodule(gil_used = true)]" in (ROOT / "crates/module/src/lib.rs").read_text()


def test_the_supported_versions_are_those_of_the_build():
    support = (ROOT / "docs" / "reference" / "support.md").read_text()
    rust = re.search(r'^rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    python = re.search(r'^requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert f"| {rust} and later |" in support
    assert f"CPython {python} and later" in support
