"""`ottla produce`."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "produce",
        "send each line of standard input as a record",
        r"""
        echo hello | ottla produce -t flights                          # a value without a key
        echo JFK:N123 | ottla produce -t flights --key-separator :     # key JFK, value N123
        ottla produce -t flights --key-separator '\t' < flights.tsv    # a tab; a line without one is a value
        tail -f access.log | ottla produce -t access
        ottla produce -b kafka-1:9092 -t flights --config compression.type=zstd --config acks=all < flights.txt
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
        help="topic to send to; a broker with auto.create.topics.enable creates one that does not exist",
    )
    parser.add_argument(
        "--key-separator",
        type=arguments.separator,
        metavar="TEXT",
        help=r"text between the key and the value of each line; \t is a tab, \0 a zero byte, \xHH any byte",
    )
    parser.set_defaults(run=_produce)


def _produce(options: argparse.Namespace) -> None:
    topic, *others = dict.fromkeys(options.topic)
    if others:
        raise ArgumentError(
            f"produce sends to one topic, and there are {len(others) + 1}: {', '.join([topic, *others])}"
        )
    separator = options.key_separator
    config = {"max.block.ms": str(arguments.PATIENCE_MS), **arguments.properties(options)}
    sent = 0
    pending: deque[ottla.Delivery] = deque()
    with ottla.Producer(arguments.bootstrap(options), config=config) as producer:
        for line in sys.stdin.buffer:
            value, key = line.rstrip(b"\r\n"), None
            if separator:
                before, found, after = value.partition(separator)
                key, value = (before, after) if found else (None, value)
            pending.append(producer.send(topic, value, key=key))
            while pending and pending[0].done():
                pending.popleft().result()
                sent += 1
        producer.flush()
        for delivery in pending:
            delivery.result()
            sent += 1
    print(f"{sent} record{'' if sent == 1 else 's'} sent to {topic}", file=sys.stderr)
