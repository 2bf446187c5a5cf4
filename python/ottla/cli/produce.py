"""`ottla produce`."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "produce",
        "send each line of standard input as a record",
        """
        echo hello | ottla produce -t flights
        ottla produce -t flights --key-separator : < events.txt
        ottla produce -t flights --config compression.type=zstd < events.txt
        """,
    )
    arguments.client(parser)
    parser.add_argument("-t", "--topic", required=True, help="where to send them")
    parser.add_argument("--key-separator", metavar="TEXT", help="what divides the key from the value, in each line")
    parser.set_defaults(run=_produce)


def _produce(options: argparse.Namespace) -> None:
    separator = os.fsencode(options.key_separator) if options.key_separator else None
    config = {"max.block.ms": str(arguments.PATIENCE_MS), **dict(options.config)}
    sent = 0
    pending: deque[ottla.Delivery] = deque()
    with ottla.Producer(options.bootstrap, config=config) as producer:
        for line in sys.stdin.buffer:
            value, key = line.rstrip(b"\r\n"), None
            if separator:
                before, found, after = value.partition(separator)
                key, value = (before, after) if found else (None, value)
            pending.append(producer.send(options.topic, value, key=key))
            while pending and pending[0].done():
                pending.popleft().result()
                sent += 1
        producer.flush()
        for delivery in pending:
            delivery.result()
            sent += 1
    print(f"{sent} records sent to {options.topic}", file=sys.stderr)
