"""Functions for tests/spark/test_tokens.py that Spark's Python calls on the driver. Each call is noted in a file."""

import os
from pathlib import Path

from pyspark import TaskContext

from ottla.testing import bearer_token

# Seconds for which a token of `short` is valid. A task may get one that has no more than half of them left.
LIFETIME = 20


def _made(lifetime: float) -> tuple[str, float, dict[str, str]]:
    assert TaskContext.get() is None, "a task calls the function"
    with (Path(os.environ["OTTLA_TESTS"]) / "calls").open("a") as calls:
        calls.write("call\n")
    return bearer_token("alice", lifetime=lifetime), lifetime, {"trace": "7"}


def token() -> tuple[str, float, dict[str, str]]:
    return _made(600)


def short() -> tuple[str, float, dict[str, str]]:
    return _made(LIFETIME)


def broken() -> None:
    raise LookupError("the vault is sealed")
