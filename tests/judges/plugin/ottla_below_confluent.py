"""A plugin of pytest: confluent_kafka runs on ottla, and a file gets what became of each test."""

import json
import os
from pathlib import Path

import pytest

from ottla.compat.confluent_kafka import install

install()
OUTCOMES = {}


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """A signal that comes after the call it was meant for ends its test, not the run."""
    try:
        return (yield)
    except KeyboardInterrupt:
        raise AssertionError("the test was interrupted") from None


def pytest_runtest_logreport(report):
    worst = {"passed": 0, "skipped": 1, "failed": 2}
    if worst[report.outcome] >= worst[OUTCOMES.get(report.nodeid, "passed")]:
        OUTCOMES[report.nodeid] = report.outcome


def pytest_sessionfinish():
    Path(os.environ["OTTLA_JUDGE_REPORT"]).write_text(json.dumps(OUTCOMES))
