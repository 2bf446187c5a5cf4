"""The building blocks of the commands' parsers."""

from __future__ import annotations

import argparse
import os
import re
import textwrap

from ottla.cli.parser import Parser

TYPE_CHECKING = False  # as in `ottla`: help is printed without `typing`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

FORMATS = ("table", "names", "csv", "tsv", "json")
DEFAULT_BOOTSTRAP = "localhost:9092"
MOST_PARTITIONS = 2**31 - 1
# Partitions of a range: a cluster has fewer, and a typo should not fill the memory.
MOST_NAMED = 1_000_000
# A shell passes \t on as it stands. Any other backslash is a backslash.
ESCAPE = re.compile(rb"\\(?:(?P<letter>[tnr0\\])|x(?P<hex>[0-9a-fA-F]{2}))")
ESCAPED = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def command(commands: Any, name: str, summary: str, examples: str) -> Parser:
    """Add a command whose help ends with examples."""
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="examples:\n" + textwrap.indent(text(examples), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbosity(parser)
    # Of a command and its verb, the parser of the verb stays.
    parser.set_defaults(parser=parser)
    return parser


def text(block: str) -> str:
    """A block of text without the indentation that it has in the source."""
    return textwrap.dedent(block).strip()


# --- options that may stand before the verb or after it ---


def _anywhere(parser: argparse.ArgumentParser, *flags: str, name: str, **details: Any) -> None:
    """Add an option to one of the parsers that have it.

    A subcommand's parser overwrites what its parent's was given under the same name, so each keeps its own: `given`
    puts them together.
    """
    details = {"action": "append", "default": argparse.SUPPRESS, **details}
    parser.add_argument(*flags, dest=f"{name} of {parser.prog}", **details)


def given(options: argparse.Namespace, name: str) -> list[Any]:
    """All values that an option was given, in their order."""
    return [value for key, values in vars(options).items() if key.startswith(f"{name} of ") for value in values]


def verbosity(parser: argparse.ArgumentParser) -> None:
    """Add `-v`, which every command takes."""
    _anywhere(
        parser,
        "-v",
        "--verbose",
        name="verbose",
        action="append_const",
        const=1,
        help="print what the client does to standard error, and more with -vv; warnings are always printed",
    )


def client(parser: argparse.ArgumentParser) -> None:
    """Add the options that every client takes."""
    _anywhere(
        parser,
        "-b",
        "--bootstrap",
        name="bootstrap",
        metavar="HOST:PORT",
        help=f"bootstrap brokers, separated by commas (default: the profile's, or {DEFAULT_BOOTSTRAP})",
    )
    config(parser, "property of the client, may be repeated; `ottla config` lists them")
    _anywhere(parser, "--profile", name="profile", metavar="NAME", help="profile of ottla.toml")
    parser.set_defaults(takes=("bootstrap", "config", "profile"))


def output(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that print rows."""
    _anywhere(
        parser,
        "--format",
        name="format",
        choices=FORMATS,
        help="table; names: the first column; csv; tsv, without a head; json: all there is, in one object "
        "(default: table)",
    )
    _anywhere(
        parser,
        "--utc",
        name="utc",
        action="append_const",
        const=True,
        help="show times in UTC, not in the local time zone",
    )
    parser.set_defaults(rows=True)


def config(parser: argparse.ArgumentParser, summary: str) -> None:
    """Add `--config`."""
    _anywhere(parser, "--config", name="config", type=pair, metavar="KEY=VALUE", help=summary)
    parser.set_defaults(takes=("config",))


def refuse_strays(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program if an option before the verb is one that the verb does not have."""
    for name, flag in (("bootstrap", "-b"), ("config", "--config"), ("profile", "--profile")):
        if name not in options.takes and given(options, name):
            parser.error(f"{flag} is not an option of `ottla {options.verb}`")


def verbose(options: argparse.Namespace) -> int:
    """How often `-v` was given."""
    return len(given(options, "verbose"))


def finish(options: argparse.Namespace) -> None:
    """Set what `output` reads: how rows are shown, what has failed so far, and hints about that."""
    options.shown_as = str(["table", *given(options, "format")][-1]) if getattr(options, "rows", False) else ""
    options.utc = bool(given(options, "utc"))
    options.failures = {}
    options.hints = {}
    options.printed = False


def isolation(options: argparse.Namespace) -> Literal["read_uncommitted", "read_committed"]:
    """The isolation level of `--committed`, where the command has it."""
    return "read_committed" if getattr(options, "committed", False) else "read_uncommitted"


# --- types of values ---


def name(given: str) -> str:
    """The type of a name. Kafka's names are UTF-8, whatever the encoding of the locale that the argument came in."""
    try:
        return os.fsencode(given).decode()
    except UnicodeError:
        raise argparse.ArgumentTypeError(f"{given!a} is not UTF-8, as Kafka's names are") from None


def pair(given: str) -> tuple[str, str]:
    """The type of a KEY=VALUE."""
    given = name(given)
    key, separator, value = given.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{given!r} is not KEY=VALUE")
    return key, value


def new_topic(given: str) -> tuple[str, int | None]:
    """The type of a NAME:PARTITIONS; None partitions where they are left out."""
    topic, _, partitions = name(given).partition(":")
    if not topic or (partitions and not partitions.isdecimal()):
        raise argparse.ArgumentTypeError(f"{given!r} is not NAME or NAME:PARTITIONS")
    if int(partitions or 1) not in range(1, MOST_PARTITIONS + 1):
        raise argparse.ArgumentTypeError(f"{given!r}: a topic has 1 to {MOST_PARTITIONS} partitions")
    return topic, int(partitions) if partitions else None


def topics(given: str) -> list[str]:
    """The type of names of topics, separated by commas."""
    names = [one.strip() for one in name(given).split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{given!r} has an empty name")
    return names


def partitions(given: str) -> tuple[str, list[int] | None]:
    """The type of partitions of a topic: flights, flights:0, flights:0,2-4. Without numbers they are None: all."""
    topic, colon, numbers = name(given).partition(":")
    found: list[int] = []
    for part in numbers.split(",") if colon else []:
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or ("-" in part and not last):
            raise argparse.ArgumentTypeError(f"{given!r} is not TOPIC, TOPIC:PARTITION or TOPIC:0,2-4")
        if not 0 <= int(last or first) - int(first) < MOST_NAMED:
            raise argparse.ArgumentTypeError(f"{given!r}: {part} is not a range of up to {MOST_NAMED:,} partitions")
        found.extend(range(int(first), int(last or first) + 1))
    if not topic:
        raise argparse.ArgumentTypeError(f"{given!r} has an empty name")
    return topic, found if colon else None


def brokers(given: str) -> list[int]:
    """The type of ids of brokers, separated by commas."""
    if not all(each.isdecimal() for each in given.split(",")):
        raise argparse.ArgumentTypeError(f"{given!r} is not a list of ids, such as 1,2,3")
    return [int(each) for each in given.split(",")]


def separator(given: str) -> bytes:
    r"""The type of what divides a key from a value: any text; \t, \0, \\ and \xHH are understood."""

    def unescaped(found: re.Match[bytes]) -> bytes:
        return ESCAPED[found["letter"]] if found["letter"] else bytes.fromhex(found["hex"].decode())

    divider = ESCAPE.sub(unescaped, os.fsencode(given))
    if not divider:
        raise argparse.ArgumentTypeError(r"the separator is empty; a colon is ':', a tab is '\t'")
    if b"\n" in divider or b"\r" in divider:
        raise argparse.ArgumentTypeError(f"{given!r}: a line break ends the record, so it cannot divide key and value")
    return divider


def count(given: str) -> int:
    """The type of a number of things, at least one."""
    if not given.isdecimal() or int(given) == 0:
        raise argparse.ArgumentTypeError(f"{given!r} is not a number from 1 up")
    return int(given)


def number(most: int) -> Callable[[str], int]:
    """The type of a number from 0 to a greatest one."""

    def parse(given: str) -> int:
        if not given.isdecimal() or int(given) > most:
            raise argparse.ArgumentTypeError(f"{given!r} is not a number from 0 to {most}")
        return int(given)

    return parse
