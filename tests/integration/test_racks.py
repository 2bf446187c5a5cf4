"""Consumers with a rack on real Kafka 4.4.0 of three nodes: they read at the replica of their rack, and never stop (KIP-392)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import ottla
from tests.integration.conftest import REAL, kafka_for_a_while, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.brokers.brokers import Cluster

pytestmark = [REAL, pytest.mark.timeout(180)]
NODES = (1, 2, 3)
COUNT = 200
PATIENCE = 30.0


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes, each in a rack of its own."""
    config = {
        "broker.rack": "rack-{node}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    with kafka_for_a_while(tmp_path / "kafka", version="4.4.0", nodes=len(NODES), config=config) as cluster:
        yield cluster


def read(consumer: ottla.Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    end = time.monotonic() + PATIENCE
    while len(values) < count and time.monotonic() < end:
        values += [record.value for record in consumer.poll(1.0)]
    return values


def test_a_consumer_reads_at_the_replica_of_its_rack_and_goes_on_without_it(racks):
    bootstrap = racks.st["bootstrap"]["PLAINTEXT"]
    topic = "near"
    with ottla.Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic(topic, 1, len(NODES))])

        def settled() -> bool:
            try:
                (partition,) = admin.describe_topics(topic)[topic].partitions
            except ottla.errors.NotFoundError:
                return False  # a broker that learns of topics late
            return sorted(partition.in_sync) == list(NODES) and partition.leader > 0

        wait_until(settled, "all replicas are in sync")
        leader = admin.describe_topics(topic)[topic].partitions[0].leader
    values = [b"%d" % number for number in range(COUNT)]
    with ottla.Producer(bootstrap, acks="1", enable_idempotence=False) as producer:
        producer.send_many(topic, values, partitions=[0] * COUNT).result()
        for node in NODES:
            with ottla.Consumer(bootstrap, client_rack=f"rack-{node}") as consumer:
                consumer.assign([ottla.TopicPartition(topic, 0, 0)])
                assert read(consumer, COUNT) == values
                replica = consumer.metrics().value("preferred-read-replica", topic=topic, partition=0)
                assert replica == (-1 if node == leader else node)
        near = next(node for node in NODES if node != leader)
        with ottla.Consumer(bootstrap, client_rack=f"rack-{near}", request_timeout_ms=5000) as consumer:
            consumer.assign([ottla.TopicPartition(topic, 0, 0)])
            assert read(consumer, COUNT) == values
            assert consumer.metrics().value("preferred-read-replica", topic=topic, partition=0) == near
            racks.kill(f"node{near}")
            producer.send_many(topic, values, partitions=[0] * COUNT).result()
            assert read(consumer, COUNT) == values
            assert consumer.metrics().value("preferred-read-replica", topic=topic, partition=0) == -1
