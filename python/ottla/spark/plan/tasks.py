"""How many tasks read ranges.

`minPartitions`, `maxRecordsPerPartition` and `maxBytesPerPartition` divide them, `minRecordsPerPartition` joins them.

The arithmetic of the first two is the same as in Spark's Kafka source (`KafkaOffsetRangeCalculator`), so that a query
has the same tasks with either. Its numbers of parts are quotients of doubles, which is why floats stand here for counts
of records.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.spark.shared.offsets import Partition
from ottla.spark.shared.ranges import Range
from ottla.spark.shared.tokens import give

if TYPE_CHECKING:
    from ottla.spark.plan.read_options import ReadOptions


def tasks(options: "ReadOptions", ranges: Iterable[Range]) -> list[list[Range]]:
    """What each task reads, and by which token if the driver fetches one.

    Args:
        options: Those of the read.
        ranges: What there is to read, as divided, in order.
    """
    return join(give(options.properties, ranges), options.min_task_records)


def records_of_tasks(most_bytes: int, record_bytes: Mapping[Partition, float]) -> dict[Partition, int]:
    """The most offsets of a task, so that it reads about `most_bytes`: at least one; none where records have no bytes.

    Args:
        most_bytes: The most bytes of keys and values of a task.
        record_bytes: The bytes of an offset of each partition, on average.
    """
    return {at: max(1, int(most_bytes / size)) for at, size in record_bytes.items() if size > 0}


def split(
    ranges: Sequence[Range],
    min_parts: int | None,
    max_records: int | None,
    max_of_each: Mapping[Partition, int] | None = None,
) -> list[Range]:
    """Divide ranges for more tasks.

    Args:
        ranges: At most one range of each partition.
        min_parts: How many ranges there should be at least. Large ranges are divided in proportion to their offsets,
            small ones stay whole; rounding can give a few more or less.
        max_records: The most offsets of one range. This comes first.
        max_of_each: The same for each partition; the lower number counts.

    Returns:
        The ranges that are not empty, in the order given.
    """
    whole = [span for span in ranges if span.end > span.start]
    if max_records is not None or max_of_each:
        whole = [part for span in whole for part in _divide(span, _least(span, max_records, max_of_each or {}))]
    if min_parts is None or min_parts <= len(whole):
        return whole
    total = sum(map(_size, whole))
    # What stays whole is left out of the proportions, else the large ranges would get too few parts.
    small = [span for span in whole if _parts(_size(span), total, min_parts) == 1]
    unsplit = {(span.topic, span.partition) for span in small}
    total -= sum(map(_size, small))
    left = max(min_parts - len(small), 1)
    return [
        part
        for span in whole
        for part in _divide(span, 1 if (span.topic, span.partition) in unsplit else _parts(_size(span), total, left))
    ]


def join(ranges: Iterable[Range], least: int | None) -> list[list[Range]]:
    """What each task reads.

    The same ranges are always joined in the same way, so that a micro-batch that is repeated has the same tasks.

    Args:
        ranges: The ranges, in order.
        least: The least offsets of a task: neighbours are joined until they have as many, and those that are left at
            the end go to the last task. None gives each range a task.
    """
    tasks: list[list[Range]] = []
    wanted = 0
    for span in ranges:
        if wanted > 0:
            tasks[-1].append(span)
        else:
            tasks.append([span])
            wanted = least or 0
        wanted -= _size(span)
    if wanted > 0 and len(tasks) > 1:
        last = tasks.pop()
        tasks[-1] += last
    return tasks


def _size(span: Range) -> int:
    return span.end - span.start


def _least(span: Range, max_records: int | None, max_of_each: Mapping[Partition, int]) -> int:
    """The least number of parts of a range."""
    limits = [most for most in (max_records, max_of_each.get((span.topic, span.partition))) if most is not None]
    return max((math.ceil(float(_size(span)) / float(most)) for most in limits), default=1)


def _parts(size: int, total: int, parts: int) -> int:
    share = float(size) / float(total) * parts
    # Halves go up, as Java rounds; Python's round() takes them to the even number.
    whole = math.floor(share)
    return max(whole + (share - whole >= 0.5), 1)


def _divide(span: Range, parts: int) -> list[Range]:
    """Parts of the same size; the later ones take what is left over, and none is empty."""
    divided, start = [], span.start
    for left in range(parts, 0, -1):
        end = start + (span.end - start) // left
        if end > start:
            divided.append(span._replace(start=start, end=end, seen=span.seen if start == span.start else None))
        start = end
    return divided
