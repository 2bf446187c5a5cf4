"""The offsets that a topic has now, in pieces that workers of an engine read apart from each other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ottla import Consumer, TopicPartition
from ottla.errors import ArgumentError


def ranges_of(
    bootstrap_servers: str | list[str],
    topic: str,
    *,
    since: int | datetime | timedelta | None = None,
    until: int | datetime | timedelta | None = None,
    offsets: range | Mapping[int, range] | None = None,
    config: Mapping[str, Any] | None = None,
    **properties: Any,
) -> dict[int, range]:
    """Find the offsets to read.

    Args:
        bootstrap_servers: `host:port` of one or more brokers.
        topic: The topic's name.
        since: As for `ottla.read`.
        until: As for `ottla.read`.
        offsets: As for `ottla.read`.
        config: Properties of the consumer by Kafka's names.
        **properties: The same as keywords.

    Returns:
        The offsets by partition number. A range is empty if there is nothing to read.

    Raises:
        ArgumentError: A partition of `offsets` does not exist.
        NotFoundError: The topic does not exist.
        KafkaError: As from a consumer.
    """
    with Consumer(bootstrap_servers, config=config, **properties) as consumer:
        numbers = consumer.partitions_for(topic)
        if isinstance(offsets, Mapping):
            if missing := sorted(set(offsets) - set(numbers)):
                raise ArgumentError(f"topic {topic!r} has no partition {missing[0]}: it has {len(numbers)}, from 0")
            numbers = sorted(offsets)
        partitions = [TopicPartition(topic, number) for number in numbers]
        starts = consumer.beginning_offsets(partitions)
        ends = consumer.end_offsets(partitions)
        if since is not None:
            found = consumer.offsets_for_times(dict.fromkeys(partitions, _moment(since)))
            starts = {each: entry.offset if (entry := found[each]) else ends[each] for each in partitions}
        if until is not None:
            found = consumer.offsets_for_times(dict.fromkeys(partitions, _moment(until)))
            ends = {
                each: min(entry.offset, ends[each]) if (entry := found[each]) else ends[each] for each in partitions
            }
    wanted = {}
    for each in partitions:
        span = offsets[each.partition] if isinstance(offsets, Mapping) else offsets or range(2**63 - 1)
        start = max(starts[each], span.start)
        wanted[each.partition] = range(start, max(start, min(ends[each], span.stop)))
    return wanted


def _moment(moment: int | datetime | timedelta) -> int | datetime:
    if isinstance(moment, timedelta):
        return int((time.time() - moment.total_seconds()) * 1000)
    return moment


def pieces_of(ranges: Mapping[int, range], count: int, *, split: bool = False) -> list[dict[int, range]]:
    """Divide ranges into about equal pieces.

    Args:
        ranges: Offsets by partition number.
        count: The most pieces.
        split: Whether partitions are divided, so that there may be more pieces than partitions. A consumer fetches
            ahead beyond the end of its piece, so that parts of partitions cost more than whole ones.

    Returns:
        Pieces that together have each offset once, and none of which is empty.
    """
    filled = {number: span for number, span in sorted(ranges.items()) if span}
    if not split:
        # The largest partition goes to the piece that has least.
        whole: list[dict[int, range]] = [{} for _ in range(min(count, len(filled)))]
        for number, span in sorted(filled.items(), key=lambda item: -len(item[1])):
            min(whole, key=lambda piece: sum(map(len, piece.values())))[number] = span
        return whole
    total = sum(map(len, filled.values()))
    size = max(1, -(-total // max(1, count)))
    pieces: list[dict[int, range]] = []
    space = 0
    for number, span in filled.items():
        start = span.start
        while start < span.stop:
            if not space:
                pieces.append({})
                space = size
            stop = min(span.stop, start + space)
            pieces[-1][number] = range(start, stop)
            space -= stop - start
            start = stop
    return pieces
