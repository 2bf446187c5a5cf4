"""What a call of `consume` reads: its options, checked against each other."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from ottla.cli import settings
from ottla.cli.windows import Point, Window
from ottla.errors import ArgumentError


class Plan(NamedTuple):
    """What to read.

    Attributes:
        bootstrap: The addresses of brokers.
        topics: Names, or patterns if `regex`.
        regex: Whether the topics are patterns.
        partitions: The numbers of the partitions; None for all.
        window: Which offsets.
        group: The name of a consumer group.
        share_group: The name of a share group.
        ack: What becomes of the records of a share group.
        last: Only the newest records of each topic, as many as this.
        tail: The newest records of each topic, as many as this, and those that come.
        maximum: The most records to write.
        per_partition: The most records to write of each partition.
        idle: Seconds without a record after which it ends.
        exits: Whether it ends where the partitions end now.
        path: A log folder or a segment, or a store of tiered segments, in place of brokers.
        remote: The store of tiered segments of the brokers that `path` is of.
        key_files: The names of RSA keys of encrypted segments, and the files with them.
        read_committed: Whether records of open and aborted transactions are left out.
        config: Properties of the consumer.
        admin_config: Properties of an admin client of the same brokers.
    """

    bootstrap: str
    topics: list[str]
    regex: bool
    partitions: list[int] | None
    window: Window
    group: str | None
    share_group: str | None
    ack: str
    last: int | None
    tail: int | None
    maximum: int | None
    per_partition: int | None
    idle: float | None
    exits: bool
    path: str | None
    remote: str | None
    key_files: dict[str, str]
    read_committed: bool
    config: dict[str, str]
    admin_config: dict[str, str]


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan of a command line.

    Raises:
        ArgumentError: Two options exclude each other. The text names what to leave out.
    """
    if options.last is not None and (options.max, options.idle) != (None, None):
        raise ArgumentError("--last prints what is there and stops: leave --max and --idle out")
    role = "consumer" if options.share_group is None else "share-consumer"
    config = {"allow.auto.create.topics": "false", **settings.client_config(options, role)}
    if options.group is not None:
        config["group.id"] = options.group
    if options.read_committed:
        config["isolation.level"] = "read_committed"
    window = options.offset or Window(Point("end"))
    if options.beginning or (options.source is not None and options.offset is None):
        window = Window(Point("start"))
    plan = Plan(
        settings.bootstrap(options),
        list(dict.fromkeys([*options.topics, *options.topic])),
        regex=options.regex,
        partitions=options.partition,
        window=window,
        group=config.get("group.id"),
        share_group=options.share_group,
        ack=options.ack or "accept",
        last=options.last,
        tail=options.tail,
        maximum=options.max,
        per_partition=options.max_per_partition,
        idle=options.idle,
        exits=options.exit,
        path=options.source,
        remote=options.remote,
        key_files=dict(options.private_key),
        read_committed=config.get("isolation.level") == "read_committed",
        config=config,
        admin_config=settings.admin_config(options),
    )
    if options.ack is not None and plan.share_group is None:
        raise ArgumentError("--ack is about the records of a share group: add --share-group NAME")
    for flag, is_given in {"--remote": plan.remote, "--private-key": plan.key_files}.items():
        if is_given and plan.path is None:
            raise ArgumentError(f"{flag} is about segments of tiered storage: add --from PATH")
    _refuse(plan, options)
    return plan


def _refuse(plan: Plan, options: argparse.Namespace) -> None:
    if plan.share_group is not None:
        _refuse_together(
            "--share-group",
            "the group decides where it begins and who reads what",
            {
                "--group": plan.group is not None,
                "--offset, --beginning, --last and --tail": _has_start(plan, options),
                "--partition": plan.partitions is not None,
                "--exit": plan.exits,
                "--from": plan.path is not None,
                "--read-committed (share.isolation.level is a property of the group)": options.read_committed,
            },
        )
    if plan.group is not None:
        if plan.window.end is not None or plan.window.begin not in (Point("end"), Point("start")):
            raise ArgumentError(
                "a group begins at its committed offsets: --offset can only be start or end, for partitions without; "
                "without --group any window is read"
            )
        _refuse_together(
            "--group",
            "the group decides who reads what, from the offsets that it committed",
            {
                "--partition": plan.partitions is not None,
                "--last and --tail": plan.last is not None or plan.tail is not None,
                "--from": plan.path is not None,
            },
        )
    if plan.path is not None:
        _refuse_together(
            "--from",
            "a folder has what it has",
            {
                "--last (use --offset=-N:end, for each partition)": plan.last is not None,
                "--tail": plan.tail is not None,
                "--idle": plan.idle is not None,
            },
        )


def _has_start(plan: Plan, options: argparse.Namespace) -> bool:
    return options.beginning or options.offset is not None or (plan.last, plan.tail) != (None, None)


def _refuse_together(flag: str, reason: str, others: dict[str, bool]) -> None:
    for other, is_given in others.items():
        if is_given:
            raise ArgumentError(f"{flag} and {other} exclude each other: {reason}")
