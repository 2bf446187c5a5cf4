"""Check that tag, version, lock file and changelog of a release agree.

Usage: release_check.py vVERSION
"""

from __future__ import annotations

import datetime as dt
import re
import sys
import tomllib
from pathlib import Path


def problems(root: Path, tag: str, today: dt.date) -> list[str]:
    """What does not agree; empty if the release can go out."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+((a|b|rc)\d+)?", tag):
        return [f"the tag {tag!r} is not a version such as v1.2.3"]
    version = tag[1:]
    found = []
    written = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    if written != version:
        found.append(f"Cargo.toml has version {written}: set [workspace.package] version to {version}")
    packages = tomllib.loads((root / "Cargo.lock").read_text())["package"]
    (locked,) = (package["version"] for package in packages if package["name"] == "ottla-module")
    if locked != version:
        found.append(f"Cargo.lock has version {locked}: run cargo update --workspace")
    heading = re.search(rf"^## {re.escape(version)} - (\S+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if heading is None:
        found.append(f"CHANGELOG.md has no heading `## {version} - {today}`")
    elif heading[1] != str(today):
        found.append(f"CHANGELOG.md dates {version} {heading[1]}, and today is {today}")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wrong = problems(Path(__file__).parents[1], sys.argv[1], dt.datetime.now(dt.UTC).date())
    sys.exit("\n".join(wrong))
