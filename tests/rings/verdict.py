"""Whether a failed test of the real ring may run again.

A failed assertion is a wrong result (a lost, doubled, reordered or damaged record, a false delivery result), and a wrong result is
never retried. Neither is a panic, a signal, or a hang of a call of ours. What may run again is what a busy machine explains: an event
that did not happen in time, a program of others that failed, a broker that did not come up.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ottla
from ottla import errors
from tests.brokers.running import StartError
from tests.waiting import NotInTimeError

PACKAGE = Path(ottla.__file__).parent
# Whoever calls these waits for Spark or for a broker, not for a call of ours.
WAITS_FOR_OTHERS = (PACKAGE / "spark", PACKAGE / "testing")

PANIC = re.compile(r"PanicException|panicked at")
SIGNAL = re.compile(r"\bcrashed while running\b|\bSIG(?:ABRT|SEGV|BUS|ILL)\b|\bFatal Python error\b")
DAMAGE = (errors.ProtocolError, errors.OffsetOutOfRangeError)
# What Spark tells of an exception of ours, or of a failed assertion, in a task or in the reader of a stream.
WRONG_IN_SPARK = re.compile(r"\b(?:AssertionError|DataLossError|CorruptRecordError)\b")


# The file and the statement of a frame.
Frame = tuple[Path, str]


def never_retried(failure: BaseException, text: str, frames: list[Frame]) -> str | None:
    """Why the failure is red at once; None if the test may run again.

    `text` is the report with its captured output; the innermost of `frames` is the last.
    """
    if PANIC.search(text):
        return "a panic"
    if SIGNAL.search(text):
        return "a signal"
    if is_timeout_of_test(failure):
        return "a hang of our own call" if waits_in_our_call(frames) else None
    if isinstance(failure, NotInTimeError | StartError):
        return None
    if isinstance(failure, subprocess.SubprocessError):
        return of_program(failure)
    if type(failure) is TimeoutError and any(path.parent.name == "asyncio" for path, _ in frames):
        return "a hang of our own call"
    if isinstance(failure, errors.KafkaError):
        # Any other one is what a broker responded, or that it did not respond.
        return "damaged or lost records" if isinstance(failure, DAMAGE) else None
    if isinstance(failure, SystemExit | OSError):  # the harness of real brokers; a connection to one
        return None
    if type(failure).__module__.partition(".")[0] in {"builtins", "_pytest", "tests"}:
        return "a wrong result"
    # A foreign client or Spark.
    return "a wrong result" if WRONG_IN_SPARK.search(str(failure)) else None


def is_timeout_of_test(failure: BaseException) -> bool:
    """Whether pytest-timeout ended the test."""
    return type(failure).__name__ == "Failed" and "from pytest-timeout" in str(failure)


def waits_in_our_call(frames: list[Frame]) -> bool:
    """Whether the test's innermost call is one of ottla's. Its compiled calls have no frame, so that the test's own is innermost."""
    names = set()
    for path, statement in reversed(frames):
        if path.name == "pytest_timeout.py" or path.parent.name == "_pytest":
            continue
        if path.is_relative_to(PACKAGE):
            return not any(path.is_relative_to(other) for other in WAITS_FOR_OTHERS)
        if "site-packages" in path.parts:
            return False
        if "tests" in path.parts:
            return "asyncio" in names or not (names or "sleep(" in statement)
        names.add(path.parent.name)
    return False


def of_program(failure: subprocess.SubprocessError) -> str | None:
    """A Python program of a test runs ottla, so what befalls it befalls us; any other program is somebody else's."""
    returned = getattr(failure, "returncode", 0)
    if returned < 0:
        return f"signal {-returned}"
    command = getattr(failure, "cmd", "")
    program = command if isinstance(command, str) else str(command[0])
    if program != sys.executable:
        return None
    return "a hang of our own call" if isinstance(failure, subprocess.TimeoutExpired) else "a wrong result"
