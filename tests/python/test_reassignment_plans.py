"""Plans of reassignments: even, apart in racks, and with few moves. `tests/integration/test_admin.py` carries some out."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

import ottla
from ottla._admin import reassigning
from ottla._types import PartitionInfo, TopicDescription
from ottla.errors import ArgumentError
from ottla.testing import Broker


def topic(name: str, *replicas: list[int]) -> TopicDescription:
    rows = [PartitionInfo(number, each[0], each, each) for number, each in enumerate(replicas)]
    return TopicDescription(name, None, False, rows)


def made(topics: list[TopicDescription], racks: dict[int, str | None], **options: object) -> dict[object, list[int]]:
    """The replicas of all partitions after a plan."""
    before = {(each.name, row.partition): list(row.replicas) for each in topics for row in each.partitions}
    found = reassigning.plan(topics, racks, replication=None, rack_aware=True, **options)  # type: ignore[arg-type]
    assert len(found.moves) + found.unchanged == len(before)
    return before | {(move.topic, move.partition): move.planned for move in found.moves}


def spread(counts: Counter[int], brokers: dict[int, str | None]) -> int:
    loads = [counts[broker] for broker in brokers]
    return max(loads) - min(loads)


@pytest.mark.parametrize("seed", range(40))
def test_replicas_and_leaders_are_even(seed: int) -> None:
    chance = random.Random(seed)
    old = list(range(1, chance.randint(3, 6)))
    new: dict[int, str | None] = dict.fromkeys(range(1, chance.randint(4, 9)))
    size = chance.randint(1, 2)
    topics = [
        topic(name, *(chance.sample(old, size) for _ in range(chance.randint(1, 12)))) for name in ("a", "b", "c")
    ]
    after = made(topics, new)
    assert all(len(set(replicas)) == size for replicas in after.values())
    assert spread(Counter(broker for replicas in after.values() for broker in replicas), new) <= 1
    assert spread(Counter(replicas[0] for replicas in after.values()), new) <= 2


@pytest.mark.parametrize("seed", range(40))
def test_the_replicas_of_a_partition_are_in_different_racks(seed: int) -> None:
    chance = random.Random(seed)
    racks: dict[int, str | None] = {broker: "abc"[broker % 3] for broker in range(1, 10)}
    topics = [topic("t", *(chance.sample(range(1, 10), 3) for _ in range(chance.randint(1, 20))))]
    after = made(topics, racks)
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in after.values())
    assert spread(Counter(broker for replicas in after.values() for broker in replicas), racks) <= 1


def test_what_is_even_stays() -> None:
    topics = [topic("t", [1, 2], [2, 3], [3, 1])]
    plan = reassigning.plan(topics, dict.fromkeys((1, 2, 3)), replication=None, rack_aware=True)
    assert (plan.moves, plan.unchanged) == ([], 3)


def test_a_broker_that_leaves_loses_only_its_own() -> None:
    topics = [topic("t", [1, 2], [2, 3], [3, 4], [4, 1])]
    plan = reassigning.plan(topics, dict.fromkeys((1, 2, 3)), replication=None, rack_aware=True)
    assert sorted(move.partition for move in plan.moves if move.adding) == [2, 3]
    assert all(move.removing == [4] for move in plan.moves if move.adding)


def test_the_number_of_replicas_changes() -> None:
    plan = reassigning.plan([topic("t", [1], [1])], dict.fromkeys((1, 2)), replication=2, rack_aware=True)
    assert plan.reassignments == {ottla.TopicPartition("t", 0): [1, 2], ottla.TopicPartition("t", 1): [2, 1]}
    assert plan.rollback == {ottla.TopicPartition("t", 0): [1], ottla.TopicPartition("t", 1): [1]}
    assert json.loads(plan.to_json())["partitions"][1] == {"topic": "t", "partition": 1, "replicas": [2, 1]}
    assert reassigning.throttled_replicas(plan.moves) == {"t": ("0:1,1:1", "0:2,1:2")}
    assert reassigning.brokers_of(plan.moves) == [1, 2]


def test_what_cannot_be_planned() -> None:
    topics = [topic("t", [1, 2])]
    with pytest.raises(ArgumentError, match="2 replicas need as many brokers"):
        reassigning.plan(topics, {1: None}, replication=None, rack_aware=True)
    with pytest.raises(ArgumentError, match=r"brokers \[2\] have no rack"):
        reassigning.plan(topics, {1: "a", 2: None}, replication=None, rack_aware=True)
    reassigning.plan(topics, {1: "a", 2: None}, replication=None, rack_aware=False)


def test_progress_is_done_moving_or_different() -> None:
    plan = reassigning.plan([topic("t", [1], [1], [1])], {2: None}, replication=None, rack_aware=True)
    places = [ottla.TopicPartition("t", number) for number in range(3)]
    moving = {places[0]: ottla.PartitionReassignment([1, 2], [2], [1])}
    now = dict(zip(places, topic("t", [1, 2], [2], [1]).partitions, strict=True))
    rows = reassigning.progress(plan.moves, moving, now)
    assert [row.state for row in rows] == ["moving", "done", "different"]
    assert (rows[0].adding, rows[0].removing) == ([2], [1])


def test_one_broker_has_nothing_to_move() -> None:
    with Broker(topics={"flights": 3}) as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        plan = admin.plan_reassignment("flights")
        assert (plan.moves, plan.unchanged) == ([], 3)
        admin.start_reassignment(plan, throttle=1000)
        assert admin.verify_reassignment(plan) == []
        with pytest.raises(ArgumentError, match="throttle"):
            admin.start_reassignment(plan, throttle=0)
        with pytest.raises(ArgumentError, match=r"no brokers \[9\]"):
            admin.plan_reassignment("flights", brokers=[9])
