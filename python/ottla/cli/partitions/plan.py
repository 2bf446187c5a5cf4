"""Where replicas are to be, so that brokers and racks have equally many and few replicas move."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    racks_suffice = len({rack for rack in brokers.values() if rack is not None}) >= most
    found: dict[ottla.TopicPartition, list[int]] = {}
    for partition, replicas in current.items():
        stay: list[int] = []
        for broker in replicas:
            again = racks_suffice and brokers.get(broker) in {brokers[each] for each in stay}
            if broker in brokers and not again and len(stay) < wanted[partition]:
                stay.append(broker)
        found[partition] = stay
    load = Counter(broker for replicas in found.values() for broker in replicas)
    for partition, replicas in found.items():
        while len(replicas) < wanted[partition]:
            free = [broker for broker in brokers if broker not in replicas]
            best = min(free, key=lambda broker: (_is_rack_of(brokers, broker, replicas), load[broker], broker))
            replicas.append(best)
            load[best] += 1
    _even_out(found, brokers, load)
    _spread_leaders(found)
    return found


def _is_rack_of(brokers: Mapping[int, str | None], broker: int, others: Iterable[int]) -> bool:
    return brokers[broker] is not None and brokers[broker] in {brokers[each] for each in others}


def _even_out(
    found: Mapping[ottla.TopicPartition, list[int]], brokers: Mapping[int, str | None], load: Counter[int]
) -> None:
    """Move replicas from brokers with many to brokers with few, where no rack gets a partition twice by that."""
    moved = True
    while moved:
        moved = False
        for full, empty in product(
            sorted(brokers, key=lambda each: -load[each]), sorted(brokers, key=load.__getitem__)
        ):
            if load[full] - load[empty] < 2:
                continue
            for replicas in found.values():
                if full not in replicas or empty in replicas:
                    continue
                others = [each for each in replicas if each != full]
                if _is_rack_of(brokers, empty, others) and not _is_rack_of(brokers, full, others):
                    continue
                replicas[replicas.index(full)] = empty
                load[full] -= 1
                load[empty] += 1
                moved = True
                break
            if moved:
                break


def _spread_leaders(found: Mapping[ottla.TopicPartition, list[int]]) -> None:
    """Put another replica first where the first leads two partitions more."""
    leads = Counter(replicas[0] for replicas in found.values())
    moved = True
    while moved:
        moved = False
        for replicas in found.values():
            best = min(replicas, key=lambda broker: leads[broker])
            if leads[replicas[0]] - leads[best] > 1:
                leads[replicas[0]] -= 1
                leads[best] += 1
                replicas.remove(best)
                replicas.insert(0, best)
                moved = True
