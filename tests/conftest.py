"""What all tests share: rings, programs that may be missing on a laptop and never under CI, and failures reported at once."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.brokers import runs
from tests.brokers.limits import pytest_timeout_cancel_timer, pytest_timeout_set_timer  # noqa: F401 hooks
from tests.rings import needs, results, selection

ROOT = Path(__file__).parents[1]

# On a busy machine a single example may take long; the test as a whole has its deadline. Without
# `OTTLA_SEED` every run tries the same.
settings.register_profile(
    "ottla",
    deadline=None,
    derandomize="OTTLA_SEED" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ottla")

UNDER_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}
MISSING = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser):
    parser.addoption(
        "--ring",
        choices=selection.RINGS,
        help="run only the tests of this ring; without it, all but those of `nightly` (tests/README.md)",
    )
    parser.addoption("--results", type=Path, help="write counts and failures to this file (tests/rings/results.py)")


def pytest_collection_modifyitems(config, items):
    """Mark the real tests, keep those of the chosen ring, and refuse a whole run from which tests are missing."""
    chosen = config.getoption("ring")
    kept, left_out = [], []
    for item in items:
        if selection.is_real(item):
            item.add_marker("real")
        of = selection.ring(item)
        # A test that is named runs, whatever its ring.
        wanted = of == chosen or (chosen is None and (of != "nightly" or "::" in "".join(config.args)))
        (kept if wanted else left_out).append(item)
    items[:] = kept
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if chosen and whole and (why := selection.hidden(chosen, len(kept))):
        raise pytest.UsageError(why)


def pytest_configure(config):
    config.stash[MISSING] = {}
    runs.begin()
    # A shell that runs tests in the background has them ignore Ctrl-C, which some of them send.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Workers of a run send their reports to the process that hands the tests out.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(results.Recorder(config, config.getoption("results")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    results.note_verdict(report, call)
    return report


def pytest_unconfigure(config):
    runs.end()


def pytest_runtest_setup(item):
    """Skip, or under CI fail, a test whose programs are missing."""
    wanted = [tool for mark in item.iter_markers("needs") for tool in mark.args]
    lacking = [tool for tool in wanted if not needs.present(tool)]
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
