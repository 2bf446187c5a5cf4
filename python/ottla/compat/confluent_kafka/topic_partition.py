"""`TopicPartition` and `Uuid`, the values that name things."""

from __future__ import annotations

import base64
from typing import Any

from ottla.compat.confluent_kafka.constants import OFFSET_INVALID
from ottla.compat.confluent_kafka.errors import KafkaError

_MOST_EPOCH = 2**31


class TopicPartition:
    """A partition of a topic with an offset, and with what a call returns of it: metadata, leader epoch, error.

    Args:
        topic: The topic's name.
        partition: The partition's number; -1 for no partition.
        offset: An offset, or OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED or OFFSET_INVALID.
        metadata: Text that is committed with the offset.
        leader_epoch: The epoch of the leader that wrote the record before the offset.
    """

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"argument 'topic' must be str, not {type(topic).__name__}")
        for name, value in (("partition", partition), ("offset", offset)):
            if not isinstance(value, int):
                raise TypeError(f"argument {name!r} must be int, not {type(value).__name__}")
        if metadata is not None and "\0" in metadata:
            raise ValueError("embedded null character")
        if leader_epoch is not None and leader_epoch >= _MOST_EPOCH:
            raise OverflowError("leader_epoch does not fit into 32 bits")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch if leader_epoch is not None and leader_epoch >= 0 else None
        self.error: KafkaError | None = None

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )

    def __hash__(self) -> int:
        return hash((self.topic, self.partition))

    def __eq__(self, other: object) -> bool:
        return self.__pair() == other.__pair() if isinstance(other, TopicPartition) else NotImplemented

    def __lt__(self, other: TopicPartition) -> bool:
        return self.__pair() < other.__pair() if isinstance(other, TopicPartition) else NotImplemented

    def __le__(self, other: TopicPartition) -> bool:
        return self.__pair() <= other.__pair() if isinstance(other, TopicPartition) else NotImplemented

    def __gt__(self, other: TopicPartition) -> bool:
        return self.__pair() > other.__pair() if isinstance(other, TopicPartition) else NotImplemented

    def __ge__(self, other: TopicPartition) -> bool:
        return self.__pair() >= other.__pair() if isinstance(other, TopicPartition) else NotImplemented

    def __pair(self) -> tuple[str, int]:
        """Return what is compared.

        Returns: The topic and the partition.
        """
        return self.topic, self.partition


class Uuid:
    """An id of 128 bits, such as a topic's.

    Args:
        most_significant_bits: The upper 64 bits, as a signed number.
        least_significant_bits: The lower 64 bits, as a signed number.
    """

    def __init__(self, most_significant_bits: int, least_significant_bits: int) -> None:
        self.__bits = (int(most_significant_bits), int(least_significant_bits))

    def get_most_significant_bits(self) -> int:
        """Return the upper half.

        Returns: 64 bits, as a signed number.
        """
        return self.__bits[0]

    def get_least_significant_bits(self) -> int:
        """Return the lower half.

        Returns: 64 bits, as a signed number.
        """
        return self.__bits[1]

    def __repr__(self) -> str:
        data = b"".join((bits % 2**64).to_bytes(8, "big") for bits in self.__bits)
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    def __int__(self) -> int:
        return self.__bits[0] % 2**64 << 64 | self.__bits[1] % 2**64

    def __hash__(self) -> int:
        return hash(self.__bits)

    def __eq__(self, other: object) -> bool:
        return self.__bits == other.__bits if isinstance(other, Uuid) else NotImplemented


for _class in (TopicPartition, Uuid):
    _class.__module__ = "confluent_kafka.cimpl"


def to_commit(metadata: str | None) -> str:
    """Text to commit: brokers have no None, so an empty text is a null character, as in confluent-kafka."""
    if metadata is None:
        return ""
    return metadata or "\0"


def committed(metadata: str) -> str | None:
    """The text of a committed offset, which confluent-kafka ends by a null character."""
    return metadata.partition("\0")[0] if metadata else None


def partition_list(value: Any) -> list[TopicPartition]:
    """Check an argument that has to be a list of partitions, and copy them: calls return others than they take."""
    if not isinstance(value, list):
        raise TypeError("requires list of TopicPartition")
    for item in value:
        if not isinstance(item, TopicPartition):
            raise TypeError(f"expected TopicPartition, not {type(item).__name__}")
    return [TopicPartition(at.topic, at.partition, at.offset, at.metadata, at.leader_epoch) for at in value]
