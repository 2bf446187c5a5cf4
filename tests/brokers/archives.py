"""Archives of loaded classes (AppCDS), with which a JVM of the same class path starts in about half the processor time.

An archive is made once, into the cache of the jars, and used from then on. Its name tells the Java, the jars and the flags that it
was made with, so that another Java or other jars have an archive of their own. The JVM ignores an archive that does not fit.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.brokers import limits
from tests.brokers.jars import home

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def using(archive: Path) -> list[str]:
    """The flags of a JVM that uses an archive; it prints no word about one that does not fit, which a test would read as output."""
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds*=off"]


def recording(archive: Path) -> list[str]:
    """The flags of a JVM that writes an archive of what it has loaded when it exits. Java 13 and later have them."""
    return [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds*=off"]


def archive(
    name: str, java: str, jars: Sequence[Path], flags: Sequence[str], make: Callable[[Path], None]
) -> Path | None:
    """The archive of that name, made where it is missing; None if it cannot be made, which standard error says.

    Args:
        name: What the archive is of, for its file's name.
        java: The program that makes and uses it.
        jars: The class path.
        flags: Flags of the JVM that the archive depends on, such as the garbage collector.
        make: Starts and ends a JVM that is `recording` to the path it is given, and raises SystemExit where it does not end well.
    """
    program = Path(shutil.which(java) or java).resolve()
    if not (release := program.parents[1] / "release").exists():
        return None  # a script in front of some Java, which this file would name
    folder = home() / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    found = folder / f"{name}-{_key(program, release, jars, flags)}.jsa"
    if found.exists():
        return found
    with limits.suspended(), (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found.exists():  # another process was quicker
            return found
        # The file gets its name only when it is whole: a JVM crashes that maps one which was cut short.
        with tempfile.TemporaryDirectory(dir=folder) as work:
            try:
                make(Path(work, "archive.jsa"))
                Path(work, "archive.jsa").rename(found)
            except (OSError, SystemExit) as why:
                print(f"{name} starts without an archive of its classes: {why}", file=sys.stderr)
                return None
    return found


def _key(java: Path, release: Path, jars: Sequence[Path], flags: Sequence[str]) -> str:
    """Differs where an archive would not fit."""
    parts = [str(java), release.read_text(), *flags]
    for jar in jars:
        known = jar.stat()
        parts.append(f"{jar} {known.st_size} {known.st_mtime_ns}")
    return hashlib.sha256(os.fsencode("\n".join(parts))).hexdigest()[:16]
