#!/usr/bin/env python3
"""The zig of scripts/wheels.py: it links a shared library again, by Rust's LLD with options that make it smaller.

zig's compiler driver rejects these options, although it links with an LLD that has them. Its link line names everything
that is linked: objects, and the C library of the version that the wheel's tag promises. zig calls musl `libc.so`; a
wheel calls it what Alpine Linux does, and its loader takes either name for itself.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# As in wheel.sh.
SMALLER = ("--icf=all", "--bp-compression-sort=both")
ZIG = (sys.executable, "-m", "ziglang")
# What rustc wants to be linked into an instrumented library, by `-u SYMBOL`. zig takes the symbol for a file.
COUNTERS = "__llvm_profile_runtime"
LINK_LINE = re.compile(r"^ld\.lld (.*)", re.MULTILINE)
# Seconds.
PATIENCE = 1800


def lld() -> Path:
    """The linker that comes with the Rust compiler in PATH."""
    command = ["rustc", "--print", "target-libdir"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return Path(done.stdout.strip()).parent / "bin" / "rust-lld"


def link(arguments: list[str]) -> int:
    """Link a shared library by zig, then again by LLD; return the exit status."""
    environment = {**os.environ, "ZIG_VERBOSE_LINK": "1"}
    options = [f"--undefined={COUNTERS}"] if COUNTERS in arguments else []
    if options:
        arguments = [argument for argument in arguments if argument not in {"-u", COUNTERS}]
    linked = subprocess.run(
        [*ZIG, *arguments], env=environment, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE
    )
    if linked.returncode:
        sys.stderr.write(linked.stderr)
        return linked.returncode
    # zig may link parts of the C library first; the last line is the library's.
    lines = LINK_LINE.findall(linked.stderr)
    if not lines:
        print("scripts/zig.py: zig printed no link line that begins with 'ld.lld'; it printed:", file=sys.stderr)
        sys.stderr.write(linked.stderr)
        return 1
    machine = arguments[arguments.index("-target") + 1].split("-")[0]
    with tempfile.TemporaryDirectory() as folder:
        parts = [as_in_alpine(part, machine, folder) for part in shlex.split(lines[-1])]
        command = [lld(), "-flavor", "gnu", *parts, *options, *SMALLER]
        return subprocess.run(command, check=False, timeout=PATIENCE).returncode


def as_in_alpine(part: str, machine: str, folder: str) -> str:
    """A part of the link line; for musl, a copy that has Alpine's name."""
    if Path(part).name != "libc.so":
        return part
    copy = shutil.copy(part, folder)
    command = ["patchelf", "--set-soname", f"libc.musl-{machine}.so.1", copy]
    subprocess.run(command, check=True, timeout=60)
    return copy


if __name__ == "__main__":
    if "-shared" in sys.argv:
        sys.exit(link(sys.argv[1:]))
    os.execv(ZIG[0], [*ZIG, *sys.argv[1:]])
