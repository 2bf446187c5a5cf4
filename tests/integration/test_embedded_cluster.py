"""The embedded cluster of three nodes under the clients of others: leaders move and nodes die, and nothing is lost."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker
from tests.integration.conftest import PEERS
from tests.integration.messages import Message
from tests.integration.peers.base import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from tests.integration.peers.base import Peer

TOPIC, PARTITIONS, NODES = "flights", 3, 3
# Each round is a producer of its own, so that some begin in the middle of a move. There may be more rounds.
ROUNDS, A_ROUND = 3, 1500
# Less often than a client asks again, so that its next attempt meets the leader that it was told of.
PAUSE = 0.15
# It writes again what it got no answer for, without a number by which a broker could know it.
NOT_IDEMPOTENT = {"kafka-python"}


class Unrest(threading.Thread):
    """Moves the leader of each partition in turn, and ends and starts a node now and then, until the block ends."""

    def __init__(self, cluster: Broker) -> None:
        super().__init__(daemon=True)
        self.cluster, self.over = cluster, threading.Event()
        self.moves = self.deaths = 0
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.over.set()
        self.join(DEADLINE)
        assert not self.is_alive(), "the cluster does not come to rest"
        if self.failure:
            raise self.failure

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.over.wait(PAUSE):
                    return
                if number % 10 == 9:
                    self.kill(1 + number // 10 % NODES)
                else:
                    self.move(number % PARTITIONS)
        except BaseException as failure:
            self.failure = failure

    def move(self, partition: int) -> None:
        state = self.cluster.partition(TOPIC, partition)
        others = [node for node in state.in_sync if node != state.leader]
        if others:
            self.cluster.move_leader(TOPIC, partition, to=others[self.moves % len(others)])
            self.moves += 1

    def kill(self, node: int) -> None:
        if not all(len(self.cluster.partition(TOPIC, p).in_sync) == NODES for p in range(PARTITIONS)):
            return
        self.cluster.stop_node(node, how="kill")
        self.over.wait(PAUSE)
        self.cluster.start_node(node)
        self.deaths += 1


def numbered(start: int) -> Iterator[Message]:
    for number in range(start, start + A_ROUND):
        yield Message(b"%d" % number, b"value %d" % number, partition=number % PARTITIONS)


def in_log(bootstrap: str) -> int:
    """How many records all partitions have together, once each has a leader that says so."""
    partitions = [ottla.TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    with ottla.Consumer(bootstrap) as consumer:
        return sum(consumer.end_offsets(partitions).values())


@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_nothing_is_lost_while_leaders_move_and_nodes_die(peer: Peer) -> None:
    with Broker(nodes=NODES, topics={TOPIC: PARTITIONS}) as cluster:
        bootstrap, written = cluster.bootstrap_servers, list[Message]()
        with Unrest(cluster) as unrest:
            for _ in until(2 * DEADLINE, "leaders moved and a node died while records were written"):
                sent = [m for message in numbered(len(written)) if (m := peer.as_written(message))]
                peer.produce(bootstrap, TOPIC, "lz4", sent)
                written += sent
                if len(written) >= ROUNDS * A_ROUND and unrest.moves > 2 * PARTITIONS and unrest.deaths:
                    break
            count = in_log(bootstrap)
            read = peer.consume(bootstrap, TOPIC, PARTITIONS, count)
    values = [m.value for m in read]
    assert set(values) == {m.value for m in written}
    if peer.name not in NOT_IDEMPOTENT:
        assert count == len(written), "something was written twice"
        in_order = {p: [m.key for m in read if m.partition == p] for p in range(PARTITIONS)}
        for partition, keys in in_order.items():
            assert keys == sorted(keys, key=lambda key: int(key or b"-1")), f"partition {partition} is out of order"


def test_a_node_that_is_behind_cannot_lead() -> None:
    """Else the test above would lose records, or could not fail."""
    with Broker(nodes=NODES, topics={TOPIC: 1}, config={"replica.lag.time.max.ms": 100}) as cluster:
        behind = cluster.leader(TOPIC) % NODES + 1
        cluster.pause_replication(behind)
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            # Acknowledged by all that are in sync: it no longer is.
            producer.send(TOPIC, b"missed", partition=0).result(DEADLINE)
        with pytest.raises(errors.ArgumentError, match="in sync"):
            cluster.move_leader(TOPIC, to=behind)
