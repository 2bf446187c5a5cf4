"""A plugin of pytest: Quix Streams runs on ottla, and what its tests start by testcontainers is the embedded broker or registry.

Of the suite it runs the tests that make a client: those without one are Quix's alone.
"""

import os
import sys
import types
from multiprocessing import spawn
from pathlib import Path

import pytest
from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker, Registry

# For comparisons: the suite on confluent-kafka itself.
THEIRS = os.environ.get("OTTLA_JUDGE_SIDE") == "theirs"
if not THEIRS:
    from ottla.compat.confluent_kafka import install

    install()
# What the image sets.
CONFIG = {"log.retention.ms": -1, "group.initial.rebalance.delay.ms": 10, "auto.create.topics.enable": True}


class Container:
    """A container whose image says what runs in its place, on the port that its users connect to."""

    def __init__(self, image, **_):
        self.image, self.port, self.runs = image, None, None

    def with_env(self, *_):
        return self

    def with_network(self, _):
        return self

    def with_bind_ports(self, _, port):
        self.port = port
        return self

    def start(self):
        is_registry = "schema-registry" in self.image
        self.runs = Registry(port=self.port) if is_registry else Broker(port=self.port, config=CONFIG)
        self.runs.start()

    def get_logs(self):
        return [b"Kafka Server started", b"Server started, listening for requests"]

    def stop(self):
        self.runs.stop()


class Network:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def module(name, **contents):
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(contents)


module("testcontainers")
module("testcontainers.core")
module("testcontainers.core.container", DockerContainer=Container)
module("testcontainers.core.network", Network=Network)


def pytest_configure():
    if THEIRS:
        return
    # Sources run in processes of their own, which start with none of this.
    original = spawn.get_command_line

    def command_line(**options):
        command = original(**options)
        at = command.index("-c") + 1
        command[at] = f"from ottla.compat.confluent_kafka import install; install(); {command[at]}"
        return command

    spawn.get_command_line = command_line


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    connects = [i for i in items if "kafka_container" in i.fixturenames or Path(i.path).parent.name == "test_kafka"]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(connects)])
    items[:] = connects
