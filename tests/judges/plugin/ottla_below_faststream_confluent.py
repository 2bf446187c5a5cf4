"""A plugin of pytest: FastStream's confluent broker runs on ottla, and the embedded broker listens where its tests connect."""

import os

from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker

# For comparisons: the suite on librdkafka itself.
if os.environ.get("OTTLA_JUDGE_SIDE") != "theirs":
    from ottla.compat.confluent_kafka import install

    install()
BROKER = Broker(port=9092, config={"auto.create.topics.enable": True})


def pytest_sessionstart():
    BROKER.start()


def pytest_unconfigure():
    BROKER.stop()
