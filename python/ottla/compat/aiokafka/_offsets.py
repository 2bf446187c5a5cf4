"""Offsets as programs pass them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.compat.aiokafka.structs import OffsetAndMetadata, TopicPartition


def checked_offsets(offsets: Mapping[TopicPartition, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets with their texts.

    Args:
        offsets: By partition an offset, or an offset and a text.

    Raises:
        ValueError: There are none, or one has another form.
        TypeError: A key is no TopicPartition, or a text no str.
    """
    if not offsets or not isinstance(offsets, dict):
        raise ValueError(f"offsets must be a dict by TopicPartition that is not empty, and is {offsets!r}")
    found = {}
    for partition, value in offsets.items():
        if not isinstance(partition, TopicPartition):
            raise TypeError(f"Key should be TopicPartition instance, and is {partition!r}")
        if isinstance(value, int):
            found[partition] = OffsetAndMetadata(value, "")
            continue
        try:
            offset, metadata = value
        except (TypeError, ValueError):
            raise ValueError(f"the offset of {partition} must be an int or a pair, and is {value!r}") from None
        if not isinstance(metadata, str):
            raise TypeError(f"Metadata should be a string, and is {metadata!r}")
        found[partition] = OffsetAndMetadata(offset, metadata)
    return found
