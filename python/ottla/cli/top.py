"""`ottla top`."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, output, settings, signals, times
from ottla.cli.groups import summary

if TYPE_CHECKING:
    import argparse

TOPICS = output.columns("topic", "partitions:number", "records:number", "per_second:number")
GROUPS = output.columns("group", "topics:number", "lag:number", "per_second:number")
SECONDS = 2.0
# Lines of the screen that are not rows: the line at the top, two heads, a gap, the line at the bottom.
OTHER_LINES = 5
HOME, BELOW, LINE_END = "\x1b[H", "\x1b[J", "\x1b[K"
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@dataclass
class Sample:
    """Offsets at a time.

    Attributes:
        at: Seconds of a steady clock.
        ends: The end of each partition.
        starts: The start of each partition.
        lags: What groups have committed.
    """

    at: float = 0.0
    ends: dict[ottla.TopicPartition, int] = field(default_factory=dict)
    starts: dict[ottla.TopicPartition, int] = field(default_factory=dict)
    lags: list[ottla.GroupLag] = field(default_factory=list)


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "top",
        "show the rates of topics and the lag of groups until Ctrl-C",
        """
        ottla top
        ottla top --interval 5 --topic orders --group billing
        ottla top --count 2 --format json            # two samples, an envelope a line
        """,
    )
    arguments.client(parser)
    arguments.output(parser)
    parser.add_argument("--interval", type=times.duration, default=SECONDS, metavar="DURATION", help="(default: 2s)")
    parser.add_argument("--count", type=arguments.count, metavar="N", help="end after N samples")
    parser.add_argument(
        "--topic", action="append", type=arguments.name, default=[], metavar="NAME", help="only this, may be repeated"
    )
    parser.add_argument(
        "--group", action="append", type=arguments.name, default=[], metavar="NAME", help="only this, may be repeated"
    )
    parser.set_defaults(run=_top)


def _top(options: argparse.Namespace) -> None:
    screen = sys.stdout.isatty() and options.shown_as == "table"
    left = options.count
    if screen:
        sys.stdout.write(ENTER)
    try:
        with nouns.admin(options) as admin:
            before = None
            while left is None or left > 0:
                now = _sample(options, admin)
                _print(options, before, now, screen=screen)
                before = now
                if left is not None:
                    left -= 1
                if left != 0:
                    time.sleep(options.interval)
    except KeyboardInterrupt as end:
        # Ctrl-C is how a person ends it.
        if isinstance(end, signals.Terminated):
            raise
    finally:
        if screen:
            sys.stdout.write(LEAVE)
            sys.stdout.flush()


def _sample(options: argparse.Namespace, admin: ottla.Admin) -> Sample:
    """Take a sample. A topic or a group that goes away meanwhile is left out."""
    names = options.topic or admin.list_topics()
    described = output.settle(options, lambda: admin.describe_topics(names)) if names else {}
    partitions = [
        ottla.TopicPartition(topic.name, each.partition) for topic in described.values() for each in topic.partitions
    ]

    def offsets(spec: Any) -> dict[ottla.TopicPartition, int]:
        if not partitions:
            return {}
        found = output.settle(options, lambda: admin.list_offsets(dict.fromkeys(partitions, spec)))
        return {partition: at.offset or 0 for partition, at in found.items()}

    groups = options.group or [
        group.group_id
        for group in admin.list_groups()
        if group.protocol_type in ("consumer", "") and group.type in ("classic", "consumer", None)
    ]
    found = output.settle(options, lambda: admin.lag(groups)) if groups else []
    rows = [row for rows in found.values() for row in rows] if hasattr(found, "values") else list(found)
    sample = Sample(time.monotonic(), offsets("latest"), offsets("earliest"), rows)
    if not (options.topic or options.group):
        options.failures.clear()
    return sample


def _topics(before: Sample | None, now: Sample) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for partition, end in now.ends.items():
        row = found.setdefault(
            partition.topic, {"topic": partition.topic, "partitions": 0, "records": 0, "per_second": None}
        )
        row["partitions"] += 1
        row["records"] += max(end - now.starts.get(partition, end), 0)
        if before is not None and partition in before.ends:
            rate = max(end - before.ends[partition], 0) / (now.at - before.at)
            row["per_second"] = round((row["per_second"] or 0.0) + rate, 1)
    return sorted(found.values(), key=lambda row: (-(row["per_second"] or 0), -row["records"], row["topic"]))


def _groups(before: Sample | None, now: Sample) -> list[dict[str, Any]]:
    rates: dict[str, float] = {}
    if before is not None:
        old = {(row.group, row.topic, row.partition): row.committed for row in before.lags}
        for row in now.lags:
            was = old.get((row.group, row.topic, row.partition))
            moved = max((row.committed or 0) - was, 0) if was is not None else 0
            rates[row.group] = rates.get(row.group, 0.0) + moved / (now.at - before.at)
    return [
        {**row, "per_second": round(rates[row["group"]], 1) if row["group"] in rates else None}
        for row in summary(now.lags)
    ]


def _print(options: argparse.Namespace, before: Sample | None, now: Sample, *, screen: bool) -> None:
    topics, groups = _topics(before, now), _groups(before, now)
    if options.shown_as == "json":
        output.show(options, TOPICS, [{"topics": topics, "groups": groups}])
    elif options.shown_as != "table":
        output.show(options, TOPICS, topics)
    elif screen:
        _draw(options, topics, groups)
    else:
        output.show(options, TOPICS, topics)
        if groups:
            print()
            output.show(options, GROUPS, groups)
        print()
    sys.stdout.flush()


def _draw(options: argparse.Namespace, topics: list[dict[str, Any]], groups: list[dict[str, Any]]) -> None:
    """Draw the screen again, without the flicker of clearing it first."""
    width, height = shutil.get_terminal_size()
    space = max(height - OTHER_LINES, 2)
    group_lines = min(len(groups), max(space // 2, space - len(topics)))
    topic_lines = space - group_lines
    lines = [f"ottla top  {settings.bootstrap(options)}  {time.strftime('%H:%M:%S')}  Ctrl-C ends it"[:width]]
    lines += output.table_lines(options, TOPICS, topics[:topic_lines]) or ["no topics"]
    lines.append("")
    lines += output.table_lines(options, GROUPS, groups[:group_lines]) or ["no groups"]
    if hidden := len(topics) + len(groups) - len(topics[:topic_lines]) - group_lines:
        lines.append(f"{hidden} more")
    sys.stdout.write(HOME + "".join(f"{line}{LINE_END}\n" for line in lines[: height - 1]) + BELOW)
    sys.stdout.flush()
