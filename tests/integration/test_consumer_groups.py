"""Consumer groups (KIP-848): the embedded broker answers step by step as real Kafka does, and other clients' members use it."""

from __future__ import annotations

import struct
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer as Confluent
from confluent_kafka import Producer, TopicPartition

from ottla.testing import Broker
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.transaction_scripts import named
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# Kafka's least are 5 and 45 s, and it waits 1 s between two assignments.
QUICK = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}
TIMEOUT = 60_000
PATIENCE = 20.0
PARTITIONS = 5
GROUP_RESOURCE = 32
ZERO = uuid.UUID(int=0)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version="4.4.0", config=QUICK) as cluster:
        yield str(cluster.st["bootstrap"]["PLAINTEXT"])


class Stage:
    """Members that say what they are told. It keeps the answers without what differs from broker to broker: the topics' ids."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.connection, self.name = bootstrap, Connection(bootstrap), name
        self.said: list[Any] = []
        self.topics: dict[Any, str] = {}
        # Of classic members: their ids, generations and instances.
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.instances: dict[str, str | None] = {}
        self.ready(self.is_coordinated)
        self.make("t", PARTITIONS)

    def is_coordinated(self) -> bool:
        asked = {"key_type": 0, "coordinator_keys": [self.name]}
        return bool(self.connection.ask("FindCoordinator", 4, asked)["coordinators"][0]["error_code"] == 0)

    def ready(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < until
            time.sleep(0.05)

    def make(self, topic: str, partitions: int) -> None:
        full = f"{self.name}-{topic}"
        new = {"name": full, "num_partitions": partitions, "replication_factor": 1}
        assert (
            self.connection.ask("CreateTopics", 7, {"topics": [new], "timeout_ms": 5000})["topics"][0]["error_code"]
            == 0
        )
        self.await_topic(topic, partitions)

    def await_topic(self, topic: str, partitions: int) -> None:
        def is_there() -> bool:
            asked = {"topics": [{"topic_id": ZERO, "name": f"{self.name}-{topic}"}]}
            found = self.connection.ask("Metadata", 12, asked)["topics"][0]
            self.topics[found["topic_id"]] = topic
            led = [it for it in found["partitions"] if it["leader_id"] >= 0]
            return len(led) == partitions

        self.ready(is_there)
        self.ready(lambda: self.is_assigned(topic, partitions))

    def is_assigned(self, topic: str, partitions: int) -> bool:
        """Whether the coordinator knows of all partitions: it learns of them later than those who lead them."""
        request = {
            "group_id": f"{self.name}-probe",
            "member_id": "P",
            "member_epoch": 0,
            "rebalance_timeout_ms": TIMEOUT,
        }
        topics = {"subscribed_topic_names": [f"{self.name}-{topic}"], "topic_partitions": []}
        answer = self.connection.ask("ConsumerGroupHeartbeat", 1, request | topics)
        if answer["error_code"]:
            return False
        self.connection.ask("ConsumerGroupHeartbeat", 1, request | {"member_epoch": -1})
        return sum(len(it["partitions"]) for it in answer["assignment"]["topic_partitions"]) == partitions

    def grow(self, topic: str, partitions: int) -> None:
        more = {"name": f"{self.name}-{topic}", "count": partitions, "assignments": None}
        self.connection.ask("CreatePartitions", 3, {"topics": [more], "timeout_ms": 5000})
        self.await_topic(topic, partitions)

    def beat(self, member: str, epoch: int, *, owned: dict[str, list[int]] | None = None, **fields: Any) -> Any:
        """A heartbeat, and what came of it: code, epoch, interval and the assignment if there is one."""
        ids = {name: topic_id for topic_id, name in self.topics.items()}
        if "names" in fields:
            fields["subscribed_topic_names"] = [f"{self.name}-{name}" for name in fields.pop("names")]
        if owned is not None:
            fields["topic_partitions"] = [
                {"topic_id": ids[name], "partitions": partitions} for name, partitions in owned.items()
            ]
        request = {"group_id": self.name, "member_id": member, "member_epoch": epoch, **fields}
        answer = self.connection.ask("ConsumerGroupHeartbeat", 1, request)
        assigned = answer["assignment"]
        parts = None
        if assigned is not None:
            those = assigned["topic_partitions"]
            parts = {self.topics.get(it["topic_id"], "?"): sorted(it["partitions"]) for it in those}
        return named(answer["error_code"]), answer["member_epoch"], answer["heartbeat_interval_ms"], parts

    def tell(self, member: str, epoch: int, **fields: Any) -> None:
        self.said.append((member, epoch, *self.beat(member, epoch, **fields)))

    def join(self, member: str, names: tuple[str, ...] = ("t",), **fields: Any) -> None:
        self.tell(member, 0, **self.joining(names, **fields))

    def joining(self, names: tuple[str, ...] = ("t",), **fields: Any) -> dict[str, Any]:
        return {"names": names, "rebalance_timeout_ms": TIMEOUT, "owned": {}, **fields}

    def join_classic(
        self,
        who: str,
        *,
        owned: Sequence[int] = (),
        member: str | None = None,
        instance: str | None = None,
        tells: bool = True,
        **fields: Any,
    ) -> Any:
        """JoinGroup, on a connection of its own, since it may wait. `who` begins the id that the broker chooses."""
        known = self.ids.get(who, "") if member is None else member
        request = {
            "group_id": self.name,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": TIMEOUT,
            "member_id": known,
            "group_instance_id": instance or self.instances.get(who),
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscribed([f"{self.name}-t"], {f"{self.name}-t": owned})}],
        }
        version = 5 if request["group_instance_id"] else 3
        with Connection(self.bootstrap) as connection:
            answer = connection.ask("JoinGroup", version, request | fields, client_id=who)
        if answer["error_code"] == 0:
            self.ids[who] = answer["member_id"]
            self.generations[who] = answer["generation_id"]
            self.instances[who] = request["group_instance_id"]
        said = (
            "join",
            who,
            named(answer["error_code"]),
            answer["generation_id"],
            answer["protocol_name"],
            self.label(answer["leader"]),
            len(answer["members"]),
        )
        if tells:
            self.said.append(said)
        return said

    def label(self, member: str) -> str:
        return {member_id: who for who, member_id in self.ids.items()}.get(member, member)

    def as_classic(self, who: str, generation: int | None = None) -> dict[str, Any]:
        return {
            "group_id": self.name,
            "generation_id": self.generations[who] if generation is None else generation,
            "member_id": self.ids[who],
            "group_instance_id": self.instances[who],
        }

    def sync(self, who: str, shares: Mapping[str, Sequence[int]] | None = None, **fields: Any) -> None:
        """SyncGroup, and the partitions that come of it."""
        assignments = [
            {"member_id": self.ids[member], "assignment": assigned({f"{self.name}-t": partitions}, **fields)}
            for member, partitions in (shares or {}).items()
        ]
        request = self.as_classic(who) | {"protocol_type": "consumer", "protocol_name": "range"}
        answer = self.connection.ask("SyncGroup", 5, request | {"assignments": assignments})
        parts = read_assigned(answer["assignment"])
        parts = {name.removeprefix(f"{self.name}-"): partitions for name, partitions in parts.items()}
        self.said.append(("sync", who, named(answer["error_code"]), parts))

    def heartbeat(self, who: str, generation: int | None = None) -> str:
        return named(self.connection.ask("Heartbeat", 3, self.as_classic(who, generation))["error_code"])

    def tell_heartbeat(self, who: str, generation: int | None = None) -> None:
        self.said.append(("heartbeat", who, generation, self.heartbeat(who, generation)))

    def leave(self, member: str, instance: str | None = None) -> None:
        identity = {"member_id": self.ids.get(member, member), "group_instance_id": instance}
        answer = self.connection.ask("LeaveGroup", 5, {"group_id": self.name, "members": [identity]})
        self.said.append(("leave", member, instance, [named(it["error_code"]) for it in answer["members"]]))

    def two_classic(self) -> None:
        """Members "a", who leads, and "b", who have all partitions of the topic."""
        self.join_classic("a")
        self.sync("a", {"a": range(PARTITIONS)})
        said: list[Any] = []
        other = threading.Thread(target=lambda: said.append(self.join_classic("b", tells=False)), daemon=True)
        other.start()
        self.ready(lambda: self.heartbeat("a") == "REBALANCE_IN_PROGRESS")
        self.join_classic("a")
        other.join(PATIENCE)
        self.said += said
        self.sync("a", {"a": [0, 1, 2], "b": [3, 4]})
        self.sync("b")

    def commit(self, member: str, epoch: int, partition: int, version: int = 9) -> Any:
        member = self.ids.get(member, member)
        topic = {"name": f"{self.name}-t", "partitions": [{"partition_index": partition, "committed_offset": 7}]}
        request = {"group_id": self.name, "member_id": member, "generation_id_or_member_epoch": epoch}
        answer = self.connection.ask("OffsetCommit", version, {**request, "topics": [topic]})
        return [named(it["error_code"]) for it in answer["topics"][0]["partitions"]]

    def tell_commit(self, *args: Any) -> None:
        self.said.append(("commit", *args, self.commit(*args)))

    def tell_fetch(self, member: str | None, epoch: int) -> None:
        topic = {"name": f"{self.name}-t", "partition_indexes": [0]}
        group = {"group_id": self.name, "member_id": member, "member_epoch": epoch, "topics": [topic]}
        answer = self.connection.ask("OffsetFetch", 9, {"groups": [group]})["groups"][0]
        found = [
            (it["committed_offset"], named(it["error_code"]))
            for topic in answer["topics"]
            for it in topic["partitions"]
        ]
        self.said.append(("fetch", member, epoch, named(answer["error_code"]), found))

    def size(self) -> int:
        return len(self.connection.ask("ConsumerGroupDescribe", 1, {"group_ids": [self.name]})["groups"][0]["members"])

    def describe(self) -> None:
        group = self.connection.ask("ConsumerGroupDescribe", 1, {"group_ids": [self.name]})["groups"][0]

        def parts(assignment: Any) -> Any:
            those = assignment["topic_partitions"]
            return {it["topic_name"].removeprefix(f"{self.name}-"): sorted(it["partitions"]) for it in those}

        members = [
            (
                self.label(it["member_id"]),
                it["instance_id"],
                it["rack_id"],
                it["member_epoch"],
                it["client_id"],
                len(it["subscribed_topic_names"]),
                it["subscribed_topic_regex"] or None,
                parts(it["assignment"]),
                parts(it["target_assignment"]),
                it["member_type"],
            )
            for it in sorted(group["members"], key=lambda it: str(it["member_id"]))
        ]
        fields = ("group_state", "group_epoch", "assignment_epoch", "assignor_name")
        self.said.append(("describe", named(group["error_code"]), *(group[it] for it in fields), members))
        listed = self.connection.ask("ListGroups", 5, {"states_filter": [], "types_filter": []})["groups"]
        mine = [
            (it["protocol_type"], it["group_state"], it["group_type"]) for it in listed if it["group_id"] == self.name
        ]
        self.said.append(("list", mine))
        old = self.connection.ask("DescribeGroups", 6, {"groups": [self.name]})["groups"][0]
        self.said.append(("classic", named(old["error_code"]), old["group_state"]))


def coming_and_going(stage: Stage) -> None:
    """Members join, give up, take over, lag behind by an answer, leave, and are told off."""
    stage.describe()
    stage.tell("A", 2)
    stage.tell("A", -1)
    stage.join("A", rack_id="r1")
    stage.tell("A", 2)
    stage.describe()
    stage.join("B")
    stage.tell("B", 3)
    stage.tell("A", 2)
    stage.describe()
    stage.tell("A", 2, owned={"t": [0, 1, 2, 3, 4]})
    stage.tell("B", 3)
    stage.tell("A", 2, owned={"t": [0, 1, 2]})
    stage.tell("B", 3)
    stage.tell("B", 3)
    stage.describe()
    stage.tell("A", 3, names=("t",), rebalance_timeout_ms=TIMEOUT, owned={"t": [0, 1, 2]})
    stage.tell("A", 2, owned={"t": [0]})
    stage.tell("A", 2, owned={"t": [0, 3]})
    stage.tell("A", 2)
    stage.tell("A", 4)
    stage.tell("X", 3)
    for commit in [
        ("A", 3, 0),
        ("A", 2, 0),
        ("A", 2, 3),
        ("B", 2, 3),
        ("B", 4, 3),
        ("X", 3, 0),
        ("", -1, 0),
        ("A", 3, 0, 8),
    ]:
        stage.tell_commit(*commit)
    for fetch in [("A", 3), ("A", 2), ("X", 3), (None, -1)]:
        stage.tell_fetch(*fetch)
    stage.join("C")
    stage.tell("A", 3, owned={"t": [0, 1, 2]})
    stage.tell("A", 3, owned={"t": [0, 1]})
    stage.tell("B", 3)
    stage.tell("C", 4)
    stage.tell("B", -1)
    stage.describe()
    stage.tell("A", 4)
    stage.tell("C", 4)
    stage.tell("C", 5)
    stage.join("A")
    stage.describe()
    stage.grow("t", PARTITIONS + 2)
    stage.ready(lambda: stage.beat("A", 5)[1] == 6)
    stage.tell("C", 5)
    stage.describe()
    stage.tell("A", -1)
    stage.tell("C", -1)
    stage.describe()
    stage.join("D")
    stage.tell("D", -1)


def topics(stage: Stage) -> None:
    """Members subscribe to other topics, with other assignors, and to topics that are not there yet."""
    stage.make("u", 3)
    stage.join("A", ())
    stage.join("A", ("t", "u"))
    stage.join("B", ("t", "u"))
    stage.tell("A", 2, owned={"t": [0, 1, 2, 3, 4], "u": [0, 1, 2]}, names=("u",))
    stage.tell("A", 2, owned={"u": []})
    stage.tell("B", 3)
    stage.tell("B", 4, server_assignor="range")
    stage.tell("B", 4, server_assignor="nothing")
    stage.tell("A", 4, server_assignor="range", owned={"u": []})
    stage.tell("B", 5)
    stage.tell("A", 5)
    stage.tell("B", 6)
    stage.describe()
    stage.join("C", ("later",))
    stage.make("later", 2)
    stage.ready(lambda: bool(stage.beat("C", 0, **stage.joining(("later",)))[3]))
    stage.describe()


def static_members(stage: Stage) -> None:
    """Instances are away, come back as other members, and are fenced."""
    stage.join("A", instance_id="i")
    stage.join("B", instance_id="j")
    stage.tell("A", 2, instance_id="i", owned={"t": [0, 1, 2]})
    stage.tell("A", 2, instance_id="i", owned={"t": [0, 1, 2]})
    stage.tell("B", 3, instance_id="j")
    stage.join("C", instance_id="i")
    stage.join("A", instance_id="i")
    stage.tell("C", 3, instance_id="i")
    stage.tell("A", 3, instance_id="unknown")
    stage.tell("A", -2, instance_id="i")
    stage.describe()
    stage.tell("A", 3, instance_id="i")
    stage.join("C", instance_id="i")
    stage.tell("A", 3, instance_id="i")
    stage.tell("A", -1, instance_id="i")
    stage.describe()
    stage.tell("C", -1, instance_id="i")
    stage.tell("B", 3, instance_id="j")
    leave = {"group_id": stage.name, "members": [{"member_id": "", "group_instance_id": it} for it in ("j", "i")]}
    answer = stage.connection.ask("LeaveGroup", 5, leave)
    stage.said.append([named(it["error_code"]) for it in answer["members"]])
    stage.describe()


def expressions(stage: Stage) -> None:
    """Members subscribe with regular expressions, which are looked through behind their backs."""
    name = f"{stage.name}-[t-v].*"
    fields: dict[str, Any] = {"rebalance_timeout_ms": TIMEOUT, "owned": {}}
    stage.tell("A", 0, subscribed_topic_regex="(", **fields)
    stage.tell("A", 0, subscribed_topic_regex=name, **fields)
    stage.ready(lambda: stage.beat("A", 0, subscribed_topic_regex=name, **fields)[1] == 2)
    stage.tell("A", 2)
    stage.describe()
    stage.tell("B", 0, subscribed_topic_regex=name, **fields)
    stage.tell("A", 2)
    stage.tell("A", 2, owned={"t": [0, 1, 2]})
    stage.tell("B", 3)
    stage.tell("B", 3, subscribed_topic_regex="", names=("t",))
    stage.describe()


def refusals(stage: Stage) -> None:
    """Requests that no group takes."""
    stage.tell("", 0, **stage.joining())
    stage.tell("A", 0, **(stage.joining() | {"rebalance_timeout_ms": -1}))
    stage.tell("A", 0, **(stage.joining() | {"owned": {"t": [0]}}))
    stage.tell("A", 0, **(stage.joining() | {"owned": None}))
    stage.tell("A", 0, rebalance_timeout_ms=TIMEOUT, owned={})
    stage.tell("A", 0, **stage.joining(instance_id=""))
    stage.tell("A", 0, **stage.joining(rack_id=""))
    stage.tell("A", 0, **stage.joining(server_assignor="nothing"))
    stage.tell("A", -2)
    stage.tell("A", -3)
    for commit in [("A", 2, 0), ("A", 2, 0, 8), ("", -1, 0)]:
        stage.tell_commit(*commit)


def settings(stage: Stage) -> None:
    """A group's own settings, and a session that ends by them."""

    def alter(**values: str | None) -> None:
        configs = [
            {"name": f"consumer.{name}", "config_operation": 1 if value is None else 0, "value": value}
            for name, value in values.items()
        ]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": stage.name, "configs": configs}
        answer = stage.connection.ask("IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False})
        stage.said.append([named(it["error_code"]) for it in answer["responses"]])

    def described() -> Any:
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": stage.name, "configuration_keys": None}
        answer = stage.connection.ask("DescribeConfigs", 4, {"resources": [resource]})["results"][0]
        fields = ("value", "read_only", "config_source", "is_sensitive", "config_type")
        rows = {it["name"]: [it[field] for field in fields] for it in answer["configs"]}
        ours = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")
        return named(answer["error_code"]), {name: rows[name] for name in ours}

    stage.said.append(described())
    alter(**{"session.timeout.ms": "10"})
    alter(**{"session.timeout.ms": "nothing"})
    alter(**{"nothing.ms": "1"})
    alter(**{"heartbeat.interval.ms": "100", "session.timeout.ms": "10000"})
    stage.ready(lambda: described()[1]["consumer.session.timeout.ms"][0] == "10000")
    stage.said.append(described())
    stage.join("A")
    stage.join("B")
    until = time.monotonic() + 2
    while time.monotonic() < until:
        stage.beat("A", 2)
        time.sleep(0.2)
    stage.tell("B", 3)
    stage.tell("A", 2)
    stage.describe()
    alter(**{"heartbeat.interval.ms": None, "session.timeout.ms": None})
    stage.ready(lambda: described()[1]["consumer.session.timeout.ms"][0] == "45000")
    stage.said.append(described())


def other_protocol(stage: Stage) -> None:
    """Groups change their protocol when they are empty; offsets go with topics that nobody reads."""

    def join_classic() -> None:
        protocol = {"name": "range", "metadata": bytes.fromhex("0000000000000000000000000000")}
        request = {
            "group_id": stage.name,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": TIMEOUT,
            "member_id": "",
            "protocol_type": "other",
            "protocols": [protocol],
        }
        answer = stage.connection.ask("JoinGroup", 3, request)
        stage.said.append(("join", named(answer["error_code"]), answer["generation_id"]))
        if answer["error_code"] == 0:
            leave = {"group_id": stage.name, "member_id": answer["member_id"]}
            assert stage.connection.ask("LeaveGroup", 0, leave)["error_code"] == 0

    def delete_offsets(topic: str) -> None:
        asked = {"name": f"{stage.name}-{topic}", "partitions": [{"partition_index": 0}]}
        answer = stage.connection.ask("OffsetDelete", 0, {"group_id": stage.name, "topics": [asked]})
        codes = [named(it["error_code"]) for topic in answer["topics"] for it in topic["partitions"]]
        stage.said.append(("offsets", named(answer["error_code"]), codes))

    def delete() -> None:
        answer = stage.connection.ask("DeleteGroups", 2, {"groups_names": [stage.name]})
        stage.said.append(("delete", named(answer["results"][0]["error_code"])))

    assert stage.commit("", -1, 0) == ["NONE"]
    stage.make("u", 1)
    join_classic()
    stage.describe()
    stage.join("A", ("u",))
    stage.describe()
    join_classic()
    stage.tell_fetch(None, -1)
    delete()
    delete_offsets("u")
    delete_offsets("nowhere")
    delete_offsets("t")
    stage.tell_fetch(None, -1)
    stage.said.append(
        named(
            stage.connection.ask("Heartbeat", 0, {"group_id": stage.name, "generation_id": 1, "member_id": "A"})[
                "error_code"
            ]
        )
    )
    stage.tell("A", -1)
    join_classic()
    stage.describe()
    stage.join("A")
    stage.tell("A", -1)
    delete()
    delete()
    delete_offsets("t")
    stage.describe()


def changing_over(stage: Stage) -> None:
    """A group changes its protocol with its two members, one of whom gives up bit by bit, the other all at once, and back."""
    stage.two_classic()
    stage.describe()
    stage.join("N")
    stage.describe()
    stage.tell_heartbeat("a")
    stage.tell_heartbeat("a", 1)
    stage.sync("b")
    for commit in [("a", 2, 0), ("a", 2, 0, 8), ("a", 1, 0), ("a", 3, 0), ("N", 3, 0, 8)]:
        stage.tell_commit(*commit)
    stage.join_classic("a", owned=[0, 1, 2])
    stage.sync("a")
    stage.tell_heartbeat("a")
    stage.describe()
    stage.join_classic("a", owned=[0, 1])
    stage.sync("a")
    stage.tell_heartbeat("a")
    stage.tell("N", 3)
    stage.join_classic("b")
    stage.sync("b")
    stage.tell_heartbeat("b")
    stage.tell("N", 3)
    stage.describe()
    for commit in [("a", 2, 0), ("a", 3, 0), ("b", 2, 4)]:
        stage.tell_commit(*commit)
    stage.leave("nobody")
    stage.tell("N", -1)
    stage.describe()
    stage.tell_heartbeat("a")
    stage.tell_heartbeat("b")
    stage.sync("a")


def classic_members(stage: Stage) -> None:
    """Classic members join a consumer group, under ids of their own, wait for partitions, and are told off."""
    stage.join("N")
    stage.join_classic("m", member="m")
    stage.sync("m")
    stage.tell_heartbeat("m")
    stage.tell("N", 2)
    stage.tell("N", 2, owned={"t": [0, 1, 2]})
    stage.tell_heartbeat("m")
    stage.describe()
    stage.join_classic("m")
    stage.sync("m")
    stage.tell_heartbeat("m")
    stage.join_classic("x", protocol_type="other")
    stage.join_classic("x", protocols=[{"name": "sticky", "metadata": subscribed([], {})}])
    stage.join_classic("x", protocols=[])
    stage.join_classic("x", protocols=[{"name": "range", "metadata": b"\0\0\x7f"}])
    stage.describe()
    stage.ids["N"], stage.generations["N"], stage.instances["N"] = "N", 3, None
    stage.tell_heartbeat("N")
    stage.sync("N")
    stage.tell_fetch("m", 3)
    stage.tell_fetch("m", 2)
    stage.leave("m")
    stage.tell("N", 3)
    # Another epoch, and the id of the member of one protocol in the other.
    stage.join_classic("N", member="N", owned=[0, 1, 2, 3, 4])
    stage.describe()
    stage.join("N")
    stage.leave("N")
    stage.describe()


def static_classic_members(stage: Stage) -> None:
    """An instance comes back by the other protocol, either way, and others are fenced."""
    stage.join_classic("s", instance="i")
    stage.sync("s", {"s": range(PARTITIONS)})
    stage.join("N", instance_id="i")
    stage.describe()
    stage.tell_heartbeat("s")
    stage.join("O", instance_id="i")
    stage.join_classic("s", instance="i")
    stage.join_classic("s", instance="i", member="")
    stage.describe()
    stage.tell_heartbeat("s")
    stage.sync("s")
    stage.join("P")
    stage.tell_heartbeat("s")
    stage.join_classic("s", instance="i", member="")
    stage.sync("s")
    stage.leave("P", "i")
    stage.leave("s", "j")
    stage.leave("", "i")
    stage.tell("P", 2)
    stage.describe()


SCRIPTS = [
    coming_and_going,
    topics,
    static_members,
    expressions,
    refusals,
    settings,
    other_protocol,
    changing_over,
    classic_members,
    static_classic_members,
]


def subscribed(topics: Sequence[str], owned: Mapping[str, Sequence[int]]) -> bytes:
    """A consumer's subscription, as it embeds it in JoinGroup: version 1, which has the partitions that it owns."""
    names = b"".join(text(topic) for topic in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">i", -1) + placed(owned)


def assigned(partitions: Mapping[str, Sequence[int]], user_data: bytes | None = None) -> bytes:
    length = -1 if user_data is None else len(user_data)
    return struct.pack(">h", 1) + placed(partitions) + struct.pack(">i", length) + (user_data or b"")


def text(name: str) -> bytes:
    return struct.pack(">h", len(name)) + name.encode()


def placed(partitions: Mapping[str, Sequence[int]]) -> bytes:
    each = (text(topic) + struct.pack(f">i{len(those)}i", len(those), *those) for topic, those in partitions.items())
    return struct.pack(">i", len(partitions)) + b"".join(each)


def read_assigned(data: bytes | str) -> dict[str, list[int]]:
    """The partitions of an assignment; of no bytes, none."""
    raw = bytes(data, "ascii") if isinstance(data, str) else bytes(data)
    if not raw:
        return {}
    at, found = 6, {}
    for _ in range(struct.unpack_from(">i", raw, 2)[0]):
        (length,) = struct.unpack_from(">h", raw, at)
        name = raw[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (count,) = struct.unpack_from(">i", raw, at)
        found[name] = sorted(struct.unpack_from(f">{count}i", raw, at + 4))
        at += 4 + 4 * count
    return found


@REAL
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda it: it.__name__)
def test_each_step_is_answered_as_by_kafka(script: Callable[[Stage], None], kafka: str) -> None:
    with Broker(config=QUICK | {"auto.create.topics.enable": "false"}) as broker:
        ours, theirs = Stage(broker.bootstrap_servers, script.__name__), Stage(kafka, script.__name__)
        for stage in (ours, theirs):
            script(stage)
    for number, (our, their) in enumerate(zip(ours.said, theirs.said, strict=True)):
        assert our == their, f"step {number}"


def confluents_members(bootstrap: str) -> None:
    """Two members of one group share the topic, and go on where the group was when one has left."""
    name, count = f"confluent-{uuid.uuid4()}", 40
    with Connection(bootstrap) as connection:
        new = {"name": name, "num_partitions": 4, "replication_factor": 1}
        connection.ask("CreateTopics", 7, {"topics": [new], "timeout_ms": 5000})
    producer = Producer({"bootstrap.servers": bootstrap})
    options = {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    members = [Confluent(options), Confluent(options)]
    try:
        for member in members:
            member.subscribe([f"^{name[:12]}.*"])
        until = time.monotonic() + PATIENCE
        while [len(member.assignment()) for member in members] != [2, 2]:
            assert time.monotonic() < until, [member.assignment() for member in members]
            for member in members:
                member.poll(0.1)
        for value in range(count):
            producer.produce(name, str(value), partition=value % 4)
        assert producer.flush(PATIENCE) == 0
        read: list[int] = []
        _read(members, count // 2, read)
        for member in members:
            member.commit(asynchronous=False)
        members.pop().close()
        _read(members, count, read)
        assert sorted(read) == list(range(count))
        members[0].commit(asynchronous=False)
        committed = members[0].committed([TopicPartition(name, partition) for partition in range(4)], PATIENCE)
        assert [it.offset for it in committed] == [count // 4] * 4
    finally:
        for member in members:
            member.close()


def _read(members: list[Confluent], count: int, read: list[int]) -> None:
    until = time.monotonic() + PATIENCE
    while len(read) < count:
        assert time.monotonic() < until, read
        for member in members:
            if (message := member.poll(0.1)) and message.error() is None:
                read.append(int(message.value() or b""))


def test_confluents_members_share_a_topic() -> None:
    config = QUICK | {"group.consumer.heartbeat.interval.ms": "200"}
    with Broker(config=config) as broker:
        confluents_members(broker.bootstrap_servers)
