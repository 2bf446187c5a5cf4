"""`ottla broker`."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "broker",
        "run the embedded broker until Ctrl-C",
        """
        ottla broker                                                           # in memory, on port 9092
        ottla broker --topic flights:4 --topic audit --data-dir ./kafka-data   # keeps its log
        ottla broker --port 0 --config auto.create.topics.enable=false         # prints which port it took
        ottla config broker                                                    # lists what --config may set
        """,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=arguments.number(2**16 - 1),
        default=9092,
        help="port to listen on, 0 for a free one (default: %(default)s)",
    )
    parser.add_argument("--data-dir", metavar="FOLDER", help="where to keep the log; without it, in memory")
    parser.add_argument(
        "--topic",
        action="append",
        type=arguments.new_topic,
        default=[],
        metavar="NAME:PARTITIONS",
        help="topic to create, may be repeated",
    )
    arguments.config(parser, "setting of the broker, may be repeated; `ottla config broker` lists them")
    parser.set_defaults(run=_broker)


def _broker(options: argparse.Namespace) -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ottla.testing.Broker(
        topics=dict(options.topic),
        data_dir=options.data_dir,
        host=options.host,
        port=options.port,
        config=arguments.properties(options),
        print_events=True,
    ) as broker:
        print(f"ottla broker listens on {broker.bootstrap_servers}; Ctrl-C ends it", flush=True)
        # In slices, since some platforms deliver signals only between waits.
        while not stop.wait(0.5):
            pass
