"""`ottla consume`."""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import Any

from ottla.cli import arguments, filters, schemas, times, windows
from ottla.cli.consume.partitions import partitions
from ottla.cli.formats import template

# Kept apart from `output.FORMATS`, whose module is not imported for `--help`.
FORMATS = ("raw", "json", "csv", "arrow", "parquet")

# Windows that begin with an offset before the end.
_NEGATIVE = re.compile(r"-\d")

EXAMPLES = r"""
ottla consume -t flights                                          # what comes from now on
ottla consume -t flights --beginning                              # what is there first
ottla consume -t flights --last 10                                # the last 10 that are there
ottla consume -t flights --tail 10                                # the last 10, and what comes
ottla consume -t flights -o :end                                  # all that is there, then end
ottla consume -t flights -o @-1h:@-30m                            # half an hour of records
ottla consume -t flights -p 0,2 -o 100:200                        # these offsets of two partitions
ottla consume -t flights --beginning --idle 5 > flights.txt       # until nothing came for 5 seconds
ottla consume -t flights --beginning --max 10 --format json       # the first 10, with keys, offsets and headers
ottla consume -t flights -o :end --format parquet -O flights.parquet
ottla consume -t flights -o :end -f '%d{strftime[%F %T]} %p/%o %k=%v\n'
ottla consume -t flights -o :end -G k:^JFK -G '!j:cancelled=true' # keys that begin with JFK, and not cancelled
ottla consume -t flights -t audit --format json | jq .topic       # two topics; -t flights,audit is the same
ottla consume -r -t 'flights-.*' --group audit                    # a group, and each topic that the pattern matches
ottla consume -t jobs --share-group workers --ack release         # look at records of a share group
ottla consume -t orders -o :end --format json --decode-value registry --registry http://localhost:8081
ottla consume --from /var/lib/kafka/data -t flights --format json # the files of a broker, without a broker
ottla consume --from /var/lib/kafka/data --remote s3://bucket/tiered -t flights
ottla consume -b kafka-1:9092 -t flights --config isolation.level=read_committed
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(commands, "consume", "print the records of topics until Ctrl-C", EXAMPLES)
    parser.epilog = "\n\n".join(
        [
            str(parser.epilog),
            _section("offsets and windows (-o)", windows.GRAMMAR),
            _section("filters (-G)", filters.GRAMMAR),
            _section("templates (-f)", template.HELP),
            _section("schemas (--decode-value, --decode-key)", schemas.HELP),
        ]
    )
    arguments.client(parser)
    # `-o -10:end` is a value. argparse takes only plain negative numbers for values, unless this says more.
    parser._negative_number_matcher = _NEGATIVE  # noqa: SLF001 it has no other way
    parser.add_argument("topics", nargs="*", type=arguments.name, metavar="TOPIC", help="topic to read, as with -t")
    parser.add_argument(
        "-t",
        "--topic",
        action="extend",
        type=arguments.topics,
        default=[],
        metavar="NAME",
        help="topic to read, which must exist; may be repeated, or names separated by commas",
    )
    parser.add_argument(
        "-r",
        "--regex",
        action="store_true",
        help="topics are patterns, which match whole names; a group follows new topics",
    )
    parser.add_argument(
        "-p", "--partition", type=partitions, metavar="LIST", help="only these partitions, as in 0,2 or 0-3"
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PATH",
        help="read a broker's log folder, a partition's folder or a segment in it, from the first record to the last",
    )
    parser.add_argument(
        "--remote",
        metavar="STORE",
        help="with --from: the store of tiered segments, which is read up to the first offset of each folder",
    )
    parser.add_argument(
        "--private-key",
        action="append",
        type=_key_file,
        default=[],
        metavar="NAME=FILE",
        help="with --from: an RSA key of encrypted tiered segments, in PEM, by its name in encryption.key.pairs of the "
        "brokers; may be repeated",
    )
    _add_place(parser)
    _add_end(parser)
    _add_group(parser)
    _add_format(parser)
    parser.set_defaults(run=partial(_consume, parser))


def _add_place(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "-o", "--offset", type=_window, metavar="WINDOW", help="where to start and end: see below (default: end)"
    )
    place.add_argument("--beginning", action="store_true", help="start at the first record instead of after the last")
    place.add_argument("--last", type=arguments.count, metavar="N", help="print the newest N of each topic, and stop")
    place.add_argument(
        "--tail",
        type=arguments.count,
        nargs="?",
        const=10,
        metavar="N",
        help="print the newest N (default: 10) of each topic, and what comes",
    )


def _add_end(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--max", type=arguments.count, metavar="N", help="stop after N records; filters come before"
    )
    parser.add_argument(
        "--max-per-partition", type=arguments.count, metavar="N", help="print at most N records of each partition"
    )
    parser.add_argument(
        "--idle",
        type=times.duration,
        metavar="DURATION",
        help="stop after this long without a record; connecting, joining the group and the first requests do not count",
    )
    parser.add_argument(
        "-e", "--exit", action="store_true", help="stop at the end that the partitions have when reading begins"
    )
    parser.add_argument(
        "-G",
        "--filter",
        action="append",
        type=_filter,
        default=[],
        metavar="FILTER",
        help="print only records that match, as k:REGEX or j:PATH=VALUE: see below; may be repeated",
    )


def _add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-g",
        "--group",
        type=arguments.name,
        metavar="NAME",
        help="read as a member of a group, and commit what is printed",
    )
    parser.add_argument(
        "--share-group",
        type=arguments.name,
        metavar="NAME",
        help="read as a member of a share group (Kafka 4.1 or newer)",
    )
    parser.add_argument(
        "--ack",
        choices=["accept", "release", "reject"],
        help="what becomes of a share group's records when they are printed: done, given back for another delivery, or "
        "never delivered again (default: accept)",
    )
    parser.add_argument(
        "--read-committed", action="store_true", help="leave out records of open and aborted transactions"
    )


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="raw: each value and a newline (default); json: each record as an object on a line; csv; arrow: an IPC "
        "stream; parquet. `ottla produce` reads all of them",
    )
    parser.add_argument(
        "-f", "--template", type=_template, metavar="TEMPLATE", help=r"a template, as '%%k\t%%v\n': see below"
    )
    parser.add_argument("-O", "--output", metavar="FILE", help="write to a file instead of standard output")
    parser.add_argument(
        "--separator", type=_separator, metavar="TEXT", help=r"what follows each value with raw (default: \n)"
    )
    parser.add_argument("--columns", type=_names, metavar="LIST", help="only these columns of csv, arrow and parquet")
    parser.add_argument("--without", type=_fields, metavar="LIST", help="leave fields out of json, as in value,headers")
    for column in ("value", "key"):
        parser.add_argument(f"--decode-{column}", metavar="SCHEMA", help=f"decode each {column}: see below")
    parser.add_argument("--registry", metavar="URL", help="the schema registry")


def _consume(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from ottla.cli.consume.decoding import Decoding
    from ottla.cli.consume.plan import plan_of
    from ottla.cli.consume.run import write

    if not (options.topics or options.topic or options.source):
        parser.error("name a topic: TOPIC or -t/--topic")
    plan = plan_of(options)
    write(plan, options, Decoding(options))


def _section(title: str, text: str) -> str:
    return f"{title}:\n" + "\n".join(f"  {line}" for line in text.splitlines())


# --- types of values ---


def _window(text: str) -> windows.Window:
    try:
        return windows.parse(text)
    except windows.WindowError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _filter(text: str) -> filters.Filter:
    try:
        return filters.parse(arguments.name(text))
    except filters.FilterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _template(text: str) -> str:
    text = arguments.name(text)
    try:
        template.check(text)
    except template.TemplateError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _key_file(text: str) -> tuple[str, str]:
    name, _, path = arguments.name(text).partition("=")
    if not (name and path):
        raise argparse.ArgumentTypeError("a private key is NAME=FILE, as in key-1=/etc/kafka/key-1.pem")
    return name, path


def _separator(text: str) -> bytes:
    try:
        return template.unescaped(arguments.name(text))
    except template.TemplateError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _fields(text: str) -> list[str]:
    known = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    names = _names(text)
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no field of a record: {', '.join(known)}")
    return names
