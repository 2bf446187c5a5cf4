"""`python -m ottla.compat PROGRAM ARGUMENTS...`: run a program for confluent-kafka or aiokafka on ottla."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

from ottla.compat import aiokafka, confluent_kafka

_USAGE = "usage: python -m ottla.compat PROGRAM [ARGUMENTS...]\n       python -m ottla.compat -m MODULE [ARGUMENTS...]"


def main(arguments: list[str]) -> None:
    """Run the program as `python PROGRAM` runs it."""
    if not arguments or arguments[0] in {"-h", "--help"} or arguments == ["-m"]:
        sys.exit(_USAGE)
    aiokafka.install()
    if importlib.util.find_spec("confluent_kafka") is not None:
        confluent_kafka.install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    # As Python does it: the program's folder comes first in the search for modules.
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
