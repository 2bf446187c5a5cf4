"""How much a trigger of a stream takes, and whether it takes anything yet."""

import math

from ottla.spark.shared.offsets import Offsets


def waiting(start: Offsets, end: Offsets) -> Offsets:
    """How many offsets of each partition were not read; partitions with none are left out.

    Args:
        start: The position of each partition; a partition without one is left out.
        end: Where each partition ends now.
    """
    return {p: until - start[p] for p, until in end.items() if p in start and until > start[p]}


def limit(most: int, start: Offsets, end: Offsets) -> Offsets:
    """Share at most `most` records among partitions, in proportion to the records that wait in each.

    A partition with waiting records moves by at least one, so that small ones do not starve; the sum can exceed `most`
    by that much, as it can in Spark's Kafka source, whose order of operations on doubles this keeps.

    Args:
        most: Records for the whole trigger.
        start: The position of each partition; a partition without one is left alone.
        end: Where each partition ends now.

    Returns:
        Ends between `start` and `end`.
    """
    sizes = waiting(start, end)
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    shares = {p: max(1, math.floor(most * (size / float(total)))) for p, size in sizes.items()}
    return {p: start[p] + min(shares[p], sizes[p]) if p in sizes else offset for p, offset in end.items()}


def records_of(most_bytes: int, sizes: Offsets, record_bytes: dict[tuple[str, int], float]) -> int | None:
    """How many records a limit of bytes allows.

    Args:
        most_bytes: Bytes for the whole trigger.
        sizes: The offsets that wait in each partition.
        record_bytes: The bytes of an offset of each of these partitions, on average.

    Returns:
        Records, at least 1; None if all that waits is within the limit.
    """
    total = sum(size * record_bytes[p] for p, size in sizes.items())
    if total <= most_bytes:
        return None
    return max(1, math.floor(sum(sizes.values()) * (most_bytes / total)))


class Patience:
    """Decides whether a trigger waits for more records (`minOffsetsPerTrigger`, `maxTriggerDelay`).

    The first trigger of a query never waits, also after a restart, since the age of the pending records is unknown.

    Args:
        at_least: Records for which a trigger waits; None never waits.
        longest: Seconds after the last batch from which on a trigger no longer waits.
    """

    def __init__(self, at_least: int | None, longest: float) -> None:
        self._at_least = at_least
        self._longest = longest
        self._last: float | None = None

    def waits(self, records: int, now: float) -> bool:
        """Whether a trigger at `now`, in seconds, waits although there are this many records."""
        early = self._last is not None and now - self._last < self._longest
        if self._at_least is not None and early and records < self._at_least:
            return True
        self._last = now
        return False
