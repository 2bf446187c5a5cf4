"""Where replicas are to be, so that brokers and racks have equally many and few replicas move."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ottla


def planned(
    current: Mapping[ottla.TopicPartition, list[int]], brokers: Mapping[int, str | None], replication: int | None
) -> dict[ottla.TopicPartition, list[int]]:
    """Plan the replicas of partitions.

    Args:
        current: The brokers of each partition's replicas.
        brokers: The rack of each broker that may have replicas.
        replication: Replicas of each partition; None keeps their number.

    Returns:
        The brokers of each partition, the preferred leader first.

    Raises:
        ArgumentError: There are fewer brokers than replicas.
    """
    wanted = {partition: replication or len(replicas) for partition, replicas in current.items()}
    most = max(wanted.values(), default=0)
    if most > len(brokers):
        raise ArgumentError(f"{most} replicas need as many brokers, and there are {len(brokers)}")
    # No broker gets more than this many; the rest of the division is spread one by one.
    share, rest = divmod(sum(wanted.values()), len(brokers))
    load: Counter[int] = Counter()
    kept = {}
    for partition, replicas in current.items():
        stay: list[int] = []
        for broker in replicas:
            above = sum(1 for each in load.values() if each > share)
            limit = share + (1 if above < rest else 0)
            if broker in brokers and load[broker] < limit and len(stay) < wanted[partition]:
                stay.append(broker)
                load[broker] += 1
        kept[partition] = stay
    leads: Counter[int] = Counter()
    found = {}
    for partition, stay in kept.items():
        chosen = list(stay)
        while len(chosen) < wanted[partition]:
            racks = {brokers[broker] for broker in chosen} - {None}
            free = [broker for broker in brokers if broker not in chosen]
            best = min(free, key=lambda broker: (brokers[broker] in racks, load[broker], broker))
            chosen.append(best)
            load[best] += 1
        # A leader that stays is worth more than an equal number of leaders, up to one of difference.
        leader = min(chosen, key=lambda broker: (leads[broker], chosen.index(broker)))
        leads[leader] += 1
        found[partition] = [leader, *(broker for broker in chosen if broker != leader)]
    return found
