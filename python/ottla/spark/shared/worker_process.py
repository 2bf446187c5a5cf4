"""The Spark process that runs tasks in Python."""

import gc
import sys

_DONE: list[bool] = []


def spare_collections() -> None:
    """Exclude loaded objects from garbage collection, once in a Spark worker.

    Spark's daemon collects the garbage of its worker after every task. Over all that PySpark, pyarrow and ottla have
    loaded that takes longer than a small task; none of it is garbage before the process ends. That it is done is
    remembered, since Python counts what is out of sight one by one.
    """
    if _DONE:
        return
    _DONE.append(True)
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program and program.name == "pyspark.daemon":
        gc.collect()
        gc.freeze()
