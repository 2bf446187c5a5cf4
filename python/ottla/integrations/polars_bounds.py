"""Which part of a topic a predicate of polars needs.

Only what surely holds no row of the result is left out. polars keeps the form of its expressions to itself, so this
takes an expression apart by public methods, and puts it together again to see what it was.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# The offset after the highest.
_END = 2**63 - 1

# Comparisons, each with the one that has its sides exchanged.
_OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "==": (operator.eq, "=="),
    ">": (operator.gt, "<"),
    ">=": (operator.ge, "<="),
    "<": (operator.lt, ">"),
    "<=": (operator.le, ">="),
}
_CLOSED = {"both": (">=", "<="), "left": (">=", "<"), "right": (">", "<="), "none": (">", "<")}


class Bounds:
    """The part of a topic that a query needs. Predicates only make it smaller.

    Args:
        offsets: The offsets that the caller wants; None for all.
        since: The time from which on the caller wants records; None for all.
    """

    def __init__(self, offsets: range | Mapping[int, range] | None, since: int | datetime | timedelta | None) -> None:
        self.offsets = offsets
        self.since = since

    def narrow(self, predicate: pl.Expr, partitions: Callable[[], list[int]]) -> None:
        """Leave out what a predicate excludes.

        Rows still have to be filtered by it.

        Args:
            predicate: The predicate.
            partitions: Returns the numbers of the topic's partitions. It is called only for predicates on them.
        """
        span, tests = range(_END), []
        for each in _conjuncts(predicate):
            match each.meta.root_names():
                case ["offset"]:
                    span = _narrowed(span, _comparisons(each, "offset"))
                case ["partition"] if _compares_values(each):
                    tests.append(each)
                case ["timestamp"]:
                    self._begin_at(_comparisons(each, "timestamp"))
        if not tests and not isinstance(self.offsets, Mapping):
            self.offsets = _both(self.offsets, span) if span != range(_END) else self.offsets
            return
        offsets = self.offsets if isinstance(self.offsets, Mapping) else dict.fromkeys(partitions(), self.offsets)
        self.offsets = {number: _both(offsets[number], span) for number in _passing(tests, list(offsets))}

    def _begin_at(self, comparisons: Iterator[tuple[str, Any]]) -> None:
        for sign, least in comparisons:
            if sign not in {"==", ">=", ">"} or not isinstance(least, datetime) or least.tzinfo is None:
                continue
            # The caller's own bound may be a timedelta, which is not compared: filtering the rows is enough then.
            if self.since is None:
                # Records have whole milliseconds: rounded up, this is the first that can pass. Without a time it is -1.
                since = -((_EPOCH - least) // _MILLISECOND)
                self.since = since if since > 0 else None


def _narrowed(span: range, comparisons: Iterator[tuple[str, Any]]) -> range:
    first, end = span.start, span.stop
    for sign, value in comparisons:
        if isinstance(value, int):
            first = max(first, {"==": value, ">=": value, ">": value + 1}.get(sign, 0))
            end = min(end, {"==": value + 1, "<=": value + 1, "<": value}.get(sign, _END))
    return range(first, max(first, end))


def _both(one: range | None, other: range) -> range:
    if one is None:
        return other
    start = max(one.start, other.start)
    return range(start, max(start, min(one.stop, other.stop)))


def _inputs(expression: pl.Expr) -> list[pl.Expr]:
    return expression.meta.pop()[::-1]


def _conjuncts(expression: pl.Expr) -> Iterator[pl.Expr]:
    """The parts of an expression that must all be true."""
    match _inputs(expression):
        case [left, right] if (left & right).meta == expression:
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield expression


def _compares_values(expression: pl.Expr) -> bool:
    """Whether an expression compares a column with values, and with nothing that depends on other rows."""
    import polars as pl

    inputs = _inputs(expression)
    columns = [each for each in inputs if each.meta.root_names()]
    return len(inputs) > 1 and len(columns) == 1 and columns[0].meta == pl.col(columns[0].meta.root_names()[0])


def _passing(tests: list[pl.Expr], numbers: list[int]) -> list[int]:
    import polars as pl

    frame = pl.DataFrame({"partition": numbers}, schema={"partition": pl.Int32})
    passing: list[int] = (frame.filter(*tests) if tests else frame)["partition"].to_list()
    return passing


def _comparisons(expression: pl.Expr, name: str) -> Iterator[tuple[str, Any]]:
    """The conditions of an expression on a column, as comparisons with values; nothing if it is of another form."""
    import polars as pl

    if not _compares_values(expression):
        return
    match _inputs(expression):
        case [left, right]:
            exchanged = left.meta != pl.col(name)
            literal = left if exchanged else right
            for sign, (compare, opposite) in _OPERATORS.items():
                if compare(left, right).meta == expression:
                    yield opposite if exchanged else sign, pl.select(literal).item()
        case [column, low, high]:
            for closed, signs in _CLOSED.items():
                if column.is_between(low, high, closed).meta == expression:  # type: ignore[arg-type]
                    yield from zip(signs, (pl.select(low).item(), pl.select(high).item()), strict=True)
