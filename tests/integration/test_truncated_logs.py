"""Real Kafka of three nodes: a replica that lacks records is elected, and whoever read them is told (KIP-320)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from ottla.spark.clients import close_idle
from ottla.spark.frame import layout, schema
from ottla.spark.options import ReadOptions
from ottla.spark.planner import DataLossError
from ottla.spark.stream import UnlimitedStreamReader
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.controls import Controls, described, leaders
from tests.integration.peers.base import DEADLINE
from tests.python.conftest import Api, AsyncApi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.brokers.brokers import Cluster

pytestmark = [REAL, pytest.mark.timeout(240)]
KEPT, LOST, LATER = 50, 30, 60
READ = KEPT + LOST


@pytest.fixture(params=["4.4.0", "2.8.2"])
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    config = {"broker.session.timeout.ms": "3000", "zookeeper.session.timeout.ms": "3000"}
    config |= {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false"}
    options = {"version": request.param, "nodes": 3, "config": config, "heap": "320m"}
    with kafka_for_a_while(tmp_path / "three", **options) as cluster:
        yield cluster


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


def poll_until(api: Api, consumer: Any, count: int) -> list[ottla.Record]:
    """The records of polls until there are so many; whatever a poll raises."""
    found: list[ottla.Record] = []
    end = time.monotonic() + DEADLINE
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records came"
        found += api(consumer.poll(1.0))
    return found


def values(records: list[ottla.Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def test_whoever_read_what_is_lost_is_told(three: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Without a policy by an error with both offsets, else by an event; and reading goes on where the logs part."""
    log = Log(three, "truncated")
    log.fill()
    kept = [f"kept {n}" for n in range(KEPT)]
    lost = [f"lost {n}" for n in range(LOST)]
    later = [f"later {n}" for n in range(LATER)]
    bootstrap = log.controls.bootstrap
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": log.topic, "startingOffsets": "earliest"}
    checked = ReadOptions.parse(options)
    stream = UnlimitedStreamReader(checked, layout(checked, schema(checked, {}), {}))
    begun = stream.initialOffset()
    read = stream.latestOffset()
    stream.partitions(begun, read)
    assert read == {log.topic: {"0": READ}}
    for api in (Api(), AsyncApi()):
        with (
            api.consumer(bootstrap, group_id=f"g-{api.name}", auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([log.partition])
            assert values(poll_until(api, consumer, READ)) == kept + lost
            api(consumer.commit())
            (committed,) = api(consumer.committed([log.partition])).values()
            assert (committed.offset, committed.leader_epoch is not None) == (READ, True)
    sync, aio = Api(), AsyncApi()
    with (
        sync.consumer(bootstrap, auto_offset_reset="none") as strict,
        aio.consumer(bootstrap, auto_offset_reset="none") as strict_aio,
        sync.consumer(bootstrap, auto_offset_reset="latest") as lenient,
        aio.consumer(bootstrap, auto_offset_reset="earliest", client_id="lenient-aio") as lenient_aio,
    ):
        each = [(sync, strict), (aio, strict_aio), (sync, lenient), (aio, lenient_aio)]
        for api, consumer in each:
            consumer.assign([ottla.TopicPartition(log.topic, 0, 0)])
            assert values(poll_until(api, consumer, READ)) == kept + lost
        caplog.set_level(logging.WARNING, "ottla")
        log.lose()
        # Nothing was written since: the stream's log is shorter than what it has read.
        cut = {log.topic: {"0": KEPT}}
        with pytest.raises(DataLossError, match=rf"ends at offset {KEPT}, before offset {READ}"):
            stream.partitions(read, stream.latestOffset())
        assert stream.latestOffset() == cut
        log.write("later", LATER)
        # The stream's log has grown past what it has read, and is another one.
        (part,) = stream.partitions(read, stream.latestOffset())
        with pytest.raises(
            DataLossError, match=rf"offset {READ} was read \(leader epoch \d+\).* from offset {KEPT} on"
        ):
            list(stream.read(part))
        close_idle(checked)
        for api, consumer in each[:2]:
            with pytest.raises(errors.LogTruncatedError, match=f"offset {READ} was read") as caught:
                poll_until(api, consumer, 1)
            assert (caught.value.topic, caught.value.partition) == (log.topic, 0)
            assert f"from offset {KEPT} on" in str(caught.value)
            assert str(caught.value).count("leader epoch") == 2
            assert isinstance(caught.value, errors.OffsetOutOfRangeError)
            consumer.seek(log.partition, KEPT)
        for api, consumer in each:
            assert values(poll_until(api, consumer, LATER)) == later
        told = [
            r.getMessage() for r in caplog.records if "was truncated" in r.getMessage() and "goes on" in r.getMessage()
        ]
        assert len(told) == 2, told
        assert all(f"offset {READ}" in text and f"offset {KEPT}" in text for text in told)
    for api in (sync, aio):
        # What a group committed is compared, too.
        with api.consumer(bootstrap, group_id=f"g-{api.name}", auto_offset_reset="none") as consumer:
            consumer.assign([log.partition])
            with pytest.raises(errors.LogTruncatedError, match=f"offset {READ} was read"):
                poll_until(api, consumer, 1)
    aio.loop.close()
