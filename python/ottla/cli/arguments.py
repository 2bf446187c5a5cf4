"""What the commands' parsers are made of."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Milliseconds: someone who types a wrong address should not wait a minute for the answer.
PATIENCE_MS = 10_000


def command(commands: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    """Add a command whose help ends with examples."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="examples:\n" + textwrap.indent(text(examples), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def text(block: str) -> str:
    """A block of text without the indentation that it has in the source."""
    return textwrap.dedent(block).strip()


def client(parser: argparse.ArgumentParser) -> None:
    """Add what every client takes."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        default="localhost:9092",
        metavar="HOST:PORT",
        help="brokers to ask for all others, separated by commas (default: %(default)s)",
    )
    config(parser, "property of the client, may be repeated; `ottla config` lists them")


def config(parser: argparse.ArgumentParser, summary: str) -> None:
    """Add `--config`."""
    parser.add_argument("--config", action="append", type=pair, default=[], metavar="KEY=VALUE", help=summary)


def client_config(options: argparse.Namespace) -> dict[str, str]:
    """The properties of a client, with the command line's patience."""
    return {"default.api.timeout.ms": str(PATIENCE_MS), **dict(options.config)}


def pair(given: str) -> tuple[str, str]:
    """The type of a KEY=VALUE."""
    key, separator, value = given.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{given!r} is not KEY=VALUE")
    return key, value


def topic(given: str) -> tuple[str, int]:
    """The type of a NAME:PARTITIONS."""
    name, _, partitions = given.partition(":")
    if not name or (partitions and not partitions.isdecimal()):
        raise argparse.ArgumentTypeError(f"{given!r} is not NAME or NAME:PARTITIONS")
    return name, int(partitions or 1)


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
