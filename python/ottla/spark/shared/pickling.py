"""Objects that Spark sends to its executors. If ottla is missing there, the error names the executor and its Python.

Spark sends objects by cloudpickle, which names the modules of their classes. Without such a module, Spark ends the task
with a ModuleNotFoundError that names neither the executor nor its Python.
"""

import pickle
from typing import Any

from pyspark import cloudpickle


def _open(module: str, name: str, state: bytes) -> Any:
    """Make the object again. This travels as code, so that it runs where there is no ottla, and finds all it needs."""
    import importlib
    import pickle
    import socket
    import sys

    try:
        kind = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ImportError(
            f"the Python of this executor ({sys.executable} on {socket.gethostname()}) cannot import ottla: {error}. "
            "Install ottla there as it is on the driver, or set PYSPARK_PYTHON to a Python on each host that has it"
        ) from None
    made = object.__new__(kind)
    made.__dict__.update(pickle.loads(state))  # noqa: S301 - Spark itself has just unpickled the rest
    return made


# Cloudpickle sends what stands in this module as code.
_open.__module__ = "__main__"


class Picklable:
    """A class whose objects Spark sends to executors. It pickles by cloudpickle alone."""

    def __reduce__(self) -> tuple[Any, tuple[str, str, bytes]]:
        kind, state = type(self), cloudpickle.dumps(vars(self), pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]
        return _open, (kind.__module__, kind.__name__, state)
