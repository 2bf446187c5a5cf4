"""Clients with a rack on real Kafka 4.4.0 of three nodes: producers write to leaders of their rack (KIP-1123), consumers
read at the replica of theirs, and never stop (KIP-392).
"""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.python.conftest import Api, AsyncApi
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]
NODES = (1, 2, 3)
COUNT = 200
PATIENCE = 30.0


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, each in a rack of its own."""
    config = {
        "broker.rack": "rack-{node}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    with kafka_for_a_while(
        tmp_path_factory.mktemp("racks") / "kafka", version="4.4.0", nodes=len(NODES), config=config
    ) as cluster:
        yield cluster


def read(api: Api, consumer: Any, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    end = time.monotonic() + PATIENCE
    while len(values) < count and time.monotonic() < end:
        values += [record.value for record in api(consumer.poll(1.0))]
    return values


@pytest.fixture
def facades() -> Iterator[list[Api]]:
    """Both: three nodes are too much to start them twice."""
    made = [Api(), AsyncApi()]
    yield made
    for each in made:
        each.end()


def test_a_producer_writes_to_leaders_of_its_rack(racks):
    """KIP-1123: as long as there are such; without a rack that a broker has, to all."""
    bootstrap = racks.st["bootstrap"]["PLAINTEXT"]
    topic = "spread"
    leaders: dict[int, int] = {}
    with ottla.Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic(topic, 6, 1)])

        def known() -> bool:
            try:
                partitions = admin.describe_topics(topic)[topic].partitions
            except ottla.errors.NotFoundError:
                return False  # a broker that learns of topics late
            leaders.update({each.partition: each.leader for each in partitions})
            return len(leaders) == 6 and min(leaders.values()) > 0

        wait_until(known, "every partition has a leader")
    assert set(leaders.values()) == set(NODES)

    def written(**options: str | bool) -> set[int]:
        """The leaders that records without keys go to, in batches of a few."""
        with ottla.Producer(bootstrap, batch_size=200, linger_ms=0, **options) as producer:
            sends = [producer.send(topic, b"%050d" % number) for number in range(COUNT)]
            return {leaders[send.result(PATIENCE).partition] for send in sends}

    for node in NODES:
        assert written(client_rack=f"rack-{node}", partitioner_rack_aware=True) == {node}
    assert written(client_rack="rack-2") == set(NODES)
    assert written(client_rack="elsewhere", partitioner_rack_aware=True) == set(NODES)


def test_a_consumer_reads_at_the_replica_of_its_rack_and_goes_on_without_it(racks, facades):
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
        for node, api in itertools.product(NODES, facades):
            with api.consumer(bootstrap, client_rack=f"rack-{node}") as consumer:
                consumer.assign([ottla.TopicPartition(topic, 0, 0)])
                assert read(api, consumer, COUNT) == values
                replica = consumer.metrics().value("preferred-read-replica", topic=topic, partition=0)
                assert replica == (-1 if node == leader else node)
        near = next(node for node in NODES if node != leader)
        with contextlib.ExitStack() as opened:
            options = {"client_rack": f"rack-{near}", "request_timeout_ms": 5000}
            consumers = [(api, opened.enter_context(api.consumer(bootstrap, **options))) for api in facades]
            for api, consumer in consumers:
                consumer.assign([ottla.TopicPartition(topic, 0, 0)])
                assert read(api, consumer, COUNT) == values
                assert consumer.metrics().value("preferred-read-replica", topic=topic, partition=0) == near
            racks.kill(f"node{near}")
            producer.send_many(topic, values, partitions=[0] * COUNT).result()
            for api, consumer in consumers:
                assert read(api, consumer, COUNT) == values
                assert consumer.metrics().value("preferred-read-replica", topic=topic, partition=0) == -1
