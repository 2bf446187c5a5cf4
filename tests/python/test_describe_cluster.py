"""`Admin.describe_cluster`, by both facades, from brokers of each age."""

from __future__ import annotations

import dataclasses
import pickle
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from tests.python.conftest import Api

# Kafka names 7 operations that a principal may be allowed on a cluster (AclEntry.supportedOperations).
CLUSTER_OPERATIONS = {
    "CREATE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
}


def test_a_cluster_is_its_brokers_and_its_controller(api: Api) -> None:
    with Broker(nodes=3) as cluster, api.admin(cluster.bootstrap_servers) as admin:
        found = api(admin.describe_cluster())
        assert found.cluster_id
        assert [node.id for node in found.nodes] == cluster.nodes
        assert [f"{node.host}:{node.port}" for node in found.nodes] == cluster.bootstrap_servers.split(",")
        assert {(node.rack, node.is_fenced) for node in found.nodes} == {(None, False)}
        assert found.controller == found.nodes[cluster.controller - 1]
        assert found.authorized_operations is None
        assert api(admin.describe_cluster(include_fenced_brokers=True)) == found


# DescribeCluster came with 2.8; before it, Metadata names operations from 2.3 on, and a cluster's id from 0.10.1 on.
@pytest.mark.parametrize(
    ("release", "operations", "has_id"),
    [
        ("4.4", CLUSTER_OPERATIONS, True),
        ("2.8", CLUSTER_OPERATIONS, True),
        ("2.3", CLUSTER_OPERATIONS, True),
        ("1.1", None, True),
        ("0.10.0", None, False),
    ],
)
def test_brokers_of_any_age_describe_their_cluster(
    api: Api, release: str, operations: set[str] | None, *, has_id: bool
) -> None:
    with Broker(as_version=release) as broker, api.admin(broker.bootstrap_servers) as admin:
        found = api(admin.describe_cluster(include_authorized_operations=True))
        assert found.authorized_operations == operations
        assert (found.cluster_id is not None) == has_id
        assert found.nodes == [found.controller]


@pytest.mark.parametrize("release", ["3.9", "1.1"])
def test_brokers_that_do_not_list_fenced_ones_say_so(api: Api, release: str) -> None:
    with (
        Broker(as_version=release) as broker,
        api.admin(broker.bootstrap_servers) as admin,
        pytest.raises(errors.UnsupportedError, match="DescribeCluster"),
    ):
        api(admin.describe_cluster(include_fenced_brokers=True))


def test_a_refusal_is_the_error(api: Api) -> None:
    with Broker() as broker, api.admin(broker.bootstrap_servers) as admin:
        broker.fail("DescribeCluster", "CLUSTER_AUTHORIZATION_FAILED")
        with pytest.raises(errors.AuthorizationError):
            api(admin.describe_cluster())


def test_a_description_is_a_value() -> None:
    node = ottla.Node(1, "localhost", 9092)
    described = ottla.ClusterDescription("id", node, [node], frozenset({"DESCRIBE"}))
    assert pickle.loads(pickle.dumps(described)) == described
    with pytest.raises(dataclasses.FrozenInstanceError):
        described.cluster_id = "other"  # type: ignore[misc]
