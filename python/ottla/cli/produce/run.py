"""How `produce` runs: it reads its input, sends it, and reports how much was sent."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

import ottla
from ottla.cli import settings, signals, streams
from ottla.cli.produce import inputs
from ottla.cli.produce.encoding import Encoding
from ottla.cli.produce.inputs import Records, Table, Values
from ottla.cli.produce.sending import PATIENCE, Fixed, Rate, Sender
from ottla.cli.progress import Progress
from ottla.errors import ArgumentError

TABLES = ("csv", "arrow", "parquet")
# Bytes of records that are under way: half of the default keeps the brokers as busy, and takes half as long at the end
# of the input.
UNDER_WAY = 32 << 20


def send(topic: str | None, options: argparse.Namespace) -> None:
    """Send the input.

    Raises:
        KafkaError: A record was not sent.
        OSError: The input cannot be read.
        KeyboardInterrupt: A signal came; what was read before is sent.
    """
    _check(topic, options)
    encoding = Encoding(options)
    fixed = Fixed(topic, options.key, options.partition, tuple(options.header), options.tombstone)
    config = {"max.block.ms": str(settings.PATIENCE_MS), "buffer.memory": str(UNDER_WAY)}
    config |= settings.client_config(options, "producer")
    if options.compression is not None:
        config["compression.type"] = options.compression
    if options.transactional_id is not None:
        config["transactional.id"] = options.transactional_id
    with _input(options) as file, ottla.Producer(settings.bootstrap(options), config=config) as producer:
        between = signals.Between()
        unit = "row" if options.format in TABLES else "record" if options.template else "line"
        report = _report if options.report else None
        sender = Sender(producer, fixed, unit, goes_on=options.goes_on, report=report)
        is_whole = False
        try:
            with producer.transaction() if options.transactional_id is not None else nullcontext():
                _send_all(sender, _read(file, options, between, encoding), between, options)
            is_whole = True
        finally:
            _conclude(sender, topic, is_aborted=options.transactional_id is not None and not is_whole)
    if sender.failed:
        raise ottla.KafkaError(f"{sender.failed} {unit}{'' if sender.failed == 1 else 's'} could not be sent")


def _send_all(
    sender: Sender, parts: Iterator[Records | Table | Values], between: signals.Between, options: argparse.Namespace
) -> None:
    rate = Rate(options.rate, between)
    progress = Progress(_size(options), on_terminal=not options.report)
    try:
        with between.handling():
            for part in parts:
                if isinstance(part, Table):
                    sender.send_table(part)
                    continue
                if isinstance(part, Values):
                    sender.send_values(part)
                else:
                    for records in rate.parts(part):
                        sender.send(records)
                progress.at(part.position)
    except (OSError, KeyboardInterrupt):
        # A command that was stopped must end soon.
        progress.clear()
        sender.finish(PATIENCE)
        raise
    except ottla.KafkaError:
        progress.clear()
        with suppress(ottla.KafkaError):
            sender.finish(PATIENCE)
        raise
    progress.clear()
    sender.finish(None)


def _read(
    file: Any, options: argparse.Namespace, between: signals.Between, encoding: Encoding
) -> Iterator[Records | Table | Values]:
    """The input in parts, without what is ignored, and encoded."""
    ignored = set(options.ignore)
    if options.format in TABLES:
        for table in inputs.tables(options.format, file, options.file):
            named = [name for name in table.table.column_names if name not in ignored]
            chosen = Table(table.first, table.table.select(named))
            yield encoding.table(chosen, str(options.chosen)) if encoding.active else chosen
        return
    for part in _records(file, options, between):
        if isinstance(part, Values):
            yield part
            continue
        found = inputs.without(part, ignored)
        yield encoding.records(found, str(options.chosen)) if encoding.active else found


def _records(file: Any, options: argparse.Namespace, between: signals.Between) -> Iterator[Records] | Iterator[Values]:
    if options.null_value:
        return iter([Records([1], [None])])
    if options.template is not None:
        return inputs.templated(file, options.template, between)
    lines = inputs.Lines(file, between)
    if options.format == "json":
        return inputs.envelopes(lines)
    if options.format == "json-values":
        return inputs.json_values(lines)
    if options.key_separator is not None:
        return inputs.lines_with_keys(lines, options.key_separator)
    values = inputs.lines_as_values(lines)
    # With a rate they are sent in smaller parts.
    return values if options.rate is None else (each.records() for each in values)


def _check(topic: str | None, options: argparse.Namespace) -> None:
    options.chosen = topic
    form = options.format or "lines"
    if options.template is not None and options.format is not None:
        raise ArgumentError("-f is a format of its own: leave --format out")
    if options.key_separator is not None and (form != "lines" or options.template is not None):
        raise ArgumentError("--key-separator is for lines: leave --format and -f out")
    if topic is None and (
        form in {"lines", "json-values"} and (options.template is None or "%t" not in options.template)
    ):
        raise ArgumentError("lines name no topic: add -t TOPIC")
    if form in TABLES:
        fixed = {"--key": options.key, "--partition": options.partition, "--header": options.header or None}
        fixed |= {"--tombstone": options.tombstone or None, "--rate": options.rate}
        for flag, value in fixed.items():
            if value is not None:
                raise ArgumentError(f"{flag} is not for tables, which have a column for it")
    if topic is None and (options.encode_key or options.encode_value):
        raise ArgumentError("keys and values are encoded for one topic: add -t TOPIC")
    if (options.encode_value or options.encode_key) and form == "lines":
        raise ArgumentError("objects are encoded: add --format json-values, json, arrow or parquet")
    if options.goes_on and options.transactional_id is not None:
        raise ArgumentError("--continue and --transactional-id exclude each other: a transaction is sent whole, or not")


@contextmanager
def _input(options: argparse.Namespace) -> Iterator[IO[bytes]]:
    if options.file is None:
        yield sys.stdin.buffer
        return
    with Path(options.file).open("rb") as file:
        yield file


def _size(options: argparse.Namespace) -> int | None:
    return None if options.file is None else Path(options.file).stat().st_size


def _conclude(sender: Sender, topic: str | None, *, is_aborted: bool) -> None:
    to = f" to {topic}" if topic is not None else ""
    if is_aborted:
        streams.print_error(f"0 records sent{to}: the transaction was aborted")
        return
    streams.print_error(f"{sender.sent} record{'' if sender.sent == 1 else 's'} sent{to}")


def _report(topic: str, partition: int, offset: int) -> None:
    sys.stdout.write(f"{topic}\t{partition}\t{offset}\n")
