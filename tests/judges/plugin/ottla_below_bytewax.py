"""A plugin of pytest: bytewax's Kafka connectors run on ottla, and on the embedded broker."""

import os

from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker

# For comparisons: the suite on confluent-kafka itself.
if os.environ.get("OTTLA_JUDGE_SIDE") != "theirs":
    from ottla.compat.confluent_kafka import install

    install()
# The suite needs a topic that does not exist to stay so.
BROKER = Broker(config={"auto.create.topics.enable": False}).start()
# Its module reads this when it is imported.
os.environ["TEST_KAFKA_BROKER"] = BROKER.bootstrap_servers


def pytest_unconfigure():
    BROKER.stop()
