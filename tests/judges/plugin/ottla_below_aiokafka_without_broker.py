"""A plugin of pytest: aiokafka runs on ottla, for tests that need no broker."""

import gc
import os

import pytest
from outcomes import *  # noqa: F403 the hooks

# For comparisons: the suite on aiokafka itself.
if os.environ.get("OTTLA_JUDGE_SIDE") != "theirs":
    from ottla.compat.aiokafka import install

    install()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    """A test that exceeds its time leaves a task. asyncio logs it when it is collected, and parses source for that.

    If that happens while pytest parses the test's source for its report, CPython 3.11 raises a SystemError, which ends the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
