"""Offsets of many partitions, and the JSON in which Spark keeps them.

Nothing here connects to a broker. The JSON is the same as in Spark's Kafka source, `{"topic":{"0":123}}`, topics and
partitions in order, so either source can continue from the other's checkpoint.
"""

from collections.abc import Iterable, Mapping

Partition = tuple[str, int]
Offsets = dict[Partition, int]


def to_json(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Offsets as the value that Spark keeps in its checkpoint."""
    kept: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        kept.setdefault(topic, {})[str(partition)] = offset
    return kept


def from_json(kept: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets from the JSON of `to_json` or of a checkpoint."""
    return {(topic, int(partition)): offset for topic, parts in kept.items() for partition, offset in parts.items()}


def names(partitions: Iterable[Partition]) -> str:
    """Partitions as errors name them."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def named(offsets: Mapping[Partition, int]) -> str:
    """Partitions with their offsets, as errors name them."""
    return ", ".join(f"{topic}-{partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
