"""What is left of a batch's ranges by filters of Spark on partition, offset, timestamp and topic.

Only what surely holds no row of the result is left out. A lower bound of time cuts the front of a partition: the broker
finds the first record at or after a time, so that all before it are older. An upper bound cuts nothing, since records
need not be in the order of their times.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ottla.spark.shared.offsets import Partition
from ottla.spark.shared.ranges import Range

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

# By the names of Spark filters (pyspark.sql.datasource); each takes the column's value and that of
# the filter.
TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda value, these: value in these,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": operator.contains,
}

OPPOSITE = {
    "GreaterThan": "LessThanOrEqual",
    "GreaterThanOrEqual": "LessThan",
    "LessThan": "GreaterThanOrEqual",
    "LessThanOrEqual": "GreaterThan",
}


class Filter(NamedTuple):
    """A Spark filter, as plain data.

    Attributes:
        column: The column's name.
        test: The name of the filter's class, such as `EqualTo`.
        value: What the column is compared with; a tuple for `In`, None for `IsNotNull`.
        negated: Whether rows pass for which the test fails.
    """

    column: str
    test: str
    value: Any = None
    negated: bool = False


@dataclass(frozen=True)
class Narrowing:
    """What filters leave of a batch.

    Attributes:
        filters: Those that a topic and a partition number decide.
        first: The lowest offset.
        end: The offset after the highest; None without a limit.
        since: The earliest time, in milliseconds since 1970 UTC; None without one.
    """

    filters: tuple[Filter, ...] = ()
    first: int = 0
    end: int | None = None
    since: int | None = None

    def takes(self, partition: Partition) -> bool:
        """Whether the partition can hold a row of the result."""
        values = {"topic": partition[0], "partition": partition[1]}
        return all(TESTS[f.test](values[f.column], f.value) is not f.negated for f in self.filters)

    def clip(self, span: Range) -> Range:
        """The part of the range between the offsets; it may be empty."""
        end = span.end if self.end is None else min(span.end, self.end)
        return span._replace(start=max(span.start, self.first), end=end)

    def after(self, given: Filter) -> "tuple[Narrowing, bool]":
        """What is left after one filter more.

        Returns:
            The rest, and whether the filter is done with: if not, Spark must test each row.
        """
        if given.test == "IsNotNull":
            # None of these columns is ever null.
            return self, given.column in ("topic", "partition", "offset", "timestamp") and not given.negated
        if given.test not in TESTS or given.value is None or (given.test == "In" and None in given.value):
            return self, False
        if given.column in ("topic", "partition"):
            return self._with_partitions(given)
        if given.column == "offset":
            return self._with_offsets(given)
        if given.column == "timestamp":
            return self._with_time(given), False
        return self, False

    def _with_partitions(self, given: Filter) -> "tuple[Narrowing, bool]":
        # Texts have an order of their own in Spark.
        by_order = TESTS[given.test] in (operator.gt, operator.ge, operator.lt, operator.le)
        if given.column == "topic" and by_order:
            return self, False
        return replace(self, filters=(*self.filters, given)), True

    def _with_offsets(self, given: Filter) -> "tuple[Narrowing, bool]":
        if given.test == "In" and not given.negated:
            least, most = min(given.value), max(given.value)
            return self._between(least, most + 1), most - least + 1 == len(set(given.value))
        if not isinstance(given.value, int):
            return self, False
        test = OPPOSITE.get(given.test) if given.negated else given.test
        bounds: dict[str | None, tuple[int, int | None]] = {
            "EqualTo": (given.value, given.value + 1),
            "EqualNullSafe": (given.value, given.value + 1),
            "GreaterThan": (given.value + 1, None),
            "GreaterThanOrEqual": (given.value, None),
            "LessThan": (0, given.value),
            "LessThanOrEqual": (0, given.value + 1),
        }
        return (self._between(*bounds[test]), True) if test in bounds else (self, False)

    def _between(self, first: int, end: int | None) -> "Narrowing":
        ends = [e for e in (self.end, end) if e is not None]
        return replace(self, first=max(self.first, first), end=min(ends, default=None))

    def _with_time(self, given: Filter) -> "Narrowing":
        test = OPPOSITE.get(given.test) if given.negated else given.test
        if test not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "In"):
            return self
        least: datetime = min(given.value) if test == "In" else given.value
        if least.tzinfo is None:
            return self
        # Records have whole milliseconds: rounded up, this is the first that can pass.
        since = -((EPOCH - least) // MILLISECOND)
        # A record without a time stands at -1.
        return self if since <= 0 else replace(self, since=max(since, self.since or 0))
