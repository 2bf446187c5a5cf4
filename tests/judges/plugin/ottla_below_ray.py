"""A plugin of pytest: Ray's Kafka tests run on the embedded broker, by confluent-kafka itself or by ottla below it.

Ray Data reads and writes with confluent-kafka in its workers. ottla takes its place there, and in the tests.
"""

import importlib.util
import os
import sys
import types

import pytest
import ray.data
from outcomes import *  # noqa: F403 the hooks
from ray_start import start

import ottla.testing

# For comparisons: the suite on confluent-kafka itself.
THEIRS = os.environ.get("OTTLA_JUDGE_SIDE") == "theirs"
RUNTIME = {} if THEIRS else {"worker_process_setup_hook": "ottla.compat.confluent_kafka.install"}
if not THEIRS:
    from ottla.compat.confluent_kafka import install

    install()


def module(name, **contents):
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(contents)


module("testcontainers")
module("testcontainers.kafka", KafkaContainer=ottla.testing.KafkaContainer)
# Tests of Ray's main branch name modules of its datasources by a path that release 2.60 does not have.
if importlib.util.find_spec("ray.data._internal.io") is None:
    from ray.data._internal.datasource import kafka_datasink, kafka_datasource

    module("ray.data._internal.io")
    module("ray.data._internal.io.datasink", kafka_datasink=kafka_datasink)
    module("ray.data._internal.io.datasource", kafka_datasource=kafka_datasource)
    sys.modules["ray.data._internal.io.datasink.kafka_datasink"] = kafka_datasink
    sys.modules["ray.data._internal.io.datasource.kafka_datasource"] = kafka_datasource
    ray.data._internal.io = sys.modules["ray.data._internal.io"]
    ray.data._internal.io.datasink = sys.modules["ray.data._internal.io.datasink"]


@ray.remote
def is_ottla():
    """ottla's classes have the names of confluent-kafka's modules, but librdkafka's module is not loaded."""
    import confluent_kafka.cimpl

    return not str(getattr(confluent_kafka.cimpl, "__file__", "")).endswith(".so")


def pytest_sessionstart():
    # Before the first test, whose time limit does not cover the start of Ray, of workers and of a first dataset.
    start(num_cpus=1, object_store_memory=10**8, runtime_env=RUNTIME)
    if ray.get(is_ottla.remote(), timeout=300) is THEIRS:
        raise pytest.UsageError(f"Ray's workers have {'ottla' if THEIRS else 'librdkafka'}")
    ray.data.range(1).take_all()


def pytest_unconfigure():
    ray.shutdown()


@pytest.fixture(scope="module")
def ray_start_regular_shared():
    """Ray's own fixture of this name is not in its wheel."""
