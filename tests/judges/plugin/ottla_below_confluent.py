"""A plugin of pytest: confluent_kafka runs on ottla, and a file gets what became of each test."""

import pytest
from outcomes import *  # noqa: F403 the hooks

from ottla.compat.confluent_kafka import install

install()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """A signal that comes after the call it was meant for ends its test, not the run."""
    try:
        return (yield)
    except KeyboardInterrupt:
        raise AssertionError("the test was interrupted") from None
