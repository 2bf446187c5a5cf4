"""Filters: which records a command shows, by patterns and by paths into JSON. All of them must match."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ottla import Record
from ottla.cli.formats.rows import Rows

GRAMMAR = """\
k:REGEX              the key contains a match       v:REGEX      the value does
t:REGEX              the topic's name does          hk:REGEX     the name of a header does
hv:REGEX             the value of a header does     h:NAME=REGEX the value of a header of this name does
j:PATH               the value is JSON that has the path, as user.tags[0] or items[*].sku
j:PATH=VALUE         a value there is this; !=, <, <=, > and >= compare, ~ searches a REGEX
kj:PATH...           the same of the key
!FILTER              the filter does not match

All filters that are given must match. A key or value that is missing matches no pattern."""

_MATCHERS = {"k", "v", "t", "hk", "hv", "h", "j", "kj"}
_STEP = re.compile(r"""\.?([^\W\d][\w$-]*)|\[(?:(\d+)|(\*)|'([^']*)'|"([^"]*)")\]""")
_OPERATOR = re.compile(r"(<=|>=|!=|==|=|<|>|~)")
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_EVERY = object()


class FilterError(ValueError):
    """A text is not a filter."""


class Filter(NamedTuple):
    """A filter.

    Attributes:
        matches: Whether a record matches; its bytes may have been decoded already: key and value by name.
        negated: Whether records that match are left out.
    """

    matches: Callable[[Record, Mapping[str, Any]], bool]
    negated: bool


def parse(text: str) -> Filter:
    """Parse a filter of the grammar `GRAMMAR`.

    Raises:
        FilterError: The text is not a filter. The message names what is wrong.
    """
    negated = text.startswith("!")
    kind, colon, rest = text.removeprefix("!").partition(":")
    if not colon or kind not in _MATCHERS:
        raise FilterError(f"{text!r} is not a filter; it begins with k:, v:, t:, hk:, hv:, h:NAME=, j: or kj:")
    if kind in {"j", "kj"}:
        return Filter(_json(rest, "value" if kind == "j" else "key"), negated)
    if kind == "h":
        name, equals, rest = rest.partition("=")
        if not equals:
            raise FilterError(f"{text!r} has no '=': h:NAME=REGEX")
        found = _pattern(rest)
        return Filter(lambda record, _: _any(found, (v for n, v in record.headers if n == name)), negated)
    found = _pattern(rest)
    of: dict[str, Callable[[Record], Iterator[bytes | None] | list[bytes | None]]] = {
        "k": lambda record: [record.key],
        "v": lambda record: [record.value],
        "t": lambda record: [record.topic.encode()],
        "hk": lambda record: [name.encode() for name, _ in record.headers],
        "hv": lambda record: [value for _, value in record.headers],
    }
    values = of[kind]
    return Filter(lambda record, _: _any(found, values(record)), negated)


def chosen(filters: Sequence[Filter], rows: Rows, decoded: Mapping[str, Sequence[Any]]) -> Rows:
    """The records that all filters let through.

    Args:
        filters: The filters.
        rows: The records.
        decoded: What keys and values of the records were decoded to, by `key` and `value`.
    """
    if not filters:
        return rows
    keep = []
    for row, record in enumerate(rows):
        objects = {name: values[row] for name, values in decoded.items()}
        keep.append(all(each.matches(record, objects) != each.negated for each in filters))
    return rows.keep(keep)


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise FilterError(f"{text!r} is not a regular expression: {error}") from None


def _any(pattern: re.Pattern[bytes], values: Iterator[bytes | None] | list[bytes | None]) -> bool:
    return any(value is not None and pattern.search(value) is not None for value in values)


def _json(text: str, field: str) -> Callable[[Record, Mapping[str, Any]], bool]:
    path, sign, wanted = _divided(text)
    check = _check(sign, wanted) if sign else None

    def matches(record: Record, decoded: Mapping[str, Any]) -> bool:
        if field in decoded:
            found = decoded[field]
        else:
            data = record.value if field == "value" else record.key
            if data is None:
                return False
            try:
                found = json.loads(data)
            except ValueError:
                return False
        values = _at(found, path)
        return any(map(check, values)) if check is not None else next(values, _EVERY) is not _EVERY

    return matches


def _divided(text: str) -> tuple[list[Any], str, str]:
    """The steps of the path, and the comparison and the value after it."""
    steps: list[Any] = []
    at = 1 if text.startswith("$") else 0
    while step := _STEP.match(text, at):
        name, index, every, single, double = step.groups()
        if every:
            steps.append(_EVERY)
        elif index is not None:
            steps.append(int(index))
        else:
            steps.append(next(part for part in (name, single, double) if part is not None))
        at = step.end()
    rest = text[at:]
    if not rest:
        sign = value = ""
    elif sign_found := _OPERATOR.match(rest):
        sign, value = sign_found[1], rest[sign_found.end() :]
    else:
        raise FilterError(f"{text!r} is not a path such as user.tags[0], with or without =VALUE: stopped at {rest!r}")
    if not steps:
        raise FilterError(f"{text!r} has no path; name a field, as in j:user.id=42")
    return steps, sign, value


def _check(sign: str, text: str) -> Callable[[Any], bool]:
    """Whether a value of JSON matches a filter."""
    if sign == "~":
        pattern = _pattern(text)
        return lambda found: pattern.search(_text(found).encode()) is not None
    try:
        wanted = json.loads(text)
    except ValueError:
        wanted = text
    if sign in {"=", "=="}:
        return lambda found: _equal(found, wanted, text)
    if sign == "!=":
        return lambda found: not _equal(found, wanted, text)
    compare = _COMPARISONS[sign]

    def ordered(found: Any) -> bool:
        if _is_number(found) and _is_number(wanted):
            return compare(found, wanted)
        return isinstance(found, str) and compare(found, text)

    return ordered


def _equal(found: Any, wanted: Any, text: str) -> bool:
    # 1 and true are equal in Python, not in JSON.
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted or found == text
    return bool(found == wanted) or found == text


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(found: Any) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)


def _at(found: Any, steps: Sequence[Any]) -> Iterator[Any]:
    """The values at a path."""
    if not steps:
        yield found
        return
    step, *rest = steps
    if step is _EVERY:
        for each in found if isinstance(found, list) else found.values() if isinstance(found, dict) else ():
            yield from _at(each, rest)
    elif (isinstance(step, int) and isinstance(found, list) and step < len(found)) or (
        isinstance(found, dict) and step in found
    ):
        yield from _at(found[step], rest)
