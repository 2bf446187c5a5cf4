"""Plans of which brokers hold the replicas of partitions. `alter_partition_reassignments` carries them out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ottla._rows import Rows
from ottla._types import TopicPartition
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla._admin.partitions import PartitionReassignment
    from ottla._types import PartitionInfo, TopicDescription

__all__ = ["ReassignmentPlan", "ReassignmentProgress", "ReplicaMove"]

# Kafka's names of the throttle, as its own tool sets them: on topics the replicas, on brokers the rate.
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


@dataclass(frozen=True)
class ReplicaMove:
    """The replicas of a partition, before and after.

    Attributes:
        topic: The topic.
        partition: The partition.
        current: The ids of the brokers that have a replica, the preferred leader first.
        planned: The ids of the brokers that are to have one, the preferred leader first.
    """

    topic: str
    partition: int
    current: list[int]
    planned: list[int]

    @property
    def adding(self) -> list[int]:
        """The ids of the brokers that are to get a replica."""
        return [broker for broker in self.planned if broker not in self.current]

    @property
    def removing(self) -> list[int]:
        """The ids of the brokers that are to lose theirs."""
        return [broker for broker in self.current if broker not in self.planned]


@dataclass(frozen=True)
class ReassignmentPlan:
    """Where replicas of partitions are to be.

    Attributes:
        moves: A row for each partition whose replicas change, in the order of topics and partitions.
        unchanged: How many partitions of the topics stay as they are.
    """

    moves: Rows[ReplicaMove]
    unchanged: int

    @property
    def reassignments(self) -> dict[TopicPartition, list[int]]:
        """The argument of `alter_partition_reassignments` that carries the plan out."""
        return {TopicPartition(move.topic, move.partition): move.planned for move in self.moves}

    @property
    def rollback(self) -> dict[TopicPartition, list[int]]:
        """The argument of `alter_partition_reassignments` that undoes it."""
        return {TopicPartition(move.topic, move.partition): move.current for move in self.moves}

    def to_json(self) -> str:
        """Write the plan as a file of Kafka's own tool.

        Returns:
            The JSON that `kafka-reassign-partitions.sh --execute --reassignment-json-file` reads.
        """
        rows = [{"topic": move.topic, "partition": move.partition, "replicas": move.planned} for move in self.moves]
        return json.dumps({"version": 1, "partitions": rows})

    def _repr_html_(self) -> str:
        return self.moves._repr_html_()


@dataclass(frozen=True)
class ReassignmentProgress:
    """How far the move of a partition's replicas is.

    Attributes:
        topic: The topic.
        partition: The partition.
        state: `"done"`; `"moving"`; or `"different"` if nothing moves and the replicas are not those of the plan.
        replicas: The ids of the brokers that have a replica now.
        adding: The ids of those that are still to get one.
        removing: The ids of those that are still to lose theirs.
    """

    topic: str
    partition: int
    state: Literal["done", "moving", "different"]
    replicas: list[int]
    adding: list[int]
    removing: list[int]


def plan(
    topics: Iterable[TopicDescription],
    racks: Mapping[int, str | None],
    *,
    replication: int | None,
    rack_aware: bool,
) -> ReassignmentPlan:
    """Spread the replicas of topics over brokers.

    Args:
        topics: The topics.
        racks: The brokers that may have replicas, with their racks.
        replication: The number of replicas of each partition; None keeps each partition's.
        rack_aware: Whether the replicas of a partition go to different racks where that is possible.

    Raises:
        ArgumentError: There are too few brokers, or only some of them have a rack.
    """
    if rack_aware and len({rack is None for rack in racks.values()}) == 2:
        without = sorted(broker for broker, rack in racks.items() if rack is None)
        raise ArgumentError(f"brokers {without} have no rack, others have one: set rack_aware=False")
    current: dict[TopicPartition, list[int]] = {
        TopicPartition(topic.name, row.partition): list(row.replicas)
        for topic in sorted(topics, key=lambda each: each.name)
        for row in topic.partitions
    }
    wanted = {place: replication or len(replicas) for place, replicas in current.items()}
    most = max(wanted.values(), default=0)
    if most > len(racks):
        raise ArgumentError(f"{most} replicas need as many brokers, and there are {len(racks)}")
    spread = _Spread({broker: (rack or "") if rack_aware else "" for broker, rack in racks.items()})
    planned = spread.placed(current, wanted)
    moves = [
        ReplicaMove(place.topic, place.partition, replicas, planned[place])
        for place, replicas in current.items()
        if planned[place] != replicas
    ]
    return ReassignmentPlan(Rows(moves), len(current) - len(moves))


class _Spread:
    """Places replicas. Each broker gets as many as the others, few replicas move, racks differ within a partition."""

    def __init__(self, racks: Mapping[int, str]) -> None:
        self.racks = racks
        self.load: Counter[int] = Counter(dict.fromkeys(racks, 0))

    def placed(
        self, current: Mapping[TopicPartition, Sequence[int]], wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[int]]:
        total = sum(wanted.values())
        share = -(-total // max(len(self.racks), 1))
        made: dict[TopicPartition, list[int]] = {}
        for place, replicas in current.items():
            made[place] = self._kept(replicas, wanted[place], share)
        for place, replicas in made.items():
            while len(replicas) < wanted[place]:
                replicas.append(self._next(replicas))
                self.load[replicas[-1]] += 1
        self._level(made)
        self._lead(made)
        return made

    def _kept(self, replicas: Sequence[int], wanted: int, share: int) -> list[int]:
        """The replicas that stay: of brokers that may have them, within their share, in racks of their own."""
        kept: list[int] = []
        for broker in replicas:
            is_free = broker in self.racks and self.load[broker] < share and len(kept) < wanted
            if is_free and self._repeats([*kept, broker]) <= self._least_repeats(len(kept) + 1):
                kept.append(broker)
                self.load[broker] += 1
        return kept

    def _repeats(self, replicas: Sequence[int]) -> int:
        """How many replicas share a rack with an earlier one."""
        return len(replicas) - len({self.racks[broker] for broker in replicas})

    def _least_repeats(self, count: int) -> int:
        return max(0, count - len(set(self.racks.values())))

    def _next(self, replicas: Sequence[int]) -> int:
        free = (broker for broker in self.racks if broker not in replicas)
        return min(free, key=lambda broker: (self._repeats([*replicas, broker]), self.load[broker], broker))

    def _level(self, made: dict[TopicPartition, list[int]]) -> None:
        """Move replicas from brokers with many to brokers with few, while that is allowed by the racks."""
        while True:
            for place, index, broker in self._levelling(made):
                self.load[made[place][index]] -= 1
                self.load[broker] += 1
                made[place][index] = broker
                break
            else:
                return

    def _levelling(self, made: Mapping[TopicPartition, list[int]]) -> Iterable[tuple[TopicPartition, int, int]]:
        few = sorted(self.racks, key=lambda broker: (self.load[broker], broker))
        for place, replicas in made.items():
            for index, broker in enumerate(replicas):
                for other in few:
                    if self.load[other] + 1 >= self.load[broker]:
                        break
                    changed = [*replicas[:index], other, *replicas[index + 1 :]]
                    if other not in replicas and self._repeats(changed) <= self._repeats(replicas):
                        yield place, index, other

    def _lead(self, made: dict[TopicPartition, list[int]]) -> None:
        """Give each broker as many preferred leaders as the others, as far as its replicas allow."""
        leaders: Counter[int] = Counter()
        for replicas in made.values():
            first = min(replicas, key=lambda broker: (leaders[broker], replicas.index(broker)), default=None)
            if first is not None:
                leaders[first] += 1
                replicas.remove(first)
                replicas.insert(0, first)


def throttled_replicas(moves: Iterable[ReplicaMove]) -> dict[str, tuple[str, str]]:
    """By topic, the replicas whose leaders and whose followers are throttled, as Kafka's configurations list them."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for move in moves:
        leaders, followers = found.setdefault(move.topic, ([], []))
        if move.adding:
            leaders += [f"{move.partition}:{broker}" for broker in move.current]
            followers += [f"{move.partition}:{broker}" for broker in move.adding]
    return {topic: (",".join(both[0]), ",".join(both[1])) for topic, both in found.items() if both[0]}


def brokers_of(moves: Iterable[ReplicaMove]) -> list[int]:
    """The brokers that send or get replicas."""
    return sorted({broker for move in moves if move.adding for broker in (*move.current, *move.adding)})


def progress(
    moves: Iterable[ReplicaMove],
    moving: Mapping[TopicPartition, PartitionReassignment],
    now: Mapping[TopicPartition, PartitionInfo],
) -> Rows[ReassignmentProgress]:
    """Compare a plan with what is there."""
    rows: Rows[ReassignmentProgress] = Rows()
    for move in moves:
        place = TopicPartition(move.topic, move.partition)
        replicas = list(now[place].replicas) if place in now else []
        if place in moving:
            going = moving[place]
            rows.append(ReassignmentProgress(*place, "moving", going.replicas, going.adding, going.removing))
        else:
            state: Literal["done", "different"] = "done" if replicas == move.planned else "different"
            rows.append(ReassignmentProgress(*place, state, replicas, [], []))
    return rows
