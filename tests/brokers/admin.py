"""`python -m tests.brokers.admin`: every call of Java's Admin, ours, and what it does on four brokers, as docs/results/admin.md.

Each of our calls is made once on real Kafka 4.4.0, 3.9.1 and 2.8.2 and on the embedded broker. `done` is a result; otherwise the
cell has Kafka's name of the error, or `unsupported` where the release does not have it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import ottla
from ottla.errors import KafkaError, UnsupportedError
from ottla.testing import Broker
from tests.brokers.running import running
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RELEASES = ("4.4.0", "3.9.1", "2.8.2")
PAGE = Path(__file__).parents[2] / "docs" / "results" / "admin.md"

# Java's names, ours, and what both brokers that a row is about must return where it is not `done`.
OURS = {
    "abortTransaction": "abort_transaction",
    "addRaftVoter": "add_raft_voter",
    "alterClientQuotas": "alter_client_quotas",
    "alterConsumerGroupOffsets": "alter_group_offsets",
    "alterPartitionReassignments": "alter_partition_reassignments",
    "alterReplicaLogDirs": "alter_replica_log_dirs",
    "alterShareGroupOffsets": "alter_share_group_offsets",
    "alterStreamsGroupOffsets": "alter_group_offsets",
    "alterUserScramCredentials": "alter_user_scram_credentials",
    "clientInstanceId": "client_instance_id",
    "close": "close",
    "createAcls": "create_acls",
    "createDelegationToken": "create_delegation_token",
    "createPartitions": "create_partitions",
    "createTopics": "create_topics",
    "deleteAcls": "delete_acls",
    "deleteConsumerGroupOffsets": "delete_group_offsets",
    "deleteConsumerGroups": "delete_groups",
    "deleteRecords": "delete_records",
    "deleteShareGroupOffsets": "delete_share_group_offsets",
    "deleteShareGroups": "delete_groups",
    "deleteStreamsGroupOffsets": "delete_group_offsets",
    "deleteStreamsGroups": "delete_groups",
    "deleteTopics": "delete_topics",
    "describeAcls": "describe_acls",
    "describeClassicGroups": "describe_groups",
    "describeClientQuotas": "describe_client_quotas",
    "describeCluster": "describe_cluster",
    "describeConfigs": "describe_configs",
    "describeConsumerGroups": "describe_groups",
    "describeDelegationToken": "describe_delegation_tokens",
    "describeFeatures": "describe_features",
    "describeLogDirs": "describe_log_dirs",
    "describeMetadataQuorum": "describe_metadata_quorum",
    "describeProducers": "describe_producers",
    "describeReplicaLogDirs": "describe_replica_log_dirs",
    "describeShareGroups": "describe_share_groups",
    "describeStreamsGroups": "describe_streams_groups",
    "describeTopics": "describe_topics",
    "describeTransactions": "describe_transactions",
    "describeUserScramCredentials": "describe_user_scram_credentials",
    "electLeaders": "elect_leaders",
    "expireDelegationToken": "expire_delegation_token",
    "fenceProducers": "fence_producers",
    "forceTerminateTransaction": "force_terminate_transaction",
    "incrementalAlterConfigs": "incremental_alter_configs",
    "listClientMetricsResources": "list_config_resources",
    "listConfigResources": "list_config_resources",
    "listConsumerGroupOffsets": "list_group_offsets",
    "listConsumerGroups": "list_groups",
    "listGroups": "list_groups",
    "listOffsets": "list_offsets",
    "listPartitionReassignments": "list_partition_reassignments",
    "listShareGroupOffsets": "list_share_group_offsets",
    "listStreamsGroupOffsets": "list_group_offsets",
    "listTopics": "list_topics",
    "listTransactions": "list_transactions",
    "metrics": "metrics",
    "registerMetricForSubscription": "register_metric_for_subscription",
    "removeMembersFromConsumerGroup": "remove_group_members",
    "removeRaftVoter": "remove_raft_voter",
    "renewDelegationToken": "renew_delegation_token",
    "unregisterBroker": "unregister_broker",
    "unregisterController": "unregister_controller",
    "unregisterMetricFromSubscription": "unregister_metric_from_subscription",
    "updateFeatures": "update_features",
}

# Calls that Java does not have.
BEYOND = (
    "find_hanging_transactions",
    "lag",
    "list_topic_sizes",
    "plan_reassignment",
    "request",
    "reset_group_offsets",
    "start_reassignment",
    "verify_reassignment",
)

NOTES = {
    "add_raft_voter": "the quorum is static: the call reaches it and is refused",
    "remove_raft_voter": "the quorum is static: the call reaches it and is refused",
    "unregister_controller": "of a controller that is not there",
    "unregister_broker": "of a broker that is not there",
    "remove_group_members": "of a member that is not there",
    "create_acls": "the brokers have no authorizer; with one: tests/integration/test_admin.py",
    "delete_acls": "as create_acls",
    "describe_acls": "as create_acls",
    "describe_streams_groups": "of a group that is not there",
    "describe_share_groups": "of a group that is not there; one that is: tests/admin/scenes.py",
    "alter_share_group_offsets": "of a group that is not there; one that is: tests/admin/scenes.py",
    "list_share_group_offsets": "of a group that is not there; one that is: tests/admin/scenes.py",
    "delete_share_group_offsets": "of a group that is not there; one that is: tests/admin/scenes.py",
    "abort_transaction": "with an epoch of a coordinator that is over",
    "create_delegation_token": "the brokers have no delegation.token.secret.key; with one: tests/integration/test_sasl.py",
    "renew_delegation_token": "as create_delegation_token",
    "expire_delegation_token": "as create_delegation_token",
    "describe_delegation_tokens": "as create_delegation_token",
    "register_metric_for_subscription": "what brokers get: tests/integration/test_telemetry.py",
    "client_instance_id": "the brokers have no plugin that takes metrics; with one: tests/integration/test_telemetry.py",
}


def probes(admin: ottla.Admin, bootstrap: str) -> dict[str, Callable[[], object]]:
    """A call for each of our methods, in an order in which they can be made, on topics and groups of its own."""
    topic, group, user = (f"{what}-{uuid.uuid4().hex[:8]}" for what in ("topic", "group", "user"))
    place, resource = ottla.TopicPartition(topic, 0), ("TOPIC", topic)
    node = admin.describe_cluster().nodes[0].id
    replica = ottla.TopicPartitionReplica(topic, 0, node)
    token = b"no token"
    rule = ottla.AclBinding("TOPIC", topic, "User:alice", "READ")
    voter = uuid.UUID(int=5)
    metric = ottla.AppMetric(topic, group)

    def grow() -> None:
        admin.create_partitions({topic: 2})
        wait_until(lambda: len(admin.describe_topics(topic)[topic].partitions) == 2, "brokers know both partitions")

    def add_user() -> None:
        admin.alter_user_scram_credentials([ottla.ScramUpsertion(user, "SCRAM-SHA-256", "secret")])
        wait_until(lambda: user in admin.describe_user_scram_credentials(), "brokers know the user")

    return {
        "create_topics": lambda: admin.create_topics(topic),
        "list_topics": admin.list_topics,
        "describe_topics": lambda: admin.describe_topics(topic, include_authorized_operations=True),
        "create_partitions": grow,
        "list_offsets": lambda: admin.list_offsets({place: "earliest", (topic, 1): "latest"}),
        "delete_records": lambda: admin.delete_records({place: 0}),
        "describe_producers": lambda: admin.describe_producers([place]),
        "describe_configs": lambda: admin.describe_configs(resource, include_synonyms=True),
        "incremental_alter_configs": lambda: admin.incremental_alter_configs({resource: {"retention.ms": "1000"}}),
        "list_config_resources": lambda: admin.list_config_resources("CLIENT_METRICS"),
        "alter_group_offsets": lambda: admin.alter_group_offsets(group, {place: 0, (topic, 1): 0}),
        "list_groups": lambda: admin.list_groups(protocol_types=""),
        "list_group_offsets": lambda: admin.list_group_offsets(group),
        "describe_groups": lambda: admin.describe_groups(group, include_authorized_operations=True),
        "lag": lambda: admin.lag(group),
        "reset_group_offsets": lambda: admin.reset_group_offsets(group, "earliest"),
        "delete_group_offsets": lambda: admin.delete_group_offsets(group, [place]),
        "remove_group_members": lambda: admin.remove_group_members(group, ["nobody"]),
        "delete_groups": lambda: admin.delete_groups(group),
        "describe_share_groups": lambda: admin.describe_share_groups(group),
        "list_share_group_offsets": lambda: admin.list_share_group_offsets(group),
        "alter_share_group_offsets": lambda: admin.alter_share_group_offsets(group, {place: 0}),
        "delete_share_group_offsets": lambda: admin.delete_share_group_offsets(group, topic),
        "describe_streams_groups": lambda: admin.describe_streams_groups(group),
        "describe_acls": admin.describe_acls,
        "create_acls": lambda: admin.create_acls(rule),
        "delete_acls": lambda: admin.delete_acls(ottla.AclFilter()),
        "alter_user_scram_credentials": add_user,
        "describe_user_scram_credentials": lambda: admin.describe_user_scram_credentials(user),
        "alter_client_quotas": lambda: admin.alter_client_quotas([({"user": user}, {"producer_byte_rate": 1e6})]),
        "describe_client_quotas": lambda: admin.describe_client_quotas({"user": user}),
        "create_delegation_token": admin.create_delegation_token,
        "renew_delegation_token": lambda: admin.renew_delegation_token(token),
        "expire_delegation_token": lambda: admin.expire_delegation_token(token),
        "describe_delegation_tokens": admin.describe_delegation_tokens,
        "elect_leaders": lambda: admin.elect_leaders("PREFERRED", [place]),
        "alter_partition_reassignments": lambda: admin.alter_partition_reassignments({place: [node]}),
        "list_partition_reassignments": admin.list_partition_reassignments,
        "plan_reassignment": lambda: admin.plan_reassignment(topic),
        "start_reassignment": lambda: admin.start_reassignment(admin.plan_reassignment(topic)),
        "verify_reassignment": lambda: admin.verify_reassignment(admin.plan_reassignment(topic)),
        "describe_log_dirs": admin.describe_log_dirs,
        "describe_replica_log_dirs": lambda: admin.describe_replica_log_dirs([replica]),
        "alter_replica_log_dirs": lambda: admin.alter_replica_log_dirs(
            {replica: admin.describe_log_dirs([node])[node][0].path}
        ),
        "list_topic_sizes": lambda: admin.list_topic_sizes(topic),
        "describe_cluster": lambda: admin.describe_cluster(include_authorized_operations=True),
        "describe_features": admin.describe_features,
        "update_features": lambda: admin.update_features(
            {
                name: levels.max
                for name, levels in admin.describe_features().finalized.items()
                if name == "group.version"
            },
            validate_only=True,
        ),
        "describe_metadata_quorum": admin.describe_metadata_quorum,
        "add_raft_voter": lambda: admin.add_raft_voter(9, voter, [ottla.RaftEndpoint("CONTROLLER", "127.0.0.1", 1)]),
        "remove_raft_voter": lambda: admin.remove_raft_voter(9, voter),
        "unregister_broker": lambda: admin.unregister_broker(77),
        "unregister_controller": lambda: admin.unregister_controller(77),
        "request": lambda: admin.request("Metadata", {"topics": [{"name": topic}]}, version=1),
        "fence_producers": lambda: admin.fence_producers(topic),
        "list_transactions": lambda: admin.list_transactions(states="Ongoing"),
        "describe_transactions": lambda: admin.describe_transactions(topic),
        "force_terminate_transaction": lambda: admin.force_terminate_transaction(topic),
        "find_hanging_transactions": lambda: admin.find_hanging_transactions(topic),
        "abort_transaction": lambda: admin.abort_transaction(place, producer_id=1, producer_epoch=0),
        "metrics": admin.metrics,
        "register_metric_for_subscription": lambda: admin.register_metric_for_subscription(metric),
        "unregister_metric_from_subscription": lambda: admin.unregister_metric_from_subscription(metric),
        "client_instance_id": lambda: admin.client_instance_id(20),
        "delete_topics": lambda: admin.delete_topics(topic),
        "close": admin.close,
    }


def cells(bootstrap: str) -> dict[str, str]:
    """What each of our calls does on a broker."""
    found = {}
    admin = ottla.Admin(bootstrap, default_api_timeout_ms=30_000)
    for name, call in probes(admin, bootstrap).items():
        try:
            call()
            found[name] = "done"
        except UnsupportedError:
            found[name] = "unsupported"
        except KafkaError as error:
            found[name] = error.name or type(error).__name__
        except Exception as error:  # the table shows a fault of ours, too
            found[name] = f"**{type(error).__name__}**"
    return found


@contextlib.contextmanager
def brokers() -> Iterator[dict[str, dict[str, str]]]:
    """Each broker's cells."""
    found = {}
    for release in RELEASES:
        with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "kafka", version=release) as cluster:
            found[release] = cells(cluster.st["bootstrap"]["PLAINTEXT"])
    with Broker() as broker:
        found["embedded"] = cells(broker.bootstrap_servers)
    yield found


def javas_names() -> set[str]:
    """The names of the methods of Java 4.4.0's `Admin`, without `create`, as `javap` finds them in Kafka's jar."""
    places = (Path.home() / ".cache" / "kafka-brokers", Path.home() / ".m2")
    jar = next(path for place in places for path in place.rglob("kafka-clients-4.4.0.jar"))
    command = ["javap", "-cp", str(jar), "org.apache.kafka.clients.admin.Admin"]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    lines = [line for line in text.splitlines() if "(" in line]
    return {line.partition("(")[0].split()[-1] for line in lines} - {"create"}


def commit() -> str:
    """The commit that the table is about."""
    command = ["git", "-C", str(PAGE.parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def verdict(row: dict[str, str]) -> str:
    """Whether the newest Kafka and the embedded broker do the same."""
    real, embedded = row["4.4.0"], row["embedded"]
    if "**" in "".join(row.values()):
        return "fault"
    return "as Kafka" if real == embedded else "differs on the embedded broker"


def page(found: dict[str, dict[str, str]]) -> str:
    """The page."""
    columns = [*RELEASES, "embedded"]
    head = f"| Java | ours | {' | '.join(columns)} | verdict | note |\n|{'---|' * (len(columns) + 4)}\n"
    rows = []
    for java, ours in [*OURS.items(), *((f"({name})", name) for name in BEYOND)]:
        shown = {column: found[column][ours] for column in columns}
        java_cell = "beyond Java" if java.startswith("(") else f"`{java}`"
        rows.append(
            f"| {java_cell} | `{ours}` | {' | '.join(shown.values())} | {verdict(shown)} | {NOTES.get(ours, '')} |\n"
        )
    return (
        f"# Java's Admin and ours\n\n{datetime.now(UTC):%Y-%m-%d}, commit {commit()}. `python -m tests.brokers.admin --write`.\n\n"
        "The command makes each call once on each broker. `done`: a result came.\n"
        "Otherwise Kafka's name of the error; `unsupported`: the release does not have it. Calls in depth, with partial\n"
        "results, denials and what is absent: `tests/admin/scenes.py` and `tests/integration/test_admin.py`.\n\n"
        + head
        + "".join(rows)
    )


if __name__ == "__main__":
    missing = javas_names() ^ OURS.keys()
    assert not missing, f"Java's Admin has other names: {sorted(missing)}"
    with brokers() as everything:
        text = page(everything)
    print(text)
    if "--write" in sys.argv:
        PAGE.write_text(text)
