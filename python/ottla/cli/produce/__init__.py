"""`ottla produce`."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from ottla.cli import arguments, schemas
from ottla.cli.formats import template, template_input
from ottla.errors import ArgumentError

FORMATS = ("lines", "json", "json-values", "csv", "arrow", "parquet")
IGNORED = ("topic", "partition", "timestamp", "key", "headers")

EXAMPLES = r"""
echo hello | ottla produce -t flights                          # a value without a key
echo JFK:N123 | ottla produce -t flights --key-separator :     # key JFK, value N123
ottla produce -t flights --key-separator '\t' < flights.tsv    # a tab; a line without one is a value
tail -f access.log | ottla produce -t access
ottla produce -t flights --file flights.txt --rate 1000        # 1,000 records in a second
ottla produce -t flights --header source=import --key JFK < flights.txt
ottla produce -t flights --key JFK --null-value                # a tombstone
ottla produce -t flights -f '%k,%v\n' < flights.csv            # a template
ottla consume -t a -o :end --format json | ottla produce -t b --format json   # a copy, with keys, times and headers
ottla produce -t flights --format parquet --file flights.parquet
ottla produce -t orders --format json-values --encode-value registry --registry http://localhost:8081 < orders.json
ottla produce -t flights --transactional-id import < flights.txt              # all of it, or nothing
ottla produce -b kafka-1:9092 -t flights --config compression.type=zstd --config acks=all < flights.txt

A line ends with LF or CR LF; any other CR belongs to the value. The command ends at the first line that cannot
be sent, and prints its number. With --continue it prints each such line and sends the others. Ctrl-C and SIGTERM
send what was read before.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands, "produce", "send lines, JSON, CSV, Arrow or Parquet as records to one topic", EXAMPLES
    )
    parser.epilog = "\n\n".join(
        [
            str(parser.epilog),
            _section("templates (-f)", template_input.HELP),
            _section("schemas (--encode-value, --encode-key)", schemas.HELP),
        ]
    )
    arguments.client(parser)
    parser.add_argument("topics", nargs="*", type=arguments.name, metavar="TOPIC", help="topic to send to, as with -t")
    parser.add_argument(
        "-t",
        "--topic",
        action="extend",
        type=arguments.topics,
        default=[],
        metavar="NAME",
        help="topic to send to; a broker with auto.create.topics.enable creates one that does not exist",
    )
    parser.add_argument(
        "--file", metavar="FILE", help="read a file instead of standard input; a terminal shows how far it is"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="lines: each a value (default); json: what consume --format json writes; json-values: each line a value, "
        "which must be JSON; csv with a header line; arrow; parquet",
    )
    parser.add_argument(
        "-f", "--template", type=_template, metavar="TEMPLATE", help=r"a template, as '%%k\t%%v\n': see below"
    )
    parser.add_argument(
        "--key-separator",
        type=arguments.separator,
        metavar="TEXT",
        help=r"text between the key and the value of each line; \t is a tab, \0 a zero byte, \xHH any byte",
    )
    parser.add_argument("-k", "--key", type=_bytes, metavar="TEXT", help="key of each record that has none")
    parser.add_argument(
        "-p", "--partition", type=arguments.number(2**31 - 1), metavar="N", help="partition of all records"
    )
    parser.add_argument(
        "-H", "--header", action="append", type=_header, default=[], metavar="NAME=VALUE", help="header of each record"
    )
    parser.add_argument("-Z", "--tombstone", action="store_true", help="an empty value is a tombstone")
    parser.add_argument("--null-value", action="store_true", help="send one tombstone, and read no input")
    parser.add_argument(
        "--ignore",
        type=_ignored,
        default=[],
        metavar="LIST",
        help="leave out what the input has of these: " + ", ".join(IGNORED),
    )
    parser.add_argument("--rate", type=_rate, metavar="N", help="send at most N records in a second")
    parser.add_argument(
        "--continue",
        dest="goes_on",
        action="store_true",
        help="print lines that cannot be sent, and send the others; the exit status is then 1",
    )
    parser.add_argument(
        "--transactional-id", type=arguments.name, metavar="ID", help="send all of it in one transaction"
    )
    parser.add_argument(
        "-z",
        "--compression",
        choices=["none", "gzip", "snappy", "lz4", "zstd"],
        help="compress batches (default: none)",
    )
    parser.add_argument("--report", action="store_true", help="print topic, partition and offset of each record")
    for column in ("value", "key"):
        parser.add_argument(
            f"--encode-{column}", metavar="SCHEMA", help=f"encode each {column}, which is JSON: see below"
        )
    parser.add_argument("--registry", metavar="URL", help="the schema registry")
    parser.set_defaults(run=partial(_produce, parser))


def _produce(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from ottla.cli.produce.run import send

    topics = list(dict.fromkeys([*options.topics, *options.topic]))
    if len(topics) > 1:
        raise ArgumentError(f"produce sends to one topic, and there are {len(topics)}: {', '.join(topics)}")
    if not topics and options.format not in {"json", "csv", "arrow", "parquet"} and options.template is None:
        parser.error("name a topic: TOPIC or -t/--topic")
    send(topics[0] if topics else None, options)


def _section(title: str, text: str) -> str:
    return f"{title}:\n" + "\n".join(f"  {line}" for line in text.splitlines())


# --- types of values ---


def _bytes(text: str) -> bytes:
    return arguments.name(text).encode()


def _header(text: str) -> tuple[str, bytes]:
    key, value = arguments.pair(text)
    return key, value.encode()


def _template(text: str) -> str:
    text = arguments.name(text)
    try:
        template_input.compiled(text)
    except template.TemplateError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _ignored(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in IGNORED]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} cannot be left out: {', '.join(IGNORED)}")
    return names


def _rate(text: str) -> float:
    rate = float(text) if text.replace(".", "", 1).isdecimal() else 0.0
    if rate <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records in a second")
    return rate
