"""A plugin of pytest: kombu's integration tests of its Kafka transport run on ottla's transport, and on the embedded broker."""

import functools
import os

import kombu
from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker

BROKER = Broker(config={"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}).start()
# For comparisons: the suite on kombu's own transport.
THEIRS = os.environ.get("OTTLA_JUDGE_SIDE") == "theirs"
# The tests' own addresses: that of a broker, and one where nobody listens.
RUNNING, CLOSED = "confluentkafka://localhost:9092", "confluentkafka://localhost:12345"
SCHEME = "confluentkafka" if THEIRS else "ottla"


def moved(url):
    """The URL with the embedded broker, or the address where nobody listens, in place of the tests' own."""
    url = url.replace(RUNNING, f"{SCHEME}://{BROKER.bootstrap_servers}")
    return url.replace(CLOSED, f"{SCHEME}://127.0.0.1:1")


def pytest_configure(config):
    config.addinivalue_line("markers", "env(name): the service that a test needs")
    if not THEIRS:
        import ottla.integrations.kombu  # noqa: F401 it makes the scheme known
    made = kombu.Connection.__init__

    @functools.wraps(made)
    def connection(self, hostname="localhost", *arguments, **options):
        made(
            self,
            [moved(url) for url in hostname] if isinstance(hostname, list) else moved(hostname),
            *arguments,
            **options,
        )

    kombu.Connection.__init__ = connection


def pytest_unconfigure():
    BROKER.stop()
