"""Environments with what a platform of Spark has, kept in target/platforms."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pyspark
from tests.environments import make

ROOT = Path(__file__).parents[2]
# PySpark as the tests have it, and what its workers import.
SPARK = (f"pyspark=={pyspark.__version__}", "pyarrow", "pandas<3")
# What notebooks, pipelines and jobs without ottla need, in one environment, as PySpark has 450 MB.
TOOLS = (f"pyspark[connect,pipelines]=={pyspark.__version__}", "pandas<3", "ipykernel", "jupyter-core", "nbclient")


def environment(name: str, *packages: str, base: str | Path = sys.executable) -> Path:
    """Make an environment, unless it is there.

    Args:
        name: What it is for.
        *packages: What pip would install.
        base: Its Python.

    Returns:
        Its interpreter.
    """
    key = hashlib.sha256(repr(packages).encode()).hexdigest()[:8]
    return make(ROOT / "target" / "platforms" / f"{name}-{key}", packages, base, pip=True)
