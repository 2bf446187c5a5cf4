"""What an unauthorised client is told: the same requests to the embedded broker and to real Kafka, and the same codes back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ottla import protocol
from ottla.testing import Broker
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.peers.base import DEADLINE, until
from tests.waiting import wait_until
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, IDEMPOTENT_WRITE = 2, 3, 4, 5, 6, 7, 8, 10, 12
ANY = {"resource_type_filter": 1, "resource_name_filter": None, "principal_filter": None, "host_filter": None}
ANY |= {"pattern_type_filter": 1, "operation": 1, "permission_type": 1}

# Of alice; bob has none.
ACLS = [
    (TOPIC, "seen", LITERAL, DESCRIBE, ALLOW),
    (TOPIC, "read-", PREFIXED, READ, ALLOW),
    (TOPIC, "written", LITERAL, WRITE, ALLOW),
    (TOPIC, "read-not", LITERAL, READ, DENY),
    (TOPIC, "made-", PREFIXED, CREATE, ALLOW),
    (GROUP, "g-read", LITERAL, READ, ALLOW),
    (GROUP, "g-seen", LITERAL, DESCRIBE, ALLOW),
    (GROUP, "g-deleted", LITERAL, DELETE, ALLOW),
]
TOPICS = ["seen", "read-it", "read-not", "written", "hidden"]
GROUPS = ["g-read", "g-seen", "g-deleted", "g-hidden"]
BATCH = protocol.encode_records([protocol.Record(b"v")])


def each_topic(**partition: Any) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [partition]} for name in [*TOPICS, "absent"]]


def requests() -> Iterator[tuple[str, int, dict[str, Any]]]:
    names = [{"name": name} for name in [*TOPICS, "absent"]]
    yield "Metadata", 12, {"topics": names, "allow_auto_topic_creation": True}
    yield "Metadata", 12, {"topics": None}
    yield (
        "Metadata",
        9,
        {
            "topics": names[:2],
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        },
    )
    data = [{"name": n["name"], "partition_data": [{"index": 0, "records": BATCH}]} for n in names]
    yield "Produce", 9, {"acks": -1, "timeout_ms": 5000, "topic_data": data}
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    topics = [{"topic": n["name"], "partitions": [part]} for n in names]
    yield "Fetch", 12, {"max_bytes": 1000, "max_wait_ms": 100, "min_bytes": 0, "session_epoch": -1, "topics": topics}
    yield (
        "ListOffsets",
        7,
        {"replica_id": -1, "topics": each_topic(partition_index=0, timestamp=-1, current_leader_epoch=-1)},
    )
    epochs = {"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}
    yield "OffsetForLeaderEpoch", 4, {"topics": [{"topic": n["name"], "partitions": [epochs]} for n in names]}
    yield "CreateTopics", 7, {"topics": [new("made-1"), new("other")], "timeout_ms": 5000, "validate_only": True}
    yield "CreateTopics", 7, {"topics": [new("made-1"), new("other")], "timeout_ms": 5000}
    yield (
        "CreatePartitions",
        3,
        {
            "topics": [
                {"name": "seen", "count": 2, "assignments": None},
                {"name": "absent", "count": 2, "assignments": None},
            ],
            "timeout_ms": 5000,
        },
    )
    yield "DeleteTopics", 6, {"topics": [{"name": n} for n in ("seen", "hidden", "absent")], "timeout_ms": 5000}
    resources = [{"resource_type": 2, "resource_name": n["name"], "configuration_keys": []} for n in names]
    broker = {"resource_type": 4, "resource_name": "1", "configuration_keys": []}
    yield "DescribeConfigs", 4, {"resources": [*resources, broker]}
    for kind in (0, 1):
        yield "FindCoordinator", 4, {"key_type": kind, "coordinator_keys": GROUPS}
        yield "FindCoordinator", 3, {"key_type": kind, "key": "g-hidden"}
    for group in ("g-read", "g-seen", "g-hidden"):
        yield "Heartbeat", 4, {"group_id": group, "member_id": "m", "generation_id": 1}
        yield "LeaveGroup", 5, {"group_id": group, "members": [{"member_id": "m"}]}
        yield "SyncGroup", 3, {"group_id": group, "member_id": "m", "generation_id": 1}
        commit = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
        topics = each_topic(partition_index=0, committed_offset=1)
        yield "OffsetCommit", 8, commit | {"topics": topics}
        indexes = [{"name": n["name"], "partition_indexes": [0]} for n in names]
        yield "OffsetFetch", 8, {"groups": [{"group_id": group, "topics": indexes}]}
        yield "OffsetFetch", 8, {"groups": [{"group_id": group, "topics": None}]}
        yield "OffsetFetch", 7, {"group_id": group, "topics": indexes}
    yield "JoinGroup", 9, {"group_id": "g-hidden", "session_timeout_ms": 10000, "protocol_type": "consumer"}
    yield "DescribeGroups", 5, {"groups": GROUPS, "include_authorized_operations": True}
    yield "ListGroups", 4, {}
    yield "DeleteGroups", 2, {"groups_names": GROUPS}
    yield "InitProducerId", 4, {"transactional_id": None}
    yield "InitProducerId", 4, {"transactional_id": "t-hidden", "transaction_timeout_ms": 1000}
    yield "DescribeCluster", 1, {"include_cluster_authorized_operations": True}
    yield "DescribeAcls", 3, ANY
    yield "DeleteAcls", 3, {"filters": [ANY]}
    yield "CreateAcls", 3, {"creations": [creation("mallory", TOPIC, "x", LITERAL, ALL, ALLOW)]}
    yield "DescribeClientQuotas", 1, {"components": [], "strict": False}
    entry = {"entity": [{"entity_type": "user", "entity_name": "x"}]}
    ops = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
    yield "AlterClientQuotas", 1, {"entries": [entry | {"ops": ops}], "validate_only": True}
    # Of all users, Kafka 4.4 would not answer: it fails on its own denial.
    yield "DescribeUserScramCredentials", 0, {"users": [{"name": "x"}]}
    deletion = {"deletions": [{"name": "x", "mechanism": 1}], "upsertions": []}
    yield "AlterUserScramCredentials", 0, deletion
    yield "SaslHandshake", 1, {"mechanism": "PLAIN"}


# What a client may do to a group: newer brokers know of settings of groups. Kafka leaves out whose credentials it denies.
NOT_COMPARED = {("DescribeGroups", "authorized_operations"), ("DescribeUserScramCredentials", "user")}
# While a coordinator loads: ask again.
LOADING = {14, 15, 16}


def new(name: str) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}


def creation(user: str, kind: int, name: str, pattern: int, operation: int, permission: int) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": f"User:{user}",
        "host": "*",
        "operation": operation,
        "permission_type": permission,
    }


def codes(api: str, answer: Any) -> list[tuple[str, Any]]:
    """Every error code of an answer, with the names beside it, and the operations that are told."""
    shown = {"error_code", "topic_config_error_code", "name", "topic", "key", "group_id", "user", "resource_name"}
    shown |= {"cluster_authorized_operations", "topic_authorized_operations", "authorized_operations"}
    found: list[tuple[str, Any]] = []
    if isinstance(answer, dict):
        if set(answer) & {"error_code", "errors"} or set(answer) & shown:
            found += [(k, v) for k, v in answer.items() if k in shown and (api, k) not in NOT_COMPARED]
        for key, value in answer.items():
            if key not in ("brokers", "configs", "coordinator"):
                found += codes(api, value)
    elif isinstance(answer, list):
        inner = [codes(api, each) for each in answer]
        found += [pair for each in sorted(inner, key=str) for pair in each]
    return found


def prepare(address: str) -> None:
    """Topics, ACLs and committed offsets, by a super user."""
    with Connection(address) as root:
        root.ask("CreateTopics", 7, {"topics": [new(name) for name in TOPICS], "timeout_ms": 10000})
        created = root.ask("CreateAcls", 3, {"creations": [creation("alice", *acl) for acl in ACLS]})
        assert [result["error_code"] for result in created["results"]] == [0] * len(ACLS)

        def is_known() -> bool:
            described = root.ask("DescribeAcls", 3, ANY)
            listed = root.ask("Metadata", 9, {"topics": None})["topics"]
            return sum(len(each["acls"]) for each in described["resources"]) == len(ACLS) and len(listed) >= len(TOPICS)

        wait_until(is_known, "topics and ACLs are there")

        def is_committed() -> bool:
            topics = [{"name": "hidden", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
            root.ask("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": GROUPS})
            results = []
            for group in GROUPS:
                commit = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
                results += root.ask("OffsetCommit", 8, commit)["topics"]
            return all(topic["partitions"][0]["error_code"] == 0 for topic in results)

        wait_until(is_committed, "offsets are committed")


def told(address: str, user: str) -> list[tuple[str, int, Any]]:
    out = []
    with Connection(address) as connection:
        answer = connection.authenticate("PLAIN", f"\0{user}\0{user}-secret".encode())
        assert answer["error_code"] == 0, answer
        for api, version, message in requests():
            for _ in until(DEADLINE, f"{api} is answered, and not with a coordinator that loads"):
                answered = connection.try_to_ask(api, version, message)
                shown = "closed" if answered is None else codes(api, answered)
                if not any(("error_code", code) in shown for code in LOADING):
                    break
                time.sleep(0.1)
            out.append((api, version, shown))
    return out


@REAL
def test_denials_are_kafkas(tmp_path: Path) -> None:
    users = {name: f"{name}-secret" for name in ("alice", "bob")}
    with (
        Broker(
            listeners=["PLAINTEXT", "SASL_PLAINTEXT mechanisms=PLAIN"],
            users=users,
            super_users=["ANONYMOUS"],
            config={"auto.create.topics.enable": False},
        ) as broker,
        kafka_for_a_while(tmp_path, version="4.4.0", sasl="plain", acl=True) as kafka,
    ):
        there = kafka.st["bootstrap"]
        prepare(broker.bootstrap_servers)
        prepare(str(there["PLAINTEXT"]))
        for user in users:
            ours = told(broker.bootstrap_of("SASL_PLAINTEXT"), user)
            theirs = told(str(there["SASL_PLAINTEXT"]), user)
            different = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine != other]
            assert not different, "\n".join(
                f"{user} ours   {mine}\n{user} Kafka's {other}" for mine, other in different
            )
