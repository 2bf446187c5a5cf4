"""Environments of Python with packages that the one of the tests has not, or has in another version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock

# Seconds for the packages of an environment. PySpark has 450 MB, and its wheel is built here.
INSTALL = 900


def make(folder: Path, packages: Iterable[str], base: str | Path = sys.executable, *, pip: bool = False) -> Path:
    """Make an environment, unless it is there.

    Args:
        folder: Where it is kept.
        packages: What pip would install. They are compiled: Spark gives the Python of a stream 10 s to start.
        base: Its Python.
        pip: Whether pip installs them, not uv. It keeps the wheel that it has built of a source distribution. uv builds one
            for each environment where the index forbids caches; that of PySpark leaves 2 GB in its cache.

    Returns:
        Its interpreter.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with FileLock(f"{folder}.lock", timeout=INSTALL):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
            uv = ["uv", "pip", "install", "--compile-bytecode", "--python", python]
            program = ["pip", "--python", python, "install"] if pip else uv
            command = [sys.executable, "-m", *program, "--quiet", *packages]
            subprocess.run(command, check=True, timeout=INSTALL, env=with_index())
            (folder / "done").touch()
    return python


def with_index() -> dict[str, str]:
    """The environment of this process, for uv: uv does not read which index pip's settings name."""
    pip = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    index = (
        os.environ.get("PIP_INDEX_URL")
        or subprocess.run(pip, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    )
    return {**({"UV_DEFAULT_INDEX": index} if index else {}), **os.environ}
