"""Admin calls on real Kafka: each scene of `tests/admin/scenes.py` returns what is kept, which the embedded broker is held against."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.errors import AuthorizationError, UnsupportedError
from tests.admin.outcomes import kept, outcome
from tests.admin.scenes import SCENES, refusal
from tests.integration.conftest import REAL
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_returns_what_is_kept(name: str, kafka: str) -> None:
    assert outcome(name, kafka) == kept("4.4.0")[name]


def test_access_control_lists(start_kafka: Callable[..., Cluster]) -> None:
    cluster = start_kafka(acl=True)
    with ottla.Admin(cluster.st["bootstrap"]["PLAINTEXT"]) as admin:
        rule = ottla.AclBinding("TOPIC", "flights", "User:alice", "READ")
        prefixed = ottla.AclBinding("GROUP", "team-", "User:bob", "READ", pattern_type="PREFIXED")
        wrong = ottla.AclBinding("TOPIC", "", "User:alice", "READ")
        assert refusal(admin.create_acls, [rule, wrong, prefixed])[:2] == ["INVALID_REQUEST", "INVALID_REQUEST"]
        admin.create_acls(rule)
        # Brokers learn of a change after the controller has responded.
        wait_until(lambda: admin.describe_acls() == [rule, prefixed], "the rules are there")
        assert admin.describe_acls(ottla.AclFilter("GROUP", "team-a", pattern_type="MATCH")) == [prefixed]
        wanted = ottla.AclFilter(principal="User:alice")
        assert admin.delete_acls([wanted]) == {wanted: [rule]}
        assert admin.delete_acls([wanted]) == {wanted: []}
        wait_until(lambda: admin.describe_acls() == [prefixed], "the rule is gone")


def test_subscriptions_to_metrics_of_clients(kafka: str) -> None:
    """What kafka-client-metrics.sh does: a subscription is a resource with properties (KIP-714)."""
    subscription = ("CLIENT_METRICS", "all-clients")
    values = {"metrics": "org.apache.kafka.producer.", "interval.ms": "60000", "match": "client_id=flights.*"}
    with ottla.Admin(kafka) as admin:
        admin.incremental_alter_configs({subscription: values})

        def found() -> dict[str, str | None]:
            [entries] = admin.describe_configs([subscription]).values()
            return {entry.name: entry.value for entry in entries if entry.source == "DYNAMIC_CLIENT_METRICS_CONFIG"}

        wait_until(lambda: found() == values, "the subscription is there")

        def is_listed() -> bool:
            return ottla.ConfigResource(*subscription) in admin.list_config_resources("CLIENT_METRICS")

        assert is_listed()
        with pytest.raises(ottla.KafkaError) as wrong:
            admin.incremental_alter_configs({subscription: {"interval.ms": "5"}})
        assert wrong.value.name == "INVALID_REQUEST"
        admin.incremental_alter_configs({subscription: dict.fromkeys(values)})
        wait_until(lambda: not is_listed(), "the subscription is gone")


def test_users_and_quotas(start_kafka: Callable[..., Cluster]) -> None:
    cluster = start_kafka()
    with ottla.Admin(cluster.st["bootstrap"]["PLAINTEXT"]) as admin:
        admin.alter_user_scram_credentials(
            [
                ottla.ScramUpsertion("carol", "SCRAM-SHA-256", "secret"),
                ottla.ScramUpsertion("dave", "SCRAM-SHA-512", "s", 4096),
            ]
        )
        found = {
            "carol": [ottla.ScramCredential("SCRAM-SHA-256", 8192)],
            "dave": [ottla.ScramCredential("SCRAM-SHA-512", 4096)],
        }
        wait_until(lambda: admin.describe_user_scram_credentials() == found, "the credentials are there")
        assert admin.describe_user_scram_credentials([]) == {}
        assert refusal(admin.describe_user_scram_credentials, ["carol", "nobody"]) == [
            "RESOURCE_NOT_FOUND",
            "RESOURCE_NOT_FOUND",
            1,
        ]
        refused = refusal(
            admin.alter_user_scram_credentials,
            [ottla.ScramDeletion("dave", "SCRAM-SHA-512"), ottla.ScramDeletion("nobody", "SCRAM-SHA-512")],
        )
        assert refused[1:] == ["RESOURCE_NOT_FOUND", 1]
        wait_until(lambda: list(admin.describe_user_scram_credentials()) == ["carol"], "the credential is gone")
        alice, default = {"user": "alice", "client-id": "a"}, {"user": None}
        admin.alter_client_quotas([(alice, {"producer_byte_rate": 1e6}), (default, {"consumer_byte_rate": 2e6})])
        both = [
            ottla.ClientQuota(dict(sorted(alice.items())), {"producer_byte_rate": 1e6}),
            ottla.ClientQuota(default, {"consumer_byte_rate": 2e6}),
        ]
        wait_until(
            lambda: sorted(map(repr, admin.describe_client_quotas())) == sorted(map(repr, both)), "the quotas are there"
        )
        assert [row.entity for row in admin.describe_client_quotas({"user": None})] == [default]
        assert admin.describe_client_quotas({"user": "alice"}, strict=True) == []
        assert len(admin.describe_client_quotas({"user": "*"})) == 2
        admin.alter_client_quotas([(alice, {"producer_byte_rate": None})], validate_only=True)
        assert len(admin.describe_client_quotas()) == 2
        admin.alter_client_quotas([(alice, {"producer_byte_rate": None})])
        wait_until(lambda: [row.entity for row in admin.describe_client_quotas()] == [default], "the quota is gone")
        assert refusal(admin.alter_client_quotas, [(default, {"nothing": 1.0})]) == [
            "INVALID_REQUEST",
            "INVALID_REQUEST",
            0,
        ]


def test_replicas_move(start_kafka: Callable[..., Cluster]) -> None:
    cluster = start_kafka(nodes=2)
    with ottla.Admin(cluster.st["bootstrap"]["PLAINTEXT"]) as admin:
        admin.create_topics([ottla.NewTopic("moving", 1, 1)])
        place = ottla.TopicPartition("moving", 0)
        (partition,) = admin.describe_topics("moving")["moving"].partitions
        other = 3 - partition.replicas[0]
        admin.alter_partition_reassignments({place: [other, *partition.replicas]})
        wait_until(lambda: not admin.list_partition_reassignments(), "the replicas have moved")

        def partition_now() -> ottla.PartitionInfo:
            return admin.describe_topics("moving")["moving"].partitions[0]

        wait_until(lambda: partition_now().replicas[0] == other, "the brokers have learned of the move")
        wait_until(lambda: len(partition_now().in_sync) == 2, "both are in sync")
        admin.elect_leaders("PREFERRED", [place])
        wait_until(lambda: partition_now().leader == other, "it leads")
        dirs = admin.describe_log_dirs()
        assert sorted(dirs) == [1, 2]
        (size,) = admin.list_topic_sizes("moving")
        assert (size.partitions, size.replicas) == (1, 2)


def test_a_plan_is_carried_out_and_its_throttle_ends(start_kafka: Callable[..., Cluster]) -> None:
    cluster = start_kafka(nodes=2)
    bootstrap = cluster.st["bootstrap"]["PLAINTEXT"]
    with ottla.Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic("planned", 4, 1)])
        with ottla.Producer(bootstrap) as producer:
            for partition in range(4):
                producer.send("planned", b"v" * 1000, partition=partition).result(30)
        everything = admin.plan_reassignment("planned", brokers=[1])
        admin.start_reassignment(everything)
        wait_until(
            lambda: {row.state for row in admin.verify_reassignment(everything)} <= {"done"}, "all replicas are on one"
        )
        plan = admin.plan_reassignment("planned", replication=2)
        assert sorted(move.planned[0] for move in plan.moves) == [1, 1, 2, 2]
        admin.start_reassignment(plan, throttle=1_000_000)
        topic = admin.describe_configs(("TOPIC", "planned"), names=["leader.replication.throttled.replicas"])
        ((row,),) = topic.values()
        assert row.value == "0:1,1:1,2:1,3:1"
        wait_until(lambda: {row.state for row in admin.verify_reassignment(plan)} == {"done"}, "the plan is done")

        def throttles() -> set[str]:
            topics = [("TOPIC", name) for name in admin.list_topics()]
            found = admin.describe_configs([*topics, ("BROKER", "1"), ("BROKER", "2")])
            rows = [row for rows in found.values() for row in rows if "throttled" in row.name]
            return {row.name for row in rows if row.source.startswith("DYNAMIC")}

        wait_until(lambda: not throttles(), "no throttle is left")
        assert admin.plan_reassignment("planned").moves == []

        # Brokers have one throttle for all moves: it stays while any other plan moves.
        admin.create_topics([ottla.NewTopic("slow", assignments=[[1]]), ottla.NewTopic("quick", assignments=[[1]])])
        with ottla.Producer(bootstrap) as producer:
            for _ in range(5):
                producer.send("slow", random.randbytes(900_000)).result(30)
        slow, quick = (admin.plan_reassignment(name, brokers=[2]) for name in ("slow", "quick"))
        admin.start_reassignment(slow, throttle=20_000)
        admin.start_reassignment(quick)
        wait_until(lambda: {row.state for row in admin.verify_reassignment(quick)} == {"done"}, "the empty one is done")
        assert {row.state for row in admin.verify_reassignment(slow)} == {"moving"}
        assert "follower.replication.throttled.rate" in throttles()
        admin.alter_partition_reassignments({ottla.TopicPartition("slow", 0): None})
        wait_until(
            lambda: admin.verify_reassignment(slow) and not throttles(), "nothing moves, and nothing is throttled"
        )


def test_what_an_old_broker_does_not_do(start_kafka: Callable[..., Cluster]) -> None:
    cluster = start_kafka(version="2.8.2")
    with ottla.Admin(cluster.st["bootstrap"]["PLAINTEXT"]) as admin:
        admin.create_topics([ottla.NewTopic("old", 1, 1)])
        place = ottla.TopicPartition("old", 0)
        admin.create_partitions({"old": 2})
        resource = ottla.ConfigResource("TOPIC", "old")
        admin.incremental_alter_configs({resource: {"retention.ms": "5"}})

        def retention() -> tuple[str | None, str, str]:
            (row,) = admin.describe_configs(resource, names=["retention.ms"], include_synonyms=True)[resource]
            return row.value, row.source, row.type

        wait_until(lambda: retention() == ("5", "DYNAMIC_TOPIC_CONFIG", "LONG"), "the topic has its configuration")
        assert admin.list_offsets({place: "latest"})[place].offset == 0
        assert admin.list_groups(states="Stable") == []
        admin.alter_group_offsets("g", {place: 0})
        assert list(admin.list_group_offsets("g")["g"]) == [place]
        admin.delete_groups("g")
        assert list(admin.describe_log_dirs()) == [1]
        assert admin.elect_leaders() == {}
        for call in (
            lambda: admin.list_groups(types="share"),
            lambda: admin.list_offsets({place: "max_timestamp"}),
            admin.list_config_resources,
            lambda: admin.describe_share_groups("g"),
            lambda: admin.describe_streams_groups("g"),
            admin.describe_metadata_quorum,
            admin.list_transactions,
            lambda: admin.update_features({"group.version": 1}, validate_only=True),
        ):
            with pytest.raises(UnsupportedError):
                call()


def test_what_is_denied(start_kafka: Callable[..., Cluster]) -> None:
    cluster = start_kafka(acl=True, sasl="plain")
    settings = {
        "bootstrap.servers": cluster.st["bootstrap"]["SASL_PLAINTEXT"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
        "sasl.allow.plaintext": True,
    }
    with ottla.Admin(cluster.st["bootstrap"]["PLAINTEXT"]) as root:
        root.create_topics([ottla.NewTopic("closed", 1, 1)])
    with ottla.Admin(settings) as admin:
        for call in (
            lambda: admin.describe_configs(("TOPIC", "closed")),
            lambda: admin.incremental_alter_configs({("TOPIC", "closed"): {"retention.ms": "1"}}),
            admin.list_config_resources,
            lambda: admin.delete_groups("g"),
            lambda: admin.list_group_offsets("g"),
            admin.describe_acls,
            lambda: admin.create_acls(ottla.AclBinding("TOPIC", "a", "User:alice", "READ")),
            admin.describe_user_scram_credentials,
            admin.describe_client_quotas,
            admin.describe_log_dirs,
            admin.list_partition_reassignments,
            admin.describe_metadata_quorum,
            lambda: admin.unregister_broker(77),
            lambda: admin.update_features({"group.version": 0}),
            lambda: admin.lag("g"),
        ):
            with pytest.raises(AuthorizationError):
                call()
