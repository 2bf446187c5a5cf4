"""Whether Spark finds `format("ottla")` by itself.

Spark runs a Python on the driver that looks for packages named `pyspark_*`: `PYSPARK_DRIVER_PYTHON`, else
`PYSPARK_PYTHON`, else `python3`. If that is jupyter, or a Python without ottla, its error is DATA_SOURCE_NOT_FOUND,
which names none of this.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# Variables that name the program, the first one first.
VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
_FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pyspark_ottla') is None)"
# Seconds that the program may take.
_PATIENCE = 10


def problem(environment: Mapping[str, str]) -> str | None:
    """Why Spark will not find the source, and what to do; None if it will."""
    variable = next((name for name in VARIABLES if environment.get(name)), None)
    program = environment[variable] if variable else "python3"
    found = shutil.which(program, path=environment.get("PATH"))
    if found is not None and _has_ottla(found):
        return None
    named = f"{variable}={program}" if variable else "python3, the first in PATH"
    what = "is no Python that has ottla" if found else "is not there"
    return (
        f'Spark will not find format("ottla") by itself: it looks for data sources with {named}, which {what}. Call '
        f"ottla.spark.register(spark) when the session is there, or set PYSPARK_DRIVER_PYTHON to {sys.executable} "
        "before Spark starts"
    )


def _has_ottla(program: str) -> bool:
    if not Path(program).name.startswith(("python", "pypy")):
        return False  # jupyter would be started
    if sys.executable and Path(program).parent.samefile(Path(sys.executable).parent):
        return True
    try:
        done = subprocess.run([program, "-c", _FIND], capture_output=True, timeout=_PATIENCE, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def is_a_driver() -> bool:
    """Whether this process may make a session of its user's: it is neither a Spark process nor `ottla ingest`."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    name = spec.name if spec else Path(getattr(main, "__file__", None) or "").stem
    return name.partition(".")[0] not in ("pyspark", "ottla")
