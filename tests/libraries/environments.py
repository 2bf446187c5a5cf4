"""Environments of libraries that are too large for the one that tests run in, or need other versions of its packages.

Each has what one extra of pyproject.toml names. It is made when a test first needs it, and kept in target/libraries.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from filelock import FileLock

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
# Seconds for the packages of an environment.
INSTALL = 600


def python_of(extra: str) -> Path:
    """Make the environment of an extra or of a group of dependencies, unless it is there.

    Args:
        extra: The name in pyproject.toml.

    Returns:
        Its interpreter.
    """
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {**told["project"]["optional-dependencies"], **told["dependency-groups"]}[extra]
    folder = ROOT / "target" / "libraries" / f"{extra}-{hashlib.sha256(json.dumps(needed).encode()).hexdigest()[:8]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=INSTALL):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
            uv = [
                sys.executable,
                "-m",
                "uv",
                "pip",
                "install",
                "--quiet",
                "--compile-bytecode",
                "--python",
                folder / "bin" / "python",
            ]
            subprocess.run([*uv, *needed, "pytest"], check=True, timeout=INSTALL, env=_with_index())
            (folder / "done").touch()
    return folder / "bin" / "python"


def _with_index() -> dict[str, str]:
    # uv does not read pip's settings.
    pip = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    index = (
        os.environ.get("PIP_INDEX_URL")
        or subprocess.run(pip, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    )
    return {**({"UV_DEFAULT_INDEX": index} if index else {}), **os.environ}


def start(extra: str, program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a program of `programs` in the environment of an extra.

    Args:
        extra: The extra's name.
        program: The file's name.
        *arguments: Its arguments.
        **options: Those of `subprocess.Popen`.
    """
    path = f"{ROOT / 'python'}{os.pathsep}{ROOT}"
    environment = {**os.environ, "PYTHONPATH": path, **options.pop("env", {})}
    command = [python_of(extra), PROGRAMS / program, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, **options)


def report(extra: str, program: str, *arguments: object, timeout: float = 240, **options: Any) -> dict[str, Any]:
    """Run a program, and return the JSON object of its last line.

    Args:
        extra: The extra's name.
        program: The file's name.
        *arguments: Its arguments.
        timeout: Seconds after which the program is killed.
        **options: Those of `subprocess.Popen`.
    """
    with start(extra, program, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    assert process.returncode == 0, f"{program} ended with {process.returncode}\n{out[-5000:]}\n{err[-10000:]}"
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found
