"""What all tests share: programs that may be missing on a laptop and never under CI, and failures told as they come."""

import ctypes.util
import importlib.util
import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.brokers import runs
from tests.brokers.limits import pytest_timeout_cancel_timer, pytest_timeout_set_timer  # noqa: F401 hooks

ROOT = Path(__file__).parents[1]

# On a busy machine a single example may take long; the test as a whole has its deadline.
settings.register_profile(
    "ottla", deadline=None, database=DirectoryBasedExampleDatabase(ROOT / "target" / "hypothesis")
)
settings.load_profile("ottla")

UNDER_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}
MISSING = pytest.StashKey[dict[str, int]]()
# The section of a report on a test that hung, in which lines say where.
HUNG = "hung"


def pytest_configure(config):
    config.stash[MISSING] = {}
    runs.begin()
    # A shell that runs tests in the background has them ignore Ctrl-C, which some of them send.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A run that is stopped before its end has no summary.
    if config.getoption("numprocesses", None):
        config.pluginmanager.register(Told(config))


def pytest_unconfigure(config):
    runs.end()


class Told:
    """Tells a failure when it comes, in the run that hands the tests out."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        if not report.failed:
            return
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message if crash else str(report.longrepr)
        terminal.ensure_newline()
        terminal.write_line(f"FAILED at {report.when}: {report.nodeid}: {reason.strip()[:300]}", red=True)
        for line in dict(report.sections).get(HUNG, "").splitlines():
            terminal.write_line(f"{HUNG}: {line[:300]}", red=True)


def present(tool: str) -> bool:
    """Whether a program can be started; `java` also through JAVA_HOME, as Spark finds it, and `pyright` and `uvloop` as modules.

    `libgssapi` is the system's library of Kerberos.
    """
    if tool in {"pyright", "uvloop"}:
        return importlib.util.find_spec(tool) is not None
    if tool == "libgssapi":
        return any(ctypes.util.find_library(name) for name in ("gssapi_krb5", "GSS"))
    home = os.environ.get("JAVA_HOME")
    if tool == "java" and home and (Path(home) / "bin" / "java").exists():
        return True
    return shutil.which(tool) is not None


def pytest_runtest_setup(item):
    """Skip, or under CI fail, a test whose programs are missing."""
    wanted = [tool for mark in item.iter_markers("needs") for tool in mark.args]
    lacking = [tool for tool in wanted if not present(tool)]
    if not lacking:
        return
    reason = f"needs {', '.join(lacking)}"
    if UNDER_CI:
        pytest.fail(f"{reason}, and under CI no lane may be skipped", pytrace=False)
    counts = item.config.stash[MISSING]
    for tool in lacking:
        counts[tool] = counts.get(tool, 0) + 1
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter, config):
    """Say loudly which lanes did not run."""
    for tool, count in sorted(config.stash[MISSING].items()):
        terminalreporter.section(f"NOT RUN: {count} tests need {tool}, which is not installed", sep="!", red=True)
