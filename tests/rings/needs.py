"""What a test may need of the machine: programs, modules, interpreters, and rights."""

from __future__ import annotations

import ctypes.util
import functools
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.wheels import interpreters

from tests.rings.memory import group

if TYPE_CHECKING:
    from collections.abc import Callable

# Programs that are modules of Python.
MODULES = {"pyinstaller": "PyInstaller", "pyright": "pyright", "uvloop": "uvloop"}


def present(tool: str) -> bool:
    """Whether the machine has what a test needs.

    Args:
        tool: A program, which can be started; `java` also through JAVA_HOME, as Spark finds it, and those of `MODULES` as
            modules. Or `python3.N`, which pyenv may have; `libgssapi`, the system's library of Kerberos; `mounts`, the
            right to mount in a namespace of one's own; `memory-limits`, the right to limit the memory of a cgroup.
    """
    if tool in MODULES:
        return importlib.util.find_spec(MODULES[tool]) is not None
    if tool in RIGHTS:
        return RIGHTS[tool]()
    if tool.startswith("python3."):
        return tool in pythons()
    home = os.environ.get("JAVA_HOME")
    if tool == "java" and home and (Path(home) / "bin" / "java").exists():
        return True
    return shutil.which(tool) is not None


@functools.cache
def pythons() -> dict[str, Path]:
    """The interpreters of this machine that run, by the names of their programs."""
    return {python.name: python for python in interpreters()}


def _has_gssapi() -> bool:
    return any(ctypes.util.find_library(name) for name in ("gssapi_krb5", "GSS"))


def _may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False, timeout=60).returncode == 0


def _may_limit_memory() -> bool:
    try:
        with group(2**30):
            return True
    except OSError:
        return False


RIGHTS: dict[str, Callable[[], bool]] = {
    "libgssapi": _has_gssapi,
    "memory-limits": _may_limit_memory,
    "mounts": _may_mount,
}
