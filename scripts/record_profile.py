#!/usr/bin/env python3
"""Run an instrumented wheel, and write what it counted as a profile for the compiler.

    python scripts/record_profile.py [WHEEL [PROFILE]]

The wheel was built with `RUSTFLAGS=-Cprofile-generate`; the profile is for `RUSTFLAGS=-Cprofile-use=PROFILE`
(https://doc.rust-lang.org/rustc/profile-guided-optimization.html). scripts/training.py is what runs. Its Python needs
the dependency group `training` of pyproject.toml, but not ottla. Counts are merged by LLVM's llvm-profdata, which must
be as new as the LLVM of the Rust compiler: `rustup component add llvm-tools`, or the package llvm-NN of a distribution,
in PATH. Without it, nothing runs, and the status is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TRAINING = Path(__file__).parent / "training.py"
# Seconds. It takes ten; under an emulator some minutes.
PATIENCE = 3600


def tool(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The llvm-profdata that reads what this compiler's modules write; None if it was not found."""
    rustc = environment.get("RUSTC", "rustc")
    ask = ["--print", "target-libdir"], ["--version", "--verbose"]
    libraries, version = (
        subprocess.run(
            [rustc, *question], capture_output=True, text=True, check=True, timeout=60, env=environment
        ).stdout
        for question in ask
    )
    wanted = re.search(r"LLVM version: (\d+)", version)
    major = int(wanted[1]) if wanted else 0
    names = (Path(libraries.strip()).parent / "bin" / "llvm-profdata", f"llvm-profdata-{major}", "llvm-profdata")
    for name in names:
        found = shutil.which(name, path=environment["PATH"])
        if found and _major(found, environment) >= major:
            return Path(found)
    return None


def _major(program: str, environment: Mapping[str, str]) -> int:
    """The LLVM that a program is of; 0 for those that are too old to know `--version`."""
    command = [program, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    found = re.search(r"LLVM version (\d+)", done.stdout)
    return int(found[1]) if found else 0


def record(
    wheel: Path, profile: Path, merge: Path, training: list[str | Path], environment: Mapping[str, str] = os.environ
) -> None:
    """Run the training with the wheel's module, and merge what it counted.

    Args:
        wheel: The instrumented wheel.
        profile: The file to write.
        merge: LLVM's llvm-profdata.
        training: The command of a Python, the script, and its options.
        environment: Of both. In its PYTHONPATH can be what the training needs besides the wheel.
    """
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        counts = Path(folder) / "counts"
        path = os.pathsep.join(filter(None, (folder, environment.get("PYTHONPATH"))))
        counting = {**environment, "PYTHONPATH": path, "LLVM_PROFILE_FILE": f"{counts}/%p.profraw"}
        # Standard output is for the table of scripts/wheels.py.
        subprocess.run(training, env=counting, stdout=sys.stderr, check=True, timeout=PATIENCE)
        command = [merge, "merge", "--output", profile, *counts.glob("*.profraw")]
        subprocess.run(command, env=environment, check=True, timeout=PATIENCE)


def main() -> None:
    """Record a profile as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, nargs="?", help="without it, only say whether llvm-profdata was found")
    parser.add_argument("profile", type=Path, nargs="?", default=Path("ottla.profdata"))
    options = parser.parse_args()
    merge = tool()
    if not merge:
        sys.exit(
            "record_profile.py: no llvm-profdata in PATH is as new as the LLVM of rustc: run `rustup component add "
            "llvm-tools`, or put the folder bin of the package llvm-NN into PATH"
        )
    if options.wheel:
        record(options.wheel, options.profile, merge, [sys.executable, TRAINING])


if __name__ == "__main__":
    main()
