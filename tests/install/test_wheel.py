"""What `make wheel` builds, installed where nothing else is: it imports, runs, and carries what a package should.

OTTLA_WHEELS is the folder of another wheel, such as the one of the gate's profile.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / os.environ.get("OTTLA_WHEELS", "target/wheels")
PATIENCE = 60
# docs/results/platforms.md lists what takes the space.
MOST_BYTES = 8_000_000

pytestmark = pytest.mark.timeout(400)


def sources():
    for folder in ("crates", "python", "schemas"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix not in {".so", ".pyc"}:
                yield path
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "LICENSE"):
        yield ROOT / name


@pytest.fixture(scope="module")
def wheel():
    """The wheel; built, unless there is one that is newer than every source."""
    found = [path for path in WHEELS.glob("ottla-*.whl") if path.stat().st_mtime > max_mtime()]
    if not found:
        subprocess.run([ROOT / "scripts" / "wheel.sh"], cwd=ROOT, check=True, timeout=390)
        found = list(WHEELS.glob("ottla-*.whl"))
    (one,) = found
    return one


def max_mtime():
    return max(path.stat().st_mtime for path in sources())


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory):
    """Run a program of an environment that has the wheel and nothing else, far from the sources."""
    folder = tmp_path_factory.mktemp("empty")
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    # No path to packages of this environment, and no index.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}

    def run(program, *arguments, data=None, check=True):
        done = subprocess.run(
            [programs / program, *arguments],
            input=data,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=PATIENCE,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    run.programs, run.folder, run.environment = programs, folder, environment
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], env=environment, check=True, timeout=PATIENCE)
    run("python", "-m", "pip", "install", "--no-index", "--find-links", str(wheel.parent), "ottla")
    yield run
    shutil.rmtree(folder / "venv")


def contents(wheel, pattern):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if re.fullmatch(pattern, name)}


def test_nothing_else_is_installed(run):
    names = {row["name"] for row in json.loads(run("python", "-m", "pip", "list", "--format", "json"))}
    assert names - {"pip", "setuptools"} == {"ottla"}
    run("python", "-m", "pip", "check")
    script = (
        "import importlib.util, ottla, ottla.aio, ottla.protocol, ottla.testing\n"
        "assert importlib.util.find_spec('pyarrow') is None\n"
        "print(ottla.__file__)"
    )
    assert Path(run("python", "-W", "error", "-c", script).strip()).is_relative_to(run.folder)


def test_the_command_line(run, wheel):
    version = wheel.name.split("-")[1]
    assert run("ottla", "--version") == f"ottla {version}\n"
    assert "ottla produce -t flights" in run("ottla", "--help")


def test_a_record_goes_through_a_broker(run):
    command = [run.programs / "python", "-m", "ottla", "broker", "--port", "0", "--topic", "t"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=run.folder, env=run.environment)
    try:
        address = re.search(r"127\.0\.0\.1:\d+", broker.stdout.readline())[0]
        run("ottla", "produce", "-b", address, "-t", "t", data="from a wheel\n")
        read = ("consume", "-b", address, "-t", "t", "--beginning", "--max", "1")
        assert run("python", "-m", "ottla", *read) == "from a wheel\n"
    finally:
        broker.terminate()
        broker.wait(PATIENCE)
        broker.stdout.close()


def test_what_needs_an_extra_says_which(run):
    script = (
        "import ottla.testing\n"
        "with ottla.testing.Broker(topics=['t']) as broker:\n"
        "    with ottla.Producer(broker.bootstrap_servers) as producer:\n"
        "        producer.send('t', b'v').result(10)\n"
        "    with ottla.Consumer(broker.bootstrap_servers, topics='t', auto_offset_reset='earliest') as consumer:\n"
        "        try:\n"
        "            consumer.poll(10).to_arrow()\n"
        "        except ImportError as error:\n"
        "            print(error)\n"
    )
    assert "ottla[arrow]" in run("python", "-c", script)


def metadata_of(wheel):
    ((_, text),) = contents(wheel, r"[^/]*\.dist-info/METADATA").items()
    return email.message_from_bytes(text)


def sections(elf):
    """The names of the sections of a 64-bit ELF file."""
    assert elf.startswith(b"\x7fELF\x02")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry, _, index = struct.unpack_from("<3H", elf, 0x3A)
    start, size = struct.unpack_from("<2Q", elf, table + entry * index + 0x18)
    return set(elf[start : start + size].decode().split("\0"))


@pytest.mark.nightly
def test_size_of_the_optimised_wheel(wheel):
    assert wheel.parent == ROOT / "target" / "wheels"
    assert wheel.stat().st_size < MOST_BYTES, "was it built without llvm-profdata, which scripts/wheel.sh needs?"


def test_symbols(wheel):
    ((name, extension),) = contents(wheel, r"ottla/_ottla\..*").items() - contents(wheel, r".*\.pyi").items()
    assert ".text" in sections(extension)
    assert not sections(extension) & {".debug_line", ".symtab"}, "lines for profilers are for the builds of `make`"
    assert wheel.name.split("-")[2:4] == ["cp311", "abi3"]
    assert name == "ottla/_ottla.abi3.so"


def test_types_and_metadata(wheel):
    typed = contents(wheel, r"ottla/(py\.typed|_ottla\.pyi)")
    assert len(typed) == 2
    metadata = metadata_of(wheel)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Author"] == "The ottla project"
    links = {link.split(",")[0] for link in metadata.get_all("Project-URL")}
    assert links == {"Repository", "Documentation", "Changelog", "Issues", "Security"}
    known = {
        "Operating System :: MacOS",
        "Operating System :: Microsoft :: Windows",
        "Operating System :: POSIX :: Linux",
    }
    assert known <= set(metadata.get_all("Classifier"))
    assert all("extra ==" in needed for needed in metadata.get_all("Requires-Dist")), "nothing without an extra"
    assert metadata.get_payload(decode=True).decode().startswith("# ottla")
    ((_, license_text),) = contents(wheel, r"[^/]*\.dist-info/licenses/LICENSE").items()
    assert license_text == (ROOT / "LICENSE").read_bytes()
    assert not contents(wheel, r"(?!ottla/|pyspark_ottla/|pyspark_ottla_log/|ottla-[^/]*\.dist-info/).*"), (
        "no other top-level name"
    )


def test_the_sbom_names_every_crate(wheel):
    ((_, text),) = contents(wheel, r"[^/]*\.dist-info/sboms/.*\.json").items()
    bill = json.loads(text)
    assert bill["bomFormat"] == "CycloneDX"
    named = {(part["name"], part["version"]) for part in bill["components"]}
    locked = set(re.findall(r'^name = "(.*)"\nversion = "(.*)"', (ROOT / "Cargo.lock").read_text(), re.MULTILINE))
    assert named <= locked
    assert {"ottla-engine", "ottla-broker", "tokio", "pyo3", "zstd"} <= {name for name, _ in named}


def test_the_source_distribution_has_what_the_build_reads(wheel):
    """A whole crate, where it has one at all. `make wheel` builds from it; here is what would be noticed only where other sources are
    near."""
    (archive,) = wheel.parent.glob("ottla-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    crates = {"/".join(name.split("/")[:2]) for name in names if name.startswith("crates/")}
    needed = {"module", "python", "engine", "protocol", "records", "codegen"}
    assert {f"crates/{name}" for name in needed} <= crates
    read = [path for crate in crates for path in (ROOT / crate / "src").rglob("*.rs")]
    schemas = list((ROOT / "schemas").rglob("*.json"))
    assert len(schemas) > 290
    read += [*schemas, *(ROOT / "python").rglob("*.py")]
    assert {str(path.relative_to(ROOT)) for path in read} <= names
    assert {f"{crate}/Cargo.toml" for crate in crates} <= names
    assert {"Cargo.lock", "LICENSE", "README.md", "PKG-INFO", "python/ottla/py.typed"} <= names
