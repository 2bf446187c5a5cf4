"""`ottla consume`."""

from __future__ import annotations

import difflib
import json
import math
import select
import sys
import time
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments
from ottla.cli.readable import readable
from ottla.errors import ArgumentError, NotFoundError

if TYPE_CHECKING:
    import argparse

# Seconds between two checks whether anything reads the output.
LOOK = 0.2
# Seconds that partitions may go without a response to their first Fetch before the command finds
# out why.
PATIENCE = arguments.PATIENCE_MS / 1000


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "consume",
        "print the records of topics until Ctrl-C",
        """
        ottla consume -t flights                                          # what comes from now on
        ottla consume -t flights --beginning                              # what is there first
        ottla consume -t flights --last 10                                # the last 10 that are there
        ottla consume -t flights --beginning --idle 5 > flights.txt       # until nothing came for 5 seconds
        ottla consume -t flights --beginning --max 10 --format json       # the first 10, with keys, offsets and headers
        ottla consume -t flights -t audit --format json | jq .topic       # two topics; -t flights,audit is the same
        ottla consume -b kafka-1:9092 -t flights --config isolation.level=read_committed
        """,
    )
    arguments.client(parser)
    parser.add_argument(
        "-t",
        "--topic",
        action="extend",
        type=arguments.topics,
        required=True,
        metavar="NAME",
        help="topic to read, which must exist; may be repeated, or names separated by commas",
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--beginning", action="store_true", help="start at the first record instead of after the last")
    start.add_argument("--last", type=arguments.count, metavar="N", help="print the newest N of each topic, and stop")
    parser.add_argument("--max", type=arguments.count, metavar="N", help="stop after N records")
    parser.add_argument(
        "--idle",
        type=arguments.seconds,
        metavar="SECONDS",
        help="stop after this long without a record; connecting, joining the group and the first requests do not count",
    )
    parser.add_argument(
        "--format",
        choices=["raw", "json"],
        default="raw",
        help="raw: each value and a newline; json: each record as an object on a line (default: %(default)s)",
    )
    parser.set_defaults(run=_consume)


def _consume(options: argparse.Namespace) -> None:
    if options.last is not None and (options.max, options.idle) != (None, None):
        raise ArgumentError("--last prints what is there and stops: leave --max and --idle out")
    topics = list(dict.fromkeys(options.topic))
    _check_existence(options, topics)
    config = {"allow.auto.create.topics": "false", **arguments.client_config(options, "consumer")}
    if options.beginning:
        config["auto.offset.reset"] = "earliest"
    show = _json if options.format == "json" else _raw
    if options.last is not None:
        for topic in topics:
            batch = ottla.read(arguments.bootstrap(options), topic, last=options.last, config=config)
            sys.stdout.buffer.writelines(map(show, batch))
        sys.stdout.buffer.flush()
        return
    left = options.max
    with ottla.Consumer(arguments.bootstrap(options), topics=topics, config=config) as consumer:
        idle = None if options.idle is None else _Idle(consumer, options.idle)
        try:
            while left is None or left > 0:
                _check_reader()
                batch = consumer.poll(LOOK if idle is None else min(LOOK, idle.left()), max_records=left)
                if idle is not None and idle.is_over(batch):
                    return
                sys.stdout.buffer.writelines(map(show, batch))
                sys.stdout.buffer.flush()
                if left is not None:
                    left -= len(batch)
        except BrokenPipeError:
            # The records in the pipe are lost, and they are unknown.
            consumer._close(None, "nothing")  # noqa: SLF001 there is no other use for it
            raise


class _Idle:
    """How long a consumer has been without a record although it reads all of its partitions."""

    def __init__(self, consumer: ottla.Consumer, limit: float) -> None:
        self._consumer = consumer
        self._limit = limit
        self._reading: list[ottla.TopicPartition] | None = None
        self._since = time.monotonic()

    def left(self) -> float:
        """Seconds until the limit; infinite while partitions have not been read yet."""
        return math.inf if self._reading is None else max(0.0, self._since + self._limit - time.monotonic())

    def is_over(self, batch: ottla.Batch) -> bool:
        """Whether this batch, which a poll returned, ends the command.

        Raises:
            KafkaError: Brokers do not respond. Missing records are no end then.
        """
        now = time.monotonic()
        assigned = self._consumer.assignment()
        if len(batch):
            self._since = now
        elif self._reading is None or self._reading != assigned:
            # Before the first Fetch response of each assigned partition it is unknown whether it
            # has records.
            reading = self._is_reading(assigned)
            self._reading = assigned if reading else None
            if reading:
                self._since = now
            elif assigned and now - self._since >= PATIENCE:
                self._consumer.end_offsets(assigned, timeout=PATIENCE)
                self._since = now
        elif now - self._since >= self._limit:
            self._consumer.end_offsets(assigned, timeout=max(self._limit, 1.0))
            return True
        return False

    def _is_reading(self, assigned: list[ottla.TopicPartition]) -> bool:
        member = self._consumer.group_metadata()
        if member is not None and member.generation < 0:
            return False
        if member is None and not assigned:
            return False
        # It is NaN until the first response that has the partition.
        lags = self._consumer.metrics().select("records-lag")
        read = {(name.tag("topic"), name.tag("partition")) for name, lag in lags.items() if not math.isnan(lag)}
        return all((partition.topic, str(partition.partition)) in read for partition in assigned)


def _check_reader() -> None:
    """Raise if no process reads the output any more: the next poll may commit what is still in the pipe."""
    if not hasattr(select, "poll"):
        return  # on Windows
    try:
        descriptor = sys.stdout.fileno()
    except UnsupportedOperation:
        return  # a program has put another object in its place
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError


def _check_existence(options: argparse.Namespace, topics: list[str]) -> None:
    """Raise for a topic that does not exist: a describe call returns at once, and creates nothing."""
    with ottla.Admin(arguments.bootstrap(options), config=arguments.admin_config(options)) as admin:
        try:
            admin.describe_topics(topics)
        except NotFoundError as error:
            if error.topic is None:
                raise
            near = difflib.get_close_matches(error.topic, admin.list_topics(), n=1)
            hint = f"; did you mean {near[0]}?" if near else "; `ottla topics` lists those that exist"
            raise NotFoundError(f"topic {error.topic} does not exist{hint}") from error


def _raw(record: ottla.Record) -> bytes:
    return (record.value or b"") + b"\n"


def _json(record: ottla.Record) -> bytes:
    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": readable(record.key),
        "value": readable(record.value),
        "headers": [[name, readable(value)] for name, value in record.headers],
    }
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"
