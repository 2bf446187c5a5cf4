"""Offsets of many partitions, and the JSON in which Spark keeps them.

Nothing here talks to a broker. The JSON is that of Spark's Kafka source, `{"topic":{"0":123}}`, topics and partitions
in order, so that either source can take up the other's checkpoint.
"""

from collections.abc import Iterable, Mapping

Partition = tuple[str, int]
Offsets = dict[Partition, int]


def to_json(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Offsets as the value that Spark keeps in its checkpoint."""
    told: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        told.setdefault(topic, {})[str(partition)] = offset
    return told


def from_json(told: Mapping[str, Mapping[str, int]]) -> Offsets:
    """What `to_json` made, or Spark's Kafka source."""
    return {(topic, int(partition)): offset for topic, parts in told.items() for partition, offset in parts.items()}


def names(partitions: Iterable[Partition]) -> str:
    """Partitions as errors name them."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def named(offsets: Mapping[Partition, int]) -> str:
    """Partitions with their offsets, as errors name them."""
    return ", ".join(f"{topic}-{partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
