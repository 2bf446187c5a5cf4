"""scripts/compress_wheel.py changes how the files of a wheel are compressed, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compress_wheel.py"
CONTENTS = {
    "ottla/__init__.py": b"".join(b"number_%d = %d\n" % (number, number * number) for number in range(4_000)),
    "ottla/\u00fcmlaut.txt": b"a name that is not ASCII\n" * 10,
    "ottla/empty.py": b"",
    "ottla/short": b"x",
}


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "ottla-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, (name, data) in enumerate(CONTENTS.items()):
            info = zipfile.ZipInfo(name, (2026, 11, 30, 13, 41, 12))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100644 | place & 1) << 16
            archive.writestr(info, data)
    return path


def facts(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return [(info.filename, info.date_time, info.external_attr, archive.read(info)) for info in archive.infolist()]


def compress(wheel):
    return subprocess.run([sys.executable, SCRIPT, wheel], capture_output=True, text=True, timeout=60, check=False)


def test_only_the_compression_changes(wheel):
    before, size = facts(wheel), wheel.stat().st_size
    done = compress(wheel)
    assert done.returncode == 0, done.stderr
    assert facts(wheel) == before
    assert [data for *_, data in before] == list(CONTENTS.values())
    assert wheel.stat().st_size < size
    assert list(wheel.parent.iterdir()) == [wheel]


def test_a_damaged_wheel_stays_as_it_is(wheel):
    data = wheel.read_bytes()
    damaged = data.replace(data[60:64], b"\0\0\0\0", 1)
    wheel.write_bytes(damaged)
    assert compress(wheel).returncode != 0
    assert wheel.read_bytes() == damaged
