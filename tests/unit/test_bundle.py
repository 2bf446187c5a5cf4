"""Programs that PyInstaller bundles have the modules that the compiled half of ottla imports by name."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from ottla import _pyinstaller

ROOT = Path(__file__).parents[2]
(FOLDER,) = map(Path, _pyinstaller.get_hook_dirs())
# A module's name as an argument: `class(&CLASS, py, "ottla._types", "TopicPartition")`, `module(py, "sys")`.
IMPORTED = re.compile(r'\b(?:import|class|module)\((?:&?[\w.()]+, )*"([\w.]+)"')
OURS = re.compile(r'"(ottla(?:\.\w+)+)"')
# The compiled half itself, which is named where classes say where they are, and a module that has no file.
THERE = {"ottla._ottla", "sys"}

PROGRAM = """
import asyncio, logging
import pyarrow as pa
import ottla
from ottla.testing import Broker

async def again(address):
    async with ottla.aio.Producer(address) as producer:
        await (await producer.send("t", b'{"a": 2}'))

logging.basicConfig(level=logging.INFO)
with Broker(topics=["t"]) as broker:
    address = broker.bootstrap_servers
    with ottla.Producer(address) as producer:
        producer.send("t", b'{"a": 1}').result(60)
    asyncio.run(again(address))
    with ottla.Consumer(address, topics="t", group_id="g", auto_offset_reset="earliest") as consumer:
        batch = consumer.poll(60)
    batch.decode(pa.schema([("a", pa.int64())]), "json").to_arrow()
    print(batch.to_arrow()["value"].to_pylist(), "<table" in batch._repr_html_())
"""


def test_the_hook_lists_what_the_compiled_half_imports() -> None:
    text = "\n".join(path.read_text() for path in sorted((ROOT / "crates" / "python" / "src").rglob("*.rs")))
    imported = {name for pattern in (IMPORTED, OURS) for name in pattern.findall(text)}
    listed = runpy.run_path(str(FOLDER / "hook-ottla.py"))["hiddenimports"]
    assert sorted(listed) == sorted(imported - THERE)
    for name in listed:
        import_module(name)


def test_pyinstaller_finds_the_hook() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pyinstaller40"]
    module, _, function = points["hook-dirs"].partition(":")
    assert [Path(folder) for folder in getattr(import_module(module), function)()] == [FOLDER]
    assert [path.name for path in FOLDER.glob("hook-*.py")] == ["hook-ottla.py"]


@pytest.mark.nightly
@pytest.mark.needs("pyinstaller")
@pytest.mark.timeout(900)
def test_a_bundled_program_runs(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR", "program.py"]
    command += ["--additional-hooks-dir", str(FOLDER)]
    folder = str(Path(_pyinstaller.__file__).parents[2])
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": folder}, check=True, timeout=600)
    # Far from the environment that it was made in.
    ran = subprocess.run(
        [tmp_path / "dist" / "program" / "program"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "[b'{\"a\": 1}', b'{\"a\": 2}'] True\n"), ran.stderr
