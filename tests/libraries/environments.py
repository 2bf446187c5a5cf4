"""Environments of libraries that are too large for the one that tests run in, or need other versions of its packages.

Each has what one extra of pyproject.toml names. It is made when a test first needs it, and kept in target/libraries.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from tests.environments import make

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"


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
    return make(folder, [*needed, "pytest"])


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
