"""Groups of the classic protocol as both admin clients list and describe them, on the embedded broker."""

from __future__ import annotations

import pickle
import struct
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors, protocol
from ottla.testing import Broker
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

USERS = {"root": "root-secret", "alice": "alice-secret"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """Three nodes with a group of a consumer, one that only has offsets, and one that alice may not see."""
    with (
        Broker(
            nodes=3,
            topics={"t": 2},
            listeners=["PLAINTEXT", "SASL_PLAINTEXT mechanisms=PLAIN"],
            users=USERS,
            super_users=["ANONYMOUS", "root"],
            acls=["alice describe group:seen*"],
            config={"group.initial.rebalance.delay.ms": 0},
        ) as broker,
        Connection(coordinator(broker, "seen-readers")) as member,
    ):
        join(member)
        for group in ("seen-offsets", "hidden"):
            with Connection(coordinator(broker, group)) as connection:
                topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
                commit = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
                answer = connection.ask("OffsetCommit", 8, commit)
                assert answer["topics"][0]["partitions"][0]["error_code"] == 0
        yield broker


def coordinator(broker: Broker, group: str) -> str:
    """Its address; asking for it makes it one."""
    first, *_ = addresses = broker.bootstrap_of("PLAINTEXT").split(",")
    with Connection(first) as connection:
        found = connection.ask("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [group]})["coordinators"]
    assert found[0]["error_code"] == 0
    return addresses[found[0]["node_id"] - 1]


def blob(name: str, message: dict[str, Any]) -> bytes:
    return struct.pack(">h", 1) + protocol.encode(name, 1, message)


def join(member: Connection) -> None:
    """The only member of a group of consumers, which reads both partitions."""
    subscription = blob("ConsumerProtocolSubscription", {"topics": ["t"], "userData": None, "ownedPartitions": []})
    joined = member.ask(
        "JoinGroup",
        3,
        {
            "group_id": "seen-readers",
            "session_timeout_ms": 60_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription}],
        },
        client_id="app",
    )
    assert joined["error_code"] == 0
    assigned = [{"topic": "t", "partitions": [1, 0]}]
    assignment = blob("ConsumerProtocolAssignment", {"assignedPartitions": assigned, "userData": None})
    synced = member.ask(
        "SyncGroup",
        2,
        {
            "group_id": "seen-readers",
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
            "assignments": [{"member_id": joined["member_id"], "assignment": assignment}],
        },
        client_id="app",
    )
    assert synced["error_code"] == 0


def alice(broker: Broker) -> dict[str, Any]:
    options = broker.client_config("alice", listener="SASL_PLAINTEXT")
    return {"config": options, "sasl_allow_plaintext": True}


def test_groups_are_listed_and_described(api, guarded):
    with api.admin(guarded.bootstrap_of("PLAINTEXT")) as admin:
        listed = api(admin.list_groups())
        assert listed == [
            ottla.GroupListing("hidden", "", "Empty", "classic"),
            ottla.GroupListing("seen-offsets", "", "Empty", "classic"),
            ottla.GroupListing("seen-readers", "consumer", "Stable", "classic"),
        ]
        described = api(admin.describe_groups(["seen-readers", "hidden"]))
        assert list(described) == ["seen-readers", "hidden"]
        empty, readers = described["hidden"], described["seen-readers"]
        assert (empty.group_id, empty.state, empty.members) == ("hidden", "Empty", [])
        assert (readers.state, readers.protocol_type, readers.protocol) == ("Stable", "consumer", "range")
        (member,) = readers.members
        assert (member.client_id, member.group_instance_id) == ("app", None)
        assert "127.0.0.1" in member.client_host
        assert member.assignment == [("t", 0), ("t", 1)]
        assert all(isinstance(each, ottla.TopicPartition) for each in member.assignment)
        subscription = protocol.decode("ConsumerProtocolSubscription", 1, member.metadata[2:])
        assert subscription["topics"] == ["t"]
        assert pickle.loads(pickle.dumps(described)) == described
        assert "metadata" not in repr(readers)
        with pytest.raises(FrozenInstanceError):
            readers.state = "Dead"
        assert list(api(admin.describe_groups("seen-offsets"))) == ["seen-offsets"]


@pytest.mark.parametrize("release", ["2.3", None])
def test_a_group_that_does_not_exist_is_not_found(api, release):
    with Broker(as_version=release) as broker, api.admin(broker.bootstrap_servers) as admin:
        assert api(admin.list_groups()) == []
        with pytest.raises(errors.NotFoundError, match="group nobody") as caught:
            api(admin.describe_groups(["nobody"]))
        assert (caught.value.name, caught.value.api) == ("GROUP_ID_NOT_FOUND", "DescribeGroups")
        assert list(caught.value.failures) == ["nobody"]


def test_what_may_not_be_seen_is_denied_by_name(api, guarded):
    with api.admin(**alice(guarded)) as admin:
        assert [group.group_id for group in api(admin.list_groups())] == ["seen-offsets", "seen-readers"]
        with pytest.raises(errors.AuthorizationError) as caught:
            api(admin.describe_groups(["seen-readers", "hidden"]))
        assert list(caught.value.failures) == ["hidden"]
        said = str(caught.value)
        for word in ("GROUP_AUTHORIZATION_FAILED", "group hidden", "DESCRIBE on the group", "broker 127.0.0.1:"):
            assert word in said


def test_brokers_before_3_0_have_no_lists_of_transactions(api):
    with Broker(as_version="2.8") as broker, api.admin(broker.bootstrap_servers) as admin:
        for call in (admin.list_transactions, lambda: admin.describe_transactions(["x"])):
            with pytest.raises(errors.UnsupportedError, match=r"needs brokers of Kafka 3\.0"):
                api(call())
