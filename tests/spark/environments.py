"""Environments with what a platform has, made when a test first needs them, and kept in target/platforms."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[2]


def environment(name: str, *packages: str) -> Path:
    """Make an environment, unless it is there.

    Args:
        name: What it is for.
        *packages: What pip would install.

    Returns:
        Its interpreter.
    """
    folder = ROOT / "target" / "platforms" / f"{name}-{hashlib.sha256(repr(packages).encode()).hexdigest()[:8]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with FileLock(f"{folder}.lock", timeout=600):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
            install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *packages]
            subprocess.run(install, check=True, timeout=600)
            (folder / "done").touch()
    return python
