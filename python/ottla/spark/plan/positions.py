"""The beginning and the end of a read, as options: a word, an offset for each partition, or a time."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.spark.shared.offsets import Offsets, Partition, names
from ottla.spark.shared.option_values import choice

# In the JSON of startingOffsets and endingOffsets; ListOffsets uses the same two numbers the other way round.
LATEST = -1
EARLIEST = -2

WORDS = {"latest": LATEST, "earliest": EARLIEST}


# Before the id of a consumer group in startingOffsets.
GROUP = "group:"


class Group(NamedTuple):
    """A consumer group whose committed offsets are a beginning.

    Attributes:
        id: Its id.
        default: `EARLIEST` or `LATEST`, where partitions without a commit begin; None if the user did not set it. Then
            it is the earliest offset, so that nothing is missed, if the group has committed any of the others.
    """

    id: str
    default: int | None = None


class Position(NamedTuple):
    """A beginning or an end.

    Attributes:
        option: The option that sets it, for errors.
        at: `LATEST`, `EARLIEST` or a time for all partitions, or an offset or a time for each.
        timed: Whether `at` holds times, in milliseconds since 1970 UTC.
        group: The group whose committed offsets replace `at`; None without a group.
    """

    option: str
    at: int | Offsets
    timed: bool = False
    group: Group | None = None


def moves(start: Position) -> bool:
    """Whether a beginning may stand for other offsets at the next start, while the log keeps its records."""
    if start.group is not None or start.timed or start.at == LATEST:
        return True
    return isinstance(start.at, dict) and LATEST in start.at.values()


def parse_start(given: Mapping[str, str]) -> Position | None:
    """The beginning that options name.

    `startingTimestamp` wins over `startingOffsetsByTimestamp`, and this over `startingOffsets`; what loses is not read.

    Args:
        given: Options by their names in lower case.

    Raises:
        ValueError: The option that wins has a bad value.
    """
    option = "startingOffsets"
    start = _parse("starting", given)
    text = given.get(option.lower(), "").strip()
    if start is not None or not text.lower().startswith(GROUP):
        return start
    group = text[len(GROUP) :].strip()
    if not group:
        raise ValueError(f"option {option} names no group: write {GROUP} and the id of a consumer group")
    reset = choice("kafka.auto.offset.reset", given, tuple(WORDS))
    return Position(option, EARLIEST, group=Group(group, None if reset is None else WORDS[reset]))


def parse_end(given: Mapping[str, str]) -> Position | None:
    """The end that options name, in the same way."""
    return _parse("ending", given)


def _parse(side: str, given: Mapping[str, str]) -> Position | None:
    option = f"{side}Timestamp"
    if (text := given.get(option.lower())) is not None:
        return Position(option, _time(option, text), timed=True)
    option = f"{side}OffsetsByTimestamp"
    if (text := given.get(option.lower())) is not None:
        example = '{"topic": {"0": 1700000000000, "1": 1700000000000}}'
        shape = f"option {option} must be JSON with a time for each partition, in milliseconds since 1970: {example}"
        return Position(option, _by_partition(shape, text, 0, "not a time"), timed=True)
    option = f"{side}Offsets"
    text = given.get(option.lower())
    if text is not None and not (side == "starting" and text.strip().lower().startswith(GROUP)):
        word = WORDS.get(text.strip().lower())
        return Position(option, _offsets(option, text) if word is None else word)
    return None


def check_order(start: Position | None, end: Position | None) -> None:
    """Refuse an end that comes before its beginning, as far as the options alone show it.

    Raises:
        ValueError: Both name partitions, and not the same ones, or one ends before it begins.
    """
    if start is None or end is None or start.timed != end.timed:
        return
    if not isinstance(start.at, dict) or not isinstance(end.at, dict):
        return
    if different := sorted(start.at.keys() ^ end.at.keys()):
        raise ValueError(
            f"options {start.option} and {end.option} must name the same partitions, and only one names "
            f"{names(different)}"
        )
    for partition, begin in sorted(start.at.items()):
        until = end.at[partition]
        if 0 <= until < begin:
            raise ValueError(
                f"option {end.option} ends {names([partition])} at {until}, before {begin}, where {start.option} begins"
            )


def parse_assigned(text: str) -> tuple[Partition, ...]:
    """The partitions of option `assign`, sorted, each once.

    Args:
        text: Such as `{"topic": [0, 1]}`.

    Raises:
        ValueError: The text is something else.
    """
    shape = 'option assign must be JSON with partitions of topics, such as {"topic": [0, 1]}'
    values = _json(shape, text)
    found: set[Partition] = set()
    for topic, parts in values.items():
        if not isinstance(parts, list) or not parts:
            raise ValueError(f"{shape}; for topic {topic!r} it holds {parts!r}")
        for part in parts:
            if not _is_whole(part, 0):
                raise ValueError(f"{shape}; topic {topic!r} has no partition named {part!r}")
            found.add((topic, part))
    return tuple(sorted(found))


def _time(option: str, text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise ValueError(f"option {option} must be a time in milliseconds since 1970 UTC, not {text!r}")
    return int(text)


def _offsets(option: str, text: str) -> Offsets:
    of_group = f', "{GROUP}ID" of a consumer group' if option == "startingOffsets" else ""
    shape = f'option {option} must be "earliest", "latest"{of_group} or JSON such as {{"topic": {{"0": 23, "1": -1}}}}'
    what = f"neither an offset nor {LATEST} (latest) nor {EARLIEST} (earliest)"
    return _by_partition(shape, text, EARLIEST, what)


def _by_partition(shape: str, text: str, least: int, what: str) -> Offsets:
    values = _json(shape, text)
    found: Offsets = {}
    for topic, parts in values.items():
        if not isinstance(parts, dict) or not parts:
            raise ValueError(f"{shape}; for topic {topic!r} it holds {parts!r}")
        for partition, value in parts.items():
            if not (partition.isascii() and partition.isdigit()):
                raise ValueError(f"{shape}; topic {topic!r} has no partition named {partition!r}")
            if not _is_whole(value, least):
                raise ValueError(f"{shape}; topic {topic!r} partition {partition} has {value!r}, which is {what}")
            found[topic, int(partition)] = value
    return found


def _json(shape: str, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{shape}; {text!r} is not JSON: {error}") from None
    if not isinstance(values, dict) or not values:
        raise ValueError(f"{shape}; got {text!r}")
    return values


def _is_whole(value: Any, least: int) -> bool:
    # A bool is an int to Python, and not to JSON.
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
