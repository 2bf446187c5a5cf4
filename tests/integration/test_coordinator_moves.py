"""Groups of others on the embedded broker while their coordinator moves, dies or starts again: members find it anew and go on,
as in Kafka. A rebalance would begin another generation, which the offsets topic tells."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.protocol import decode_internal
from ottla.testing import Broker
from tests.integration.conftest import REAL
from tests.integration.messages import Message
from tests.integration.peers.base import DEADLINE, until
from tests.integration.peers.confluent import Confluent
from tests.integration.peers.java import Java
from tests.integration.test_foreign_clients import GROUP_PEERS, Reader, numbered, values
from tests.ports import held_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.peers.base import Peer

TOPIC, PARTITIONS, GROUP, NODES = "flights", 4, "readers", 3
OFFSETS = "__consumer_offsets"
A_ROUND = 100


@dataclass
class Kept:
    """What the offsets topic says of the group."""

    assigned: list[tuple[int, int]] = field(default_factory=list)
    """Each generation that was assigned, with the number of its members."""
    committed: dict[int, int] = field(default_factory=dict)
    """By partition."""


def kept(bootstrap: str) -> Kept:
    found = Kept()
    with ottla.Consumer(bootstrap) as consumer:
        partitions = [ottla.TopicPartition(OFFSETS, p) for p in consumer.partitions_for(OFFSETS)]
        ends = {partition: end for partition, end in consumer.end_offsets(partitions).items() if end}
        consumer.assign(ottla.TopicPartition(p.topic, p.partition, 0) for p in ends)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in consumer.poll(1):
                read = decode_internal(OFFSETS, record.key, record.value)
                if read.value is None or read.key.data["group"] != GROUP:
                    continue
                if read.name == "OffsetCommit":
                    found.committed[read.key.data["partition"]] = read.value.data["offset"]
                elif members := read.value.data["members"]:
                    found.assigned.append((read.value.data["generation"], len(members)))
    return found


def wait(happened: Callable[[], bool], what: str) -> None:
    for _ in until(DEADLINE, what):
        if happened():
            return
        time.sleep(0.05)


def joined(peer: Peer, bootstrap: str) -> list[Reader]:
    """Two members that have shared the topic."""
    members = [Reader(lambda: peer.member(bootstrap, TOPIC, GROUP)) for _ in range(2)]

    def shared() -> bool:
        assert not any(m.failure for m in members), [m.failure for m in members]
        return sorted(p for m in members for p in m.owned) == list(range(PARTITIONS)) and all(m.owned for m in members)

    wait(shared, f"two members own all partitions; they have {[m.owned for m in members]}")
    return members


class Rounds:
    """Writes a round of records at a time, and waits until the group has committed it."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def read(self, bootstrap: str) -> None:
        new = numbered(len(self.sent), A_ROUND, PARTITIONS)
        self.sent += new
        Confluent().produce(bootstrap, TOPIC, "none", new)
        wait(
            lambda: sum(kept(bootstrap).committed.values()) == len(self.sent), f"{len(self.sent)} records are committed"
        )


@pytest.mark.parametrize("peer", GROUP_PEERS, indirect=True)
def test_members_stay_when_their_coordinator_moves(peer: Peer) -> None:
    with Broker(nodes=NODES, topics={TOPIC: PARTITIONS}) as cluster:
        bootstrap, rounds = cluster.bootstrap_servers, Rounds()
        members = joined(peer, bootstrap)
        rounds.read(bootstrap)
        before, owned = kept(bootstrap).assigned, [m.owned for m in members]
        for _ in range(NODES):
            cluster.move_coordinator(GROUP, to=cluster.coordinator(GROUP) % NODES + 1)
            rounds.read(bootstrap)
        dead = cluster.coordinator(GROUP)
        cluster.stop_node(dead, how="kill")
        rounds.read(bootstrap)
        assert cluster.coordinator(GROUP) != dead
        assert (kept(bootstrap).assigned, [m.owned for m in members]) == (before, owned)
        cluster.start_node(dead)
        read = list(itertools.chain.from_iterable(m.stop() for m in members))
    assert values(read) == values(rounds.sent)


@REAL
def test_javas_members_stay_when_their_coordinator_moves() -> None:
    with Broker(nodes=NODES, topics={TOPIC: PARTITIONS}) as cluster:
        bootstrap, rounds, read = cluster.bootstrap_servers, Rounds(), list[Message]()
        # Each round waits for a commit.
        often = {"auto_commit_interval_ms": "500"}
        reader = threading.Thread(
            target=lambda: read.extend(Java().consume_in_group(bootstrap, TOPIC, GROUP, 3 * A_ROUND, **often)),
            daemon=True,
        )
        cluster.coordinator(GROUP)  # which makes the offsets topic
        reader.start()
        wait(lambda: len(kept(bootstrap).assigned) > 0, "Java's consumer has its partitions")
        for _ in range(2):
            cluster.move_coordinator(GROUP, to=cluster.coordinator(GROUP) % NODES + 1)
            rounds.read(bootstrap)
        cluster.stop_node(cluster.coordinator(GROUP), how="kill")
        rounds.read(bootstrap)
        reader.join(DEADLINE)
        assert kept(bootstrap).assigned == [(1, 1)]
    assert values(read) == values(rounds.sent)


@pytest.mark.parametrize("peer", GROUP_PEERS, indirect=True)
def test_members_stay_when_the_broker_starts_again(tmp_path: Path, peer: Peer) -> None:
    rounds = Rounds()
    with held_port() as port:
        with Broker(data_dir=tmp_path, port=port, topics={TOPIC: PARTITIONS}) as first:
            bootstrap = first.bootstrap_servers
            members = joined(peer, bootstrap)
            rounds.read(bootstrap)
            before = kept(bootstrap).assigned
        with Broker(data_dir=tmp_path, port=port):
            rounds.read(bootstrap)
            assert kept(bootstrap).assigned == before
            read = list(itertools.chain.from_iterable(m.stop() for m in members))
    assert values(read) == values(rounds.sent)
