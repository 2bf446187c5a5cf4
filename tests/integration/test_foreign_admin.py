"""The admin clients of confluent-kafka and kafka-python get the same from the embedded broker as from real Kafka 4.4.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import Broker
from tests.brokers.running import EMBEDDED_KEPT
from tests.integration import foreign_admin
from tests.integration.conftest import REAL
from tests.integration.foreign_admin import without_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.brokers.brokers import Cluster

# Two runs of a real broker, and what a busy one has not learned yet differs now and then; tools and scenes compare each time.
pytestmark = [REAL, pytest.mark.nightly]

CLIENTS = {"confluent-kafka": foreign_admin.of_confluent, "kafka-python": foreign_admin.of_kafka_python}
# Steps of which only the texts of errors differ: they are the embedded broker's own.
OWN_TEXTS = {
    *("create", "create-wrong", "create-again", "partitions", "partitions-fewer", "alter-wrong"),
    *("create-acls", "describe-acls", "delete-acls", "elect", "delete-topics-again"),
}
# Kafka 4.4 with eligible leader replicas sets it for the cluster; the harness sets the other for its brokers.
SET_FOR_BROKERS = {"min.insync.replicas", "retention.ms"}


def comparable(name: str, found: Any, known: set[str]) -> Any:
    """An outcome without what may differ.

    Args:
        name: The step.
        found: Its outcome.
        known: The properties of topics that both brokers have. The embedded one has those that it acts on.
    """
    if name in OWN_TEXTS:
        found = without_texts(found)
    kept = known - SET_FOR_BROKERS
    if name.startswith("describe-configs") and "topic" not in found:
        return {key: value for key, value in found.items() if key in kept}
    for topic in found.get("topics", ()) if isinstance(found, dict) else ():
        if "configs" in topic:
            topic["configs"] = {key: value for key, value in topic["configs"].items() if key in kept}
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_admin_clients_get_the_same(client: str, start_kafka: Callable[..., Cluster]) -> None:
    cluster = start_kafka(config={"auto.create.topics.enable": "false"})
    steps = CLIENTS[client]
    bootstrap = cluster.st["bootstrap"]["PLAINTEXT"]
    foreign_admin.fill(bootstrap)
    real = foreign_admin.run(bootstrap, steps)
    with Broker(config={"auto.create.topics.enable": False, **EMBEDDED_KEPT}) as broker:
        foreign_admin.fill(broker.bootstrap_servers)
        embedded = foreign_admin.run(broker.bootstrap_servers, steps)
        known = set(foreign_admin.properties(broker.bootstrap_servers))
    assert known <= set(foreign_admin.properties(bootstrap))
    assert embedded.keys() == real.keys()
    pairs = {name: (comparable(name, embedded[name], known), comparable(name, real[name], known)) for name in real}
    assert {name: pair for name, pair in pairs.items() if pair[0] != pair[1]} == {}
