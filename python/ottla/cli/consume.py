"""`ottla consume`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments
from ottla.cli.readable import readable

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "consume",
        "print the records of a topic until Ctrl-C",
        """
        ottla consume -t flights
        ottla consume -t flights --beginning --max 10 --format json
        ottla consume -t flights --beginning --idle 5 > flights.txt
        """,
    )
    arguments.client(parser)
    parser.add_argument("-t", "--topic", required=True, help="what to read")
    parser.add_argument("--beginning", action="store_true", help="start at the first record instead of after the last")
    parser.add_argument("--max", type=arguments.count, metavar="N", help="stop after so many records")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="stop when nothing came for so long")
    parser.add_argument(
        "--format",
        choices=["raw", "json"],
        default="raw",
        help="raw: each value and a newline; json: each record as an object on a line (default: %(default)s)",
    )
    parser.set_defaults(run=_consume)


def _consume(options: argparse.Namespace) -> None:
    config = arguments.client_config(options)
    if options.beginning:
        config["auto.offset.reset"] = "earliest"
    show = _json if options.format == "json" else _raw
    left = options.max
    with ottla.Consumer(options.bootstrap, topics=[options.topic], config=config) as consumer:
        while left is None or left > 0:
            batch = consumer.poll(options.idle, max_records=left)
            if options.idle is not None and not len(batch):
                return
            sys.stdout.buffer.writelines(map(show, batch))
            sys.stdout.buffer.flush()
            if left is not None:
                left -= len(batch)


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
