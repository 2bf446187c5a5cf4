"""A plugin of pytest: confluent-kafka's integration tests of schema registries, on the embedded broker and registry."""

import os
import sys
import types

from outcomes import *  # noqa: F403 the hooks

from ottla.testing import Broker, Registry

# What starts clusters for the tests is not needed: brokers and a registry run.
for name in ("trivup", "trivup.clusters", "trivup.clusters.KafkaCluster"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["trivup.clusters.KafkaCluster"].KafkaCluster = object
BROKER, REGISTRY = Broker(config={"auto.create.topics.enable": True}), Registry()


def pytest_sessionstart():
    BROKER.start()
    REGISTRY.start()
    for suffix in ("", "_7_0_1"):
        os.environ[f"BROKERS{suffix}"], os.environ[f"SR_URL{suffix}"] = BROKER.bootstrap_servers, REGISTRY.url


def pytest_collection_modifyitems():
    from confluent_kafka.schema_registry import AsyncSchemaRegistryClient
    from tests.integration.cluster_fixture import ByoFixture

    # Their class for clusters that run has the synchronous client only.
    ByoFixture.async_schema_registry = lambda _, conf=None: AsyncSchemaRegistryClient(
        {"url": REGISTRY.url, **(conf or {})}
    )


def pytest_unconfigure():
    REGISTRY.stop()
    BROKER.stop()
