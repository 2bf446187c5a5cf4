"""`ottla produce`."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, signals, streams
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "produce",
        "send each line of standard input as a record to one topic",
        r"""
        echo hello | ottla produce -t flights                          # a value without a key
        echo JFK:N123 | ottla produce -t flights --key-separator :     # key JFK, value N123
        ottla produce -t flights --key-separator '\t' < flights.tsv    # a tab; a line without one is a value
        tail -f access.log | ottla produce -t access
        ottla produce -b kafka-1:9092 -t flights --config compression.type=zstd --config acks=all < flights.txt

        A line ends with LF or CR LF; any other CR belongs to the value. The command ends at the first line that cannot
        be sent, and prints its number. Ctrl-C and SIGTERM send what was read before.
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
    config = {"max.block.ms": str(arguments.PATIENCE_MS), **arguments.client_config(options, "producer")}
    with ottla.Producer(arguments.bootstrap(options), config=config) as producer:
        lines = _Lines(producer, topic, options.key_separator)
        try:
            lines.send(sys.stdin.buffer)
        finally:
            streams.print_error(f"{lines.sent} record{'' if lines.sent == 1 else 's'} sent to {topic}")


class _Lines:
    """Sends lines as records, and counts those that were delivered."""

    def __init__(self, producer: ottla.Producer, topic: str, separator: bytes | None) -> None:
        self._producer = producer
        self._topic = topic
        self._separator = separator
        self._pending: deque[tuple[int, ottla.Delivery]] = deque()
        self.sent = 0

    def send(self, lines: Iterable[bytes]) -> None:
        """Send lines until they end, one cannot be sent, or a signal comes. What was read before is sent first.

        Raises:
            KafkaError: A line was not sent; the text has its number, from 1 up.
            KeyboardInterrupt: A signal came.
        """
        between = signals.Between()
        try:
            with between.handling():
                source = enumerate(lines, 1)
                while True:
                    with between.waiting():
                        number, line = next(source, (0, b""))
                    if not number:
                        break
                    self._send(number, line)
                    while self._pending and self._pending[0][1].done():
                        self._take()
        except (OSError, KeyboardInterrupt):
            # A command that was stopped must end soon.
            self._finish(arguments.PATIENCE_MS / 1000)
            raise
        except ottla.KafkaError:
            with suppress(ottla.KafkaError):
                self._finish(arguments.PATIENCE_MS / 1000)
            raise
        self._finish(None)

    def _send(self, number: int, line: bytes) -> None:
        value, key = _without_end(line), None
        if self._separator:
            before, found, after = value.partition(self._separator)
            key, value = (before, after) if found else (None, value)
        with _naming(number):
            self._pending.append((number, self._producer.send(self._topic, value, key=key)))

    def _take(self) -> None:
        number, delivery = self._pending.popleft()
        with _naming(number):
            delivery.result(0)
            self.sent += 1

    def _finish(self, timeout: float | None) -> None:
        """Wait for all records, and raise for the first that was not delivered."""
        with suppress(ottla.KafkaError):
            # The lines below report failures and the timeout.
            self._producer.flush(timeout)
        failed: list[ottla.KafkaError] = []
        while self._pending:
            try:
                self._take()
            except ottla.KafkaError as error:
                failed.append(error)
        if failed:
            raise failed[0]


def _without_end(line: bytes) -> bytes:
    """A line without LF or CR LF. Any other CR is of the value."""
    if line.endswith(b"\n"):
        return line[: -2 if line.endswith(b"\r\n") else -1]
    return line


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Name the line that an error is about."""
    try:
        yield
    except ottla.KafkaError as error:
        raise ottla.KafkaError(f"line {number}: {error}") from error
