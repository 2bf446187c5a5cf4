"""A plugin of pytest: Daft's integration tests of `daft.read_kafka` run on the embedded broker, by confluent-kafka itself or by ottla below it."""

import os

os.environ["DAFT_RUNNER"] = "native"
import daft  # noqa: F401 before pytest finds the one of the tree, which is not compiled
from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker

# For comparisons: the suite on confluent-kafka itself.
if os.environ.get("OTTLA_JUDGE_SIDE") != "theirs":
    from ottla.compat.confluent_kafka import install

    install()
# Where the tests connect.
BROKER = Broker(port=9092)


def pytest_sessionstart():
    BROKER.start()


def pytest_unconfigure():
    BROKER.stop()
