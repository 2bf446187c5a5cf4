"""Build the source distribution and, from it, a wheel for each platform; audit each wheel, and try it where it can run.

The source distribution is also installed as a machine without a network does it.
`make wheels` prints a table. A platform needs a Rust standard library (`rustup target add`) or Rust's sources, and a
folder of tools with an emulator and a Python: scripts/debian_toolchain.sh makes them from Debian's packages, for
`make wheels TOOLS=folder`; scripts/musl_python.sh adds a Python for musl. The table marks what could not be built or
run. A wheel is optimised by a profile if a Python of its platform runs here and there is an llvm-profdata
(record_profile.py); the table says if not. The status is an error if a step failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from scripts.record_profile import TRAINING, record, tool

ROOT = Path(__file__).parents[1]
OUT = ROOT / "target" / "wheels"
WORK = ROOT / "target" / "wheels-build"
PROGRAMS = Path(sys.executable).parent
PYPROJECT = ROOT / "pyproject.toml"
ZIG = ROOT / "scripts" / "zig.py"
ROUND_TRIP = ROOT / "tests" / "install" / "round_trip.py"
MACHINE = os.uname().machine
MOST_BYTES = 8_000_000
# Seconds. A build on two cores takes seven minutes; a round trip under an emulator takes one.
PATIENCE = 3600
NEWEST_MINOR = 15
# Of each step of the training where an emulator runs it.
SOME_RECORDS = "20000"
QUOTES = '."'


@dataclass(frozen=True)
class Platform:
    """Something to build for: Rust's name of it, and the tag that pip knows."""

    target: str
    tag: str

    @property
    def machine(self) -> str:
        """The processor, as `uname -m` names it."""
        return self.target.split("-")[0]

    @property
    def native(self) -> bool:
        """Whether this machine's own Python can load the module."""
        return self.machine == MACHINE and not self.musl

    @property
    def musl(self) -> bool:
        """Whether the C library is musl; else it is glibc."""
        return self.target.endswith("musl")


PLATFORMS = (
    Platform("x86_64-unknown-linux-gnu", "manylinux2014"),
    Platform("aarch64-unknown-linux-gnu", "manylinux2014"),
    Platform("x86_64-unknown-linux-musl", "musllinux_1_2"),
    Platform("aarch64-unknown-linux-musl", "musllinux_1_2"),
)
# The name in `--only` of the installation from the source distribution.
SOURCE = "source"
# Their system libraries are not free to have, so nothing is linked for them here.
COMPILED_ONLY = ("aarch64-apple-darwin", "x86_64-apple-darwin", "x86_64-pc-windows-gnu")


class FailedError(Exception):
    """A step failed."""


@dataclass
class Row:
    """A line of the table."""

    platform: str
    wheel: str = "-"
    size: str = "-"
    audit: str = "-"
    runs: list[str] = field(default_factory=list)
    failed: bool = False

    def show(self) -> None:
        """Print the line."""
        runs = "; ".join(self.runs) or "not run"
        print(f"| {self.platform} | {self.wheel} | {self.size} | {self.audit} | {runs} |", flush=True)


class Rust:
    """The compiler: the one of the tools if they have one, else the one in PATH, whose cargo is used in either case."""

    def __init__(self, tools: Path | None) -> None:
        path = os.environ["PATH"]
        self.environment = {**os.environ, "PATH": f"{PROGRAMS}:{path}", "VIRTUAL_ENV": str(PROGRAMS.parent)}
        if tools and (tools / "rust").is_dir():
            folder = tools / "rust" / "usr"
            llvm = ":".join(str(path) for path in (folder / "lib").glob("llvm-*/bin"))
            self.environment["PATH"] = f"{PROGRAMS}:{llvm}:{path}"
            libraries = [*(folder / "lib").glob("*-linux-gnu"), folder / "lib"]
            self.environment["RUSTC"] = str(folder / "bin" / "rustc")
            self.environment["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))

    def ask(self, question: str) -> str:
        """What rustc prints."""
        command = [self.environment.get("RUSTC", "rustc"), *question.split()]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    def for_target(self, target: str) -> tuple[list[str], dict[str, str]] | None:
        """Flags and environment with which cargo builds for a target; None if it cannot."""
        if any(Path(self.ask(f"--print target-libdir --target {target}")).glob("libstd-*")):
            return [], self.environment
        if (Path(self.ask("--print sysroot")) / "lib/rustlib/src/rust/library").is_dir():
            # Cargo builds a standard library only for a nightly compiler, or for one that is told to be one.
            return ["-Z", "build-std=std,panic_abort"], {**self.environment, "RUSTC_BOOTSTRAP": "1"}
        return None


def run(name: str, command: list[str | Path], *, cwd: Path = WORK, env: dict[str, str] | None = None) -> str:
    """Run a command with its output in a log, and show the end of it if the command fails."""
    log = WORK / f"{name}.log"
    with log.open("w") as output:
        done = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd, env=env, check=False, timeout=PATIENCE
        )
    text = log.read_text()
    if done.returncode:
        end = "\n".join(text.splitlines()[-20:])
        print(f"{name} ended with {done.returncode}; the end of {log}:\n{end}", file=sys.stderr)
        raise FailedError(name)
    return text


def source_distribution(rust: Rust) -> tuple[Path, Path]:
    """The source distribution, and the folder that it was unpacked to."""
    run("sdist", ["maturin", "sdist", "--out", OUT], cwd=ROOT, env=rust.environment)
    (archive,) = OUT.glob("ottla-*.tar.gz")
    folder = WORK / "source"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter=as_new)
    (source,) = folder.iterdir()
    return archive, source


def as_new(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """A file with the current time: it is years old in the archive, so cargo would keep what it built before."""
    return tarfile.data_filter(member, folder).replace(mtime=time.time(), deep=False)


def installed(archive: Path, rust: Rust) -> Row:
    """Install the source distribution in an empty environment without a network, and run the round trip.

    The machine has the build requirements as files, and the crates in cargo's cache.
    """
    row = Row("source, installed offline", archive.name, f"{archive.stat().st_size / 1e6:.1f} MB")
    files, venv = WORK / "requirements", WORK / "venv" / "source"
    offline = ["--no-index", "--find-links", files]
    environment = {
        **rust.environment,
        "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TARGET_DIR": str(WORK / "cargo"),
    }
    with PYPROJECT.open("rb") as opened:
        requirements = tomllib.load(opened)["build-system"]["requires"]
    try:
        run("download-source", [sys.executable, "-m", "pip", "download", "--dest", files, *requirements])
        run("venv-source", [sys.executable, "-m", "venv", "--clear", venv])
        run("requirements-source", [venv / "bin/pip", "install", *offline, *requirements])
        install = [venv / "bin/pip", "install", *offline, "--no-build-isolation", archive]
        run("install-source", install, env=environment)
        row.runs.append(run("run-source", [venv / "bin/python", ROUND_TRIP]).splitlines()[-1])
    except FailedError as error:
        row.failed = True
        row.runs.append(f"FAILED: {error}")
    return row


def build(
    platform: Platform, source: Path, flags: list[str], environment: dict[str, str], python: Python | None
) -> tuple[Path, bool]:
    """Build a wheel, by a profile if a Python of its platform runs here; and return whether it was.

    The source distribution has fewer crates than its lock file, so this is not `--locked`.
    """
    out = WORK / platform.target
    # cargo-zigbuild runs zig by its Python package, unless there is no Python.
    environment = {**environment, "CARGO_ZIGBUILD_PYTHON_PATH": "false", "CARGO_ZIGBUILD_ZIG_PATH": str(ZIG)}

    def built(name: str, profile: str, rustflags: dict[str, str]) -> Path:
        shutil.rmtree(out, ignore_errors=True)
        options = f"--strip --zig --compatibility {platform.tag} --target {platform.target} --profile {profile}".split()
        command = ["maturin", "build", *options, *flags, "--target-dir", WORK / "cargo", "--out", out]
        run(f"{name}-{platform.target}", command, cwd=source, env={**environment, **rustflags})
        (wheel,) = out.glob("*.whl")
        return wheel

    merge = tool(environment)
    by_profile = bool(python and merge)
    if python and merge:
        instrumented = built("instrument", "wheel", {"RUSTFLAGS": f"-C profile-generate {python.counters}"})
        profile = WORK / f"{platform.target}.profdata"
        training = [*python.command, TRAINING, *python.training]
        record(instrumented, profile, merge, training, python.environment(environment))
        wheel = built("build", "wheel", {"RUSTFLAGS": f"-C profile-use={profile}"})
    else:
        wheel = built("build", "release", {})
    run(f"compress-{platform.target}", [sys.executable, ROOT / "scripts" / "compress_wheel.py", wheel])
    return wheel.replace(OUT / wheel.name), by_profile


def audit(wheel: Path, platform: Platform) -> str:
    """What the auditors say: is the tag true, is only the stable ABI used, are the crates listed (SBOM)?"""
    shown = run(f"auditwheel-{platform.target}", [PROGRAMS / "auditwheel", "show", wheel])
    run(f"abi3audit-{platform.target}", [PROGRAMS / "abi3audit", "--strict", wheel])
    with zipfile.ZipFile(wheel) as archive:
        if not any(".dist-info/sboms/" in name for name in archive.namelist()):
            print(f"{wheel.name} has no SBOM", file=sys.stderr)
            raise FailedError("sbom")
    # auditwheel wraps its lines.
    words = " ".join(shown.split()).partition("following platform tag: ")[2].split()
    return ", ".join([*(word.strip(QUOTES) for word in words[:1]), "stable ABI only", "SBOM inside"])


def interpreters() -> list[Path]:
    """Each Python of this machine that the wheel is for."""
    found = {}
    for minor in range(11, NEWEST_MINOR + 1):
        name = f"python3.{minor}"
        for place in (shutil.which(name), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}")):
            if (
                place
                and not subprocess.run([place, "--version"], capture_output=True, check=False, timeout=60).returncode
            ):
                found.setdefault(name, Path(place))
    return list(found.values())


def try_natively(platform: Platform, wheel: Path) -> list[str]:
    """In an empty environment of each Python: install the wheel without an index, then pyarrow; run the round trip."""
    results = []
    for python in interpreters():
        name = f"{platform.target}-{python.name}"
        venv = WORK / "venv" / python.name
        run(f"venv-{name}", [python, "-m", "venv", "--clear", venv])
        run(f"install-{name}", [venv / "bin/pip", "install", "--no-index", wheel])
        run(f"pyarrow-{name}", [venv / "bin/pip", "install", "pyarrow"])
        results.append(run(f"run-{name}", [venv / "bin/python", ROUND_TRIP]).splitlines()[-1])
    return results


@dataclass(frozen=True)
class Python:
    """A Python of a platform.

    Attributes:
        command: What runs it, such as an emulator with its file.
        version: Such as `3.11`.
        packages: A folder of packages for it, if it has none itself: pyarrow, and what the training needs.
        training: Options of scripts/training.py.
        runtime: LLVM's runtime for counters, if the standard library that is built for the platform has none.
    """

    command: list[str | Path]
    version: str = ""
    packages: Path | None = None
    training: tuple[str, ...] = ()
    runtime: Path | None = None

    @property
    def counters(self) -> str:
        """Flags of the compiler with which an instrumented library has the runtime."""
        return f"-Z no-profiler-runtime -C link-arg={self.runtime}" if self.runtime else ""

    def environment(self, base: dict[str, str], *folders: Path) -> dict[str, str]:
        """The environment in which it finds these folders and its packages."""
        path = [str(folder) for folder in (*folders, self.packages) if folder]
        return {**base, "PYTHONPATH": ":".join(path)} if path else base

    def install(self, platform: Platform, name: str, folder: Path, *arguments: str | Path) -> None:
        """Install packages for it with this machine's pip."""
        install = [sys.executable, "-m", "pip", "install", "--target", folder, "--python-version", self.version]
        install += ["--only-binary", ":all:", "--platform", f"{platform.tag}_{platform.machine}"]
        run(f"{name}-{platform.target}", [*install, *arguments])


def python_of(platform: Platform, tools: Path | None) -> Python | None:
    """The Python to train and try a wheel with; None if this machine cannot run one."""
    if platform.native:
        # It has the packages itself: `make wheels` installs them.
        return Python([sys.executable])
    root = tools and tools / (platform.machine + "-musl" * platform.musl)
    command = tools and root and emulated(platform, tools, root)
    if not command or not root:
        return None
    version = run(f"version-{platform.target}", [*command, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    # An emulated process cannot start another one.
    options = ("--broker-python", sys.executable, "--records", SOME_RECORDS)
    packages = WORK / "site" / f"{platform.target}-packages"
    runtime = next(root.glob("lib/libclang_rt.profile.a"), None)
    python = Python(command, version.strip(), packages, options, runtime)
    # pyarrow needs a newer glibc than ottla does; confluent-kafka has no wheel for musl.
    only_glibc = () if platform.musl else ("--platform", f"manylinux_2_28_{platform.machine}", "confluent-kafka")
    shutil.rmtree(packages, ignore_errors=True)
    python.install(platform, "packages", packages, *only_glibc, "pyarrow", "protobuf")
    return python


def emulated(platform: Platform, tools: Path, root: Path) -> list[str | Path] | None:
    """The command of the Python in the platform's folder of the tools; None if there is none."""
    python = next(root.glob("usr/bin/python3.*[0-9]"), None)
    if not python:
        return None
    emulator = (
        [tools / f"qemu/usr/bin/qemu-{platform.machine}-static", "-L", root] if platform.machine != MACHINE else []
    )
    loader = [root / f"lib/ld-musl-{platform.machine}.so.1"] if platform.musl and not emulator else []
    return [*emulator, *loader, python]


def try_elsewhere(platform: Platform, wheel: Path, python: Python) -> list[str]:
    """Install the wheel with this machine's pip for the other platform, and run the round trip there."""
    folder = WORK / "site" / platform.target
    shutil.rmtree(folder, ignore_errors=True)
    python.install(platform, "install", folder, "--no-index", wheel)
    environment = python.environment({**os.environ}, folder)
    done = run(f"run-{platform.target}", [*python.command, ROUND_TRIP], env=environment)
    return [done.splitlines()[-1]]


def built(platform: Platform, source: Path, rust: Rust, tools: Path | None) -> Row:
    """Build for a platform, audit and try what was built."""
    row = Row(platform.target)
    settings = rust.for_target(platform.target)
    if settings is None:
        row.wheel = f"not built: no standard library (rustup target add {platform.target})"
        return row
    try:
        python = python_of(platform, tools)
        wheel, by_profile = build(platform, source, *settings, python)
        row.wheel, row.size = wheel.name, f"{wheel.stat().st_size / 1e6:.2f} MB"
        row.size += "" if by_profile else ", without a profile"
        row.audit = audit(wheel, platform)
        if platform.native:
            row.runs = try_natively(platform, wheel)
        elif python:
            row.runs = try_elsewhere(platform, wheel, python)
        # A wheel that is too large is still tried.
        if wheel.stat().st_size > MOST_BYTES:
            print(f"{wheel.name} has more than {MOST_BYTES:,} bytes", file=sys.stderr)
            row.failed = True
            row.runs.append("FAILED: size")
    except (FailedError, subprocess.SubprocessError) as error:
        row.failed = True
        row.runs.append(f"FAILED: {error}")
    return row


def compiled(target: str, source: Path, rust: Rust) -> Row:
    """Compile for a platform that cannot be linked here."""
    row = Row(target, wheel="not built here")
    settings = rust.for_target(target)
    if settings is None:
        row.runs = [f"not compiled: no standard library (rustup target add {target})"]
        return row
    flags, environment = settings
    command = f"cargo-zigbuild check --profile gate -p ottla-module --target {target}".split()
    try:
        # There is no interpreter of the platform that PyO3 could ask.
        environment = {**environment, "PYO3_NO_PYTHON": "1"}
        run(f"check-{target}", [*command, *flags, "--target-dir", WORK / "cargo"], cwd=source, env=environment)
        row.runs = ["compiles; not linked, not run"]
    except FailedError as error:
        row.failed = True
        row.runs = [f"FAILED: {error}"]
    return row


def main() -> None:
    """Do it all, and print the table line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, help="the folder that scripts/debian_toolchain.sh made")
    parser.add_argument("--only", default="", help="only the platforms whose name holds this, or 'source'")
    options = parser.parse_args()
    tools = options.tools and options.tools.resolve()
    for folder in (OUT, WORK):
        folder.mkdir(parents=True, exist_ok=True)
    rust = Rust(tools)
    archive, source = source_distribution(rust)
    print(f"{rust.ask('--version')}\n\n| platform | wheel | size | audit | where it ran |\n|---|---|---|---|---|")
    Row("source", archive.name, f"{archive.stat().st_size / 1e6:.1f} MB", runs=["each wheel is built from it"]).show()
    failed = False
    if options.only in SOURCE:
        row = installed(archive, rust)
        row.show()
        failed |= row.failed
    for platform in PLATFORMS:
        if options.only in platform.target:
            row = built(platform, source, rust, tools)
            row.show()
            failed |= row.failed
    for target in COMPILED_ONLY:
        if options.only in target:
            row = compiled(target, source, rust)
            row.show()
            failed |= row.failed
    sys.exit(failed)


if __name__ == "__main__":
    main()
