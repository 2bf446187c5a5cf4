"""Which part of a topic a filter of pyarrow needs.

Expressions of pyarrow do not show their content. But pyarrow decides whether a fragment of a dataset can have a row
that passes a filter, given what holds for all rows of the fragment. So a guarantee such as `offset < 1000` on a
fragment that is never read shows whether records below 1000 are needed, and bisection finds the lowest one that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from ottla import Consumer

# Above every offset, and above every time of a record in milliseconds.
_END = 2**62
_LAST = 2**50


class Bounds:
    """What a filter needs.

    Args:
        filter: A `pyarrow.compute.Expression`.
        schema: The columns of the topic.
    """

    def __init__(self, filter: Any, schema: pa.Schema) -> None:  # noqa: A002 pyarrow's name
        self._filter, self._schema = filter, schema
        self._format, self._files = ds.ParquetFileFormat(), LocalFileSystem()

    def of(self, servers: str | list[str], topic: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Make the arguments of a read smaller.

        Args:
            servers: The brokers.
            topic: The topic.
            options: Arguments of `ottla.read`.

        Returns:
            `offsets` and `since`, if the filter bounds them.
        """
        found: dict[str, Any] = {}
        if options["since"] is None and (since := self._first("timestamp", _LAST)):
            found["since"] = since
        span = range(first := self._first("offset", _END), max(first, self._end()))
        offsets = options["offsets"]
        # A text of the filter's values can have the word, too: then the numbers are requested for nothing.
        if "partition" not in str(self._filter) and not isinstance(offsets, Mapping):
            if span != range(_END):
                found["offsets"] = _both(offsets, span)
            return found
        if not isinstance(offsets, Mapping):
            consumers = {name: value for name, value in options.items() if name not in {"since", "until", "offsets"}}
            with Consumer(servers, **consumers) as consumer:
                offsets = dict.fromkeys(consumer.partitions_for(topic), offsets)
        found["offsets"] = {
            number: _both(each, span)
            for number, each in offsets.items()
            if self._may_pass(pc.field("partition") == pa.scalar(number, pa.int32()))
        }
        return found

    def _may_pass(self, guarantee: Any) -> bool:
        """Whether a row can pass the filter for which something holds."""
        fragment = self._format.make_fragment("", filesystem=self._files, partition_expression=guarantee)
        only = ds.FileSystemDataset([fragment], self._schema, self._format, self._files)
        return any(True for _ in only.get_fragments(self._filter))

    def _value(self, column: str, number: int) -> pa.Scalar:
        if column == "timestamp":
            return pa.scalar(number * 1000, self._schema.field(column).type)
        return pa.scalar(number, pa.int64())

    def _first(self, column: str, end: int) -> int:
        """The lowest number that can pass. It is 0 if there is no such bound."""

        def is_needed(number: int) -> bool:
            return self._may_pass(pc.field(column) < self._value(column, number + 1))

        return _lowest(is_needed, end)

    def _end(self) -> int:
        """The number after the highest offset that can pass."""
        return _lowest(lambda number: not self._may_pass(pc.field("offset") >= self._value("offset", number)), _END)


def _lowest(holds: Callable[[int], bool], end: int) -> int:
    """The lowest number from 0 up for which something holds; `end` without one. It holds for all higher ones."""
    if holds(0):
        return 0
    if not holds(end - 1):
        return end
    low, high = 0, end - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _both(one: range | None, other: range) -> range:
    if one is None:
        return other
    start = max(one.start, other.start)
    return range(start, max(start, min(one.stop, other.stop)))
