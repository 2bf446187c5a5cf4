"""The module's functions: versions, and librdkafka's partitioners."""

from __future__ import annotations

import operator
import zlib
from importlib.metadata import version as installed_version
from typing import Any

# The release of librdkafka whose behaviour is followed, as it states it: four bytes, the last 0xff for a release.
_LIBRARY = ("2.16.0", 0x021000FF)
_32 = 0xFFFFFFFF


def version() -> str:
    """The version of the confluent-kafka that is installed.

    Returns: The version: text such as "2.16.1".
    """
    return installed_version("confluent-kafka")


def libversion() -> tuple[str, int]:
    """The release of librdkafka that the behaviour follows.

    Returns: The version: its text, and the same as a number.
    """
    return _LIBRARY


def murmur2(key: bytes, partition_count: int) -> int:
    """The partition of a key by the hash of Java's producer.

    Args:
        key: The key.
        partition_count: The number of partitions.
    """
    data, count = _checked(key, partition_count)
    return (murmur2_of(data) & 0x7FFFFFFF) % count


def murmur2_of(data: bytes) -> int:
    """The hash of Java's producer: 32 bits.

    Args:
        data: A key.
    """
    mixer = 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * mixer & _32
        part = (part ^ part >> 24) * mixer & _32
        value = value * mixer & _32 ^ part
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * mixer & _32
    value = (value ^ value >> 13) * mixer & _32
    return value ^ value >> 15


def consistent(key: bytes, partition_count: int) -> int:
    """The partition of a key by its CRC-32, which is librdkafka's default.

    Args:
        key: The key.
        partition_count: The number of partitions.
    """
    data, count = _checked(key, partition_count)
    return zlib.crc32(data) % count


def fnv1a(key: bytes, partition_count: int) -> int:
    """The partition of a key by the hash FNV-1a, as Sarama's.

    Args:
        key: The key.
        partition_count: The number of partitions.
    """
    data, count = _checked(key, partition_count)
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & _32
    signed = value - 2**32 if value & 0x80000000 else value
    return abs(signed) % count


def _checked(key: Any, partition_count: int) -> tuple[bytes, int]:
    count = operator.index(partition_count)
    if isinstance(key, str):
        raise TypeError("a bytes-like object is required, not 'str'")
    if count <= 0:
        raise ValueError(f"partition_count must be > 0, got {count}")
    return bytes(key), count
