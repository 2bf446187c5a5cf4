"""Real Kafka of three nodes, and a topic whose leader is lost with records that no other replica has: an unclean election."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ottla
from tests.integration.conftest import SHORT_SESSIONS, kafka_for_a_while
from tests.integration.controls import Controls, described, leaders
from tests.integration.peers.base import DEADLINE

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.brokers.brokers import Cluster

# How many records both replicas have, and how many only the leader that is lost.
KEPT, LOST = 50, 30
READ = KEPT + LOST


def three_nodes(folder: Path, version: str) -> AbstractContextManager[Cluster]:
    """Nodes that are missed soon."""
    config = {**SHORT_SESSIONS, "zookeeper.session.timeout.ms": "3000"}
    config |= {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false"}
    return kafka_for_a_while(folder, version=version, nodes=3, config=config, heap="320m")


class Log:
    """Partition 0 of a topic on two nodes, of which one is elected though it lacks records."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster, self.controls, self.topic = cluster, Controls(cluster), topic
        self.partition = ottla.TopicPartition(topic, 0)
        config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        wanted = {"num_partitions": 1, "replication_factor": 2, "configs": config}
        self.controls.wait(lambda admin: bool(admin.create_topics({topic: wanted})), f"{topic} is made")
        self.wait_in_sync(2)
        # Brokers of 2.8 make the topic of committed offsets only while all three nodes are up.
        with ottla.Consumer(self.controls.bootstrap, group_id="first") as consumer:
            consumer.committed([self.partition])

    def wait_in_sync(self, count: int) -> None:
        def in_sync(admin: Any) -> bool:
            # A node that has not heard of the topic yet tells no partition.
            return [len(row["isr_nodes"]) for row in described(admin, self.topic)] == [count]

        self.controls.wait(in_sync, f"{count} replicas of {self.topic} are in sync")

    def write(self, prefix: str, count: int) -> None:
        with ottla.Producer(self.controls.bootstrap) as producer:
            deliveries = [producer.send(self.topic, f"{prefix} {n}".encode(), partition=0) for n in range(count)]
            for delivery in deliveries:
                delivery.result(DEADLINE)

    def fill(self) -> None:
        """Records that both nodes have, and some that only the leader has."""
        self.write("kept", KEPT)
        # One acknowledgement is enough: the other node has them all if it is in sync still.
        self.wait_in_sync(2)
        with self.controls.admin() as admin:
            (row,) = described(admin, self.topic)
        self.leader = row["leader_id"]
        (self.follower,) = set(row["replica_nodes"]) - {self.leader}
        self.cluster.kill(f"node{self.follower}")
        self.wait_in_sync(1)
        self.write("lost", LOST)

    def lose(self) -> None:
        """The leader is gone, and the other one leads."""
        self.cluster.end([f"node{self.leader}"], 0)
        self.cluster.restart(self.follower, grace=0)
        self.controls.wait(lambda admin: leaders(admin, self.topic) == {0: self.follower}, "the other node leads")
