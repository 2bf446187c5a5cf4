"""The folder that holds a suite's tests: a source distribution, which is downloaded, or a checkout that the user has."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
from io import BytesIO
from pathlib import Path
from typing import Final

from filelock import FileLock

from tests.environments import with_index

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / "target" / "judges"
# Seconds for the index, and for a download.
PATIENCE: Final = 120


def source_distribution(name: str, version: str) -> Path:
    """Download a source distribution and unpack it, unless that is done.

    pip would run its build, which needs compilers and libraries; the tests need its files only. So uv, which locks a version
    with its source distribution, says where it is and what its hash is.

    Args:
        name: The package.
        version: Its version.

    Returns:
        Its folder.
    """
    folder = CACHE / f"{name}-{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=4 * PATIENCE):
        if not folder.exists():
            unpacked = CACHE / f"{name}-{version}.part"
            shutil.rmtree(unpacked, ignore_errors=True)
            with tarfile.open(fileobj=BytesIO(_archive(name, version))) as archive:
                archive.extractall(unpacked, filter="data")
            (root,) = unpacked.iterdir()
            root.rename(folder)
            unpacked.rmdir()
    return folder


def _archive(name: str, version: str) -> bytes:
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-deps", "--format", "pylock.toml", "-"]
    locked = subprocess.run(
        command,
        input=f"{name}=={version}\n",
        env=with_index(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    (package,) = tomllib.loads(locked.stdout)["packages"]
    source = package["sdist"]
    with urllib.request.urlopen(source["url"], timeout=PATIENCE) as response:
        archive: bytes = response.read()
    if (found := hashlib.sha256(archive).hexdigest()) != source["hashes"]["sha256"]:
        raise ValueError(
            f"the source distribution of {name} {version} has the hash {found}, and the index has another one"
        )
    return archive


def source(tree: Path) -> str:
    """Where the tests of a folder come from: its name, and the commit if it is a checkout."""
    if not (tree / ".git").exists():
        return tree.name
    command = ["git", "-C", os.fspath(tree), "rev-parse", "--short=8", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return f"{tree.name} {found.stdout.strip()}"
