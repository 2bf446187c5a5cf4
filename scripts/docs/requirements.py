"""Print what `make docs` installs, one requirement a line: pip before 25.1 knows no dependency groups."""

from __future__ import annotations

import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

if __name__ == "__main__":
    print("\n".join(tomllib.loads(PROJECT.read_text())["dependency-groups"]["docs"]))
