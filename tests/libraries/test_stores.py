"""Tiered segments of real Kafka in S3, Google Cloud Storage and Azure, each as an emulator has it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.libraries.environments import ROOT, report
from tests.python.tiered_scenes import LEVELS, scenes

pytestmark = pytest.mark.real
AZURITE = "azurite@3.37.0"


def check(found):
    for level in LEVELS:
        assert found[level]["equal"], found
        assert found[level]["alone"], found


def check_requests(found):
    """A manifest and a window of each segment; for transactions, indexes and the place where the last of them begin."""
    segments = found["segments"]
    assert segments / 2 < found["read_uncommitted"]["requests"] <= 2 * segments, found
    assert segments < found["read_committed"]["requests"] <= 3 * segments + 2 * 4, found
    assert found["ranges"], found


# The mode that needs most of the reader is a test of each day.
MODES = [pytest.param(mode, marks=() if mode == "encrypted-zstd" else pytest.mark.nightly) for mode in scenes()]


@pytest.mark.parametrize("mode", MODES)
def test_s3(tmp_path, mode):
    found = report("stores", "with_stores.py", "s3", mode, tmp_path)
    check(found)
    check_requests(found)


def test_google_cloud_storage(tmp_path):
    found = report("stores", "with_stores.py", "gcs", "encrypted-zstd", tmp_path)
    check(found)
    check_requests(found)


@pytest.mark.nightly
@pytest.mark.needs("npm")
def test_azure(tmp_path):
    folder = ROOT / "target" / "libraries" / AZURITE
    if not (program := folder / "node_modules" / ".bin" / "azurite").exists():
        folder.mkdir(parents=True, exist_ok=True)
        install = [shutil.which("npm"), "install", "--silent", "--no-audit", "--no-fund", AZURITE]
        subprocess.run(install, cwd=folder, check=True, timeout=280)
    check(report("stores", "with_stores.py", "azure", "encrypted-zstd", tmp_path, program))
