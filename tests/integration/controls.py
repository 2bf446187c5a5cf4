"""The levers of a real cluster, in the hands of a foreign client: topics, leaders, nodes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as ForeignPartition
from kafka.errors import KafkaError as ForeignError

from tests.integration.peers.confluent import Confluent
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.brokers.brokers import Cluster
    from tests.integration.messages import Message


class Controls:
    """The cluster's levers, in the hands of a foreign client."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.nodes = cluster, len(cluster.nodes)
        self.bootstrap = str(cluster.st["bootstrap"]["PLAINTEXT"])

    @contextlib.contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","), request_timeout_ms=15_000)
        try:
            yield client
        finally:
            client.close()

    def wait(self, happened: Callable[[KafkaAdminClient], bool], what: str) -> None:
        """Waits for it, with a new client each time: one can be lost with the node that it asks."""

        def attempt() -> bool:
            try:
                with self.admin() as admin:
                    return happened(admin)
            except ForeignError:
                return False

        wait_until(attempt, what)

    def create(self, topic: str, partitions: int) -> None:
        wanted = {
            "num_partitions": partitions,
            "replication_factor": self.nodes,
            "configs": {"min.insync.replicas": "2"},
        }
        # One that was just deleted may still be in the way.
        self.wait(lambda admin: bool(admin.create_topics({topic: wanted})), f"{topic} is made")
        self.wait_for_replicas(topic, partitions)
        # A node that hears late and is the only one left says that there is no such topic.
        for node in self.bootstrap.split(","):
            wait_until(lambda node=node: knows(node, topic), f"{node} has heard of {topic}")

    def delete(self, topic: str) -> None:
        with self.admin() as admin:
            admin.delete_topics([topic])
        self.wait(lambda admin: topic not in admin.list_topics(), f"{topic} is gone")

    def add_partitions(self, topic: str, total: int) -> None:
        with self.admin() as admin:
            admin.create_partitions({topic: total})
        self.wait_for_replicas(topic, total)

    def rotate_leaders(self, topic: str) -> None:
        """Each partition gets another preferred leader, which is then elected."""
        with self.admin() as admin:
            rotated = {
                ForeignPartition(topic, p["partition_index"]): [*p["replica_nodes"][1:], p["replica_nodes"][0]]
                for p in described(admin, topic)
            }
            assert set(admin.alter_partition_reassignments(rotated).values()) == {None}
        self.wait(lambda admin: not admin.list_partition_reassignments(), "the reassignment is over")
        self.elect_preferred(topic)

    def elect_preferred(self, topic: str) -> None:
        """Every partition is led by the first of its replicas."""

        def elected(admin: KafkaAdminClient) -> bool:
            wanted = {p["partition_index"]: p["replica_nodes"][0] for p in described(admin, topic)}
            admin.elect_leaders(0, {topic: list(wanted)})
            return leaders(admin, topic) == wanted

        self.wait(elected, f"{topic} has its preferred leaders")

    def kill_leader(self, topic: str) -> int:
        """SIGKILL for the node that leads partition 0; other nodes lead what it led."""
        with self.admin() as admin:
            node = leaders(admin, topic)[0]
        self.cluster.kill(f"node{node}")
        self.wait(lambda admin: not {node, -1} & set(leaders(admin, topic).values()), f"node {node} leads nothing")
        return node

    def wait_for_replicas(self, topic: str, partitions: int) -> None:
        def in_sync(admin: KafkaAdminClient) -> bool:
            return [len(p["isr_nodes"]) for p in described(admin, topic)] == [self.nodes] * partitions

        self.wait(in_sync, f"all replicas of {topic} are in sync")

    def log(self, topic: str, partitions: int) -> list[Message]:
        """Every message of the topic, in the order of each partition."""
        return Confluent().consume_all(self.bootstrap, topic, partitions)


def knows(node: str, topic: str) -> bool:
    with contextlib.suppress(KafkaException):
        return AdminClient({"bootstrap.servers": node}).list_topics(topic, timeout=5).topics[topic].error is None
    return False


def described(admin: KafkaAdminClient, topic: str) -> list[dict]:
    (found,) = admin.describe_topics([topic])
    return sorted(found["partitions"], key=lambda p: p["partition_index"])


def leaders(admin: KafkaAdminClient, topic: str) -> dict[int, int]:
    return {p["partition_index"]: p["leader_id"] for p in described(admin, topic)}
