"""The process of Spark's that runs tasks in Python."""

import gc
import sys


def spare_collections() -> None:
    """Take what is loaded by now out of the garbage collector's sight, once in a worker of Spark's.

    Spark's daemon collects the garbage of its worker after every task. Over all that PySpark, pyarrow and ottla have
    loaded that takes longer than a small task; none of it is garbage before the process ends.
    """
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program and program.name == "pyspark.daemon" and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
