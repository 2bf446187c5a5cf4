"""An assignor of the caller's on real Kafka, in one group with kafka-python's member that has one of the same name."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import (
    AbstractPartitionAssignor,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

import ottla
from tests.integration.conftest import REAL
from tests.integration.peers.base import DEADLINE
from tests.waiting import wait_for_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ottla._types import Partition

pytestmark = [REAL]

PARTITIONS = 3


class Sized(ottla.Assignor):
    """Gives everything to the member that tells the largest size."""

    name = "sized"

    def __init__(self, size: int) -> None:
        self.size, self.led = size, 0

    def assign(
        self, members: Sequence[ottla.GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, Iterable[Partition]]:
        self.led = max(self.led, len(members))
        largest = max(members, key=lambda member: int(member.user_data or b""))
        return {largest.member_id: [(topic, p) for topic, count in topics.items() for p in range(count)]}

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:
        return b"%d" % self.size


def theirs(size: int) -> AbstractPartitionAssignor:
    """The same for kafka-python."""

    class Theirs(AbstractPartitionAssignor):
        name = "sized"

        def assign(self, cluster: Any, members: Any) -> Any:
            largest = max(members, key=lambda member: int(member.metadata.user_data))
            topics = [(topic, sorted(cluster.partitions_for_topic(topic))) for topic in largest.metadata.topics]
            return {
                member.member_id: ConsumerProtocolAssignment(0, topics if member is largest else [], b"")
                for member in members
            }

        def metadata(self, topics: Any) -> Any:
            return ConsumerProtocolSubscription(0, list(topics), b"%d" % size)

        def on_assignment(self, assignment: Any, generation: int) -> None:
            pass

    return Theirs()


class Polling(threading.Thread):
    """Polls a member of either client until it is left."""

    def __init__(self, consumer: Any, poll: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.consumer, self.poll = consumer, poll
        self.left = threading.Event()
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self.left.is_set():
                self.poll()
            self.consumer.close()
        except BaseException as error:
            self.failure = error

    def has(self) -> int:
        if self.failure:
            raise self.failure
        return len(self.consumer.assignment())

    def leave(self) -> None:
        self.left.set()
        self.join(DEADLINE)
        assert not self.is_alive()
        if self.failure:
            raise self.failure


def ours(bootstrap: str, topic: str, assignor: Sized) -> Polling:
    strategy: Any = [assignor, "range"]
    consumer = ottla.Consumer(
        bootstrap, topics=topic, group_id=topic, partition_assignment_strategy=strategy, heartbeat_interval_ms=200
    )
    return Polling(consumer, lambda: consumer.poll(0.1))


def of_kafka_python(bootstrap: str, topic: str, size: int) -> Polling:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        partition_assignment_strategy=[theirs(size)],
        heartbeat_interval_ms=200,
    )
    return Polling(consumer, lambda: consumer.poll(timeout_ms=100))


@pytest.fixture(scope="module")
def bootstrap(kafka: str) -> str:
    return kafka


def test_whoever_leads_both_members_do_as_the_assignor_says(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(bootstrap, PARTITIONS)
    assignor = Sized(1)
    mine = ours(bootstrap, topic, assignor)
    wait_for_ours(lambda: mine.has() == PARTITIONS, "ours has all")
    larger = of_kafka_python(bootstrap, topic, 2)
    wait_for_ours(lambda: (mine.has(), larger.has()) == (0, PARTITIONS), "the larger one has all, as ours has decided")
    assert assignor.led == 2
    mine.leave()
    # Who stays leads now.
    largest = Sized(3)
    mine = ours(bootstrap, topic, largest)
    wait_for_ours(lambda: (mine.has(), larger.has()) == (PARTITIONS, 0), "ours has all, as kafka-python has decided")
    assert largest.led == 0
    larger.leave()
    wait_for_ours(lambda: largest.led == 1, "ours leads")
    wait_for_ours(lambda: mine.has() == PARTITIONS, "ours has all")
    mine.leave()
