"""Subscriptions to client metrics (KIP-714) on the embedded broker; `tests/integration/test_telemetry.py` has real Kafka do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ottla
from ottla.testing import Broker
from tests.admin.subscriptions import REQUESTED, requested
from tests.python.test_telemetry import pushes_of, read

if TYPE_CHECKING:
    from pathlib import Path

SUBSCRIPTION = ottla.ConfigResource("CLIENT_METRICS", "sent records")
CONFIGS = {"interval.ms": "100", "match": "client_id=shop", "metrics": "org.apache.kafka.producer.record.send"}


def configs(bootstrap: str) -> dict[str, str | None]:
    """What is set for the subscription."""
    with ottla.Admin(bootstrap) as admin:
        found = admin.describe_configs(SUBSCRIPTION)[SUBSCRIPTION]
        assert [row.name for row in found] == sorted(CONFIGS)
        return {row.name: row.value for row in found if row.source == "DYNAMIC_CLIENT_METRICS_CONFIG"}


def subscribe(bootstrap: str, values: dict[str, str | None]) -> None:
    with ottla.Admin(bootstrap) as admin:
        admin.incremental_alter_configs({SUBSCRIPTION: values})


def test_the_matching_subscriptions_are_requested_as_kafka_requests_them() -> None:
    with Broker() as broker:
        assert requested(broker.bootstrap_servers) == REQUESTED


def test_a_producer_pushes_what_a_subscription_wants() -> None:
    with Broker(topics=["t"]) as broker:
        bootstrap = broker.bootstrap_servers
        subscribe(bootstrap, dict(CONFIGS))
        with (
            ottla.Producer(bootstrap, client_id="shop", linger_ms=0) as producer,
            ottla.Producer(bootstrap, client_id="other", linger_ms=0) as other,
        ):
            for each in (producer, other):
                each.send("t", b"v").result(30)
            first, *_ = pushes_of(broker, "shop")
            _, metrics = read(first)
            assert metrics
            assert all(name.startswith(CONFIGS["metrics"]) for name in metrics)
            # The producer learns of the change without a new connection.
            subscribe(bootstrap, {"metrics": "org.apache.kafka.producer.connection.count"})
            count = len(pushes_of(broker, "shop"))
            changed = pushes_of(broker, "shop", count + 2)[-1]
            assert set(read(changed)[1]) == {"org.apache.kafka.producer.connection.count"}
        assert {push.client_id for push in broker.telemetry()} == {"shop"}


def test_a_folder_keeps_subscriptions(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        subscribe(broker.bootstrap_servers, dict(CONFIGS))
    with Broker(data_dir=tmp_path) as broker:
        assert configs(broker.bootstrap_servers) == CONFIGS
        subscribe(broker.bootstrap_servers, dict.fromkeys(CONFIGS))
    with Broker(data_dir=tmp_path) as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        assert admin.list_config_resources("CLIENT_METRICS") == []


def test_all_nodes_know_a_subscription() -> None:
    with Broker(nodes=3) as cluster:
        first, *others = cluster.bootstrap_servers.split(",")
        subscribe(first, dict(CONFIGS))
        message = {"resources": [{"resourceType": 16, "resourceName": SUBSCRIPTION.name, "configurationKeys": None}]}
        with ottla.Admin(first) as admin:
            for node in (1, 2, 3):
                [row] = admin.request("DescribeConfigs", message, broker=node)["results"]
                assert {entry["name"]: entry["value"] for entry in row["configs"]} == CONFIGS
        assert len(others) == 2
