"""Environments with what a platform has, made when a test first needs them, and kept in target/platforms."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[2]
OURS = sys.version_info.minor


def interpreters() -> dict[int, Path]:
    """Each Python 3 of this machine that runs, by its minor version."""
    found = {}
    for minor in range(11, 15):
        name = f"python3.{minor}"
        for place in (shutil.which(name), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}")):
            if place and not subprocess.run([place, "-V"], capture_output=True, check=False, timeout=60).returncode:
                found.setdefault(minor, Path(place))
    return found


def environment(name: str, *packages: str, minor: int = OURS) -> Path:
    """Make an environment, unless it is there.

    Args:
        name: What it is for.
        *packages: What pip would install.
        minor: The minor version of its Python.

    Returns:
        Its interpreter.
    """
    base = Path(sys.executable) if minor == OURS else interpreters()[minor]
    folder = ROOT / "target" / "platforms" / f"{name}-{hashlib.sha256(repr(packages).encode()).hexdigest()[:8]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with FileLock(f"{folder}.lock", timeout=600):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
            install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *packages]
            subprocess.run(install, check=True, timeout=600)
            (folder / "done").touch()
    return python
