"""All commands of `ottla`. A module is imported only if the command line names its command."""

from __future__ import annotations

import argparse
import importlib

from ottla.cli import arguments
from ottla.cli.parser import Parser

TYPE_CHECKING = False  # as in `ottla`: help is printed without `typing`
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any


class Command:
    """A command and its line in the help of `ottla`. Its module has `add(commands)`."""

    def __init__(self, module: str, summary: str) -> None:
        self.module, self.summary = module, summary


class HelpJson(argparse.Action):
    """Prints all commands and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print them."""
        from ottla.cli import help_json

        help_json.show(parser)
        parser.exit()


HELP_JSON = "--help-json"
COMMANDS = {
    "broker": Command("broker", "run the embedded broker until Ctrl-C"),
    "produce": Command("produce", "send lines, JSON, CSV, Arrow or Parquet as records to one topic"),
    "consume": Command("consume", "print the records of topics until Ctrl-C"),
    "topics": Command("topics", "list, create, change and delete topics"),
    "partitions": Command("partitions", "elect leaders of partitions, and move their replicas"),
    "groups": Command("groups", "list groups, show their lag, and move their offsets"),
    "share-groups": Command("share_groups", "list share groups, and move where they begin to read"),
    "configs": Command("configs", "read and change the configurations of topics, brokers, groups and client metrics"),
    "acls": Command("acls", "list, create and delete rules of access control lists"),
    "users": Command("users", "list, set and delete credentials of users for SCRAM"),
    "quotas": Command("quotas", "list and change quotas of users, client ids and addresses"),
    "tokens": Command("tokens", "list, create, renew and expire delegation tokens"),
    "transactions": Command("transactions", "list, describe and abort transactions, and find those that hang"),
    "cluster": Command("cluster", "describe the cluster: its brokers, features and controllers"),
    "log-dirs": Command("log_dirs", "list the folders of brokers' logs, and the replicas in them"),
    "copy": Command("copy", "copy a topic to another one, each committed record once"),
    "sql": Command("sql", "query topics with SQL (DuckDB)"),
    "top": Command("top", "show the rates of topics and the lag of groups until Ctrl-C"),
    "completion": Command(
        "completion", "print the completion of commands, options, topics and groups for bash, zsh or fish"
    ),
    "config": Command("config", "print the properties of clients and of the embedded broker, and your profiles"),
    "decode": Command(
        "decode", "print the bytes of a request, a response, a message, records or a log in readable form"
    ),
    "ingest": Command(
        "ingest", "write topics into a Parquet, Delta or Iceberg table with Spark, configured by a TOML file"
    ),
}


def root(version: str, named: Collection[str]) -> Parser:
    """Make the parser of the whole command line.

    Args:
        version: The text of `--version`.
        named: Words of the command line. A command that is not among them gets a parser without its options.
    """
    parser = Parser(
        prog="ottla",
        description="Kafka from the command line.",
        epilog=arguments.text(
            """
            try it, in two terminals:
              ottla broker --topic flights:4
              echo hello | ottla produce -t flights
              ottla consume -t flights --beginning --format json --max 1

            `ottla COMMAND --help` has examples of each command. Exit status: 0 success, 1 failure, 2 wrong usage,
            130 Ctrl-C.
            """
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument(
        HELP_JSON, action=HelpJson, nargs=0, help="print all commands with their options as JSON, for programs"
    )
    arguments.verbosity(parser)
    arguments.client(parser)
    parser.set_defaults(takes=())
    # Without a name argparse would make a formatter for it, which loads all packages of compression.
    commands: Any = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="verb", required=True, prog=parser.prog
    )
    for name, command in COMMANDS.items():
        if name in named or HELP_JSON in named:
            importlib.import_module(f"ottla.cli.{command.module}").add(commands)
        else:
            commands.add_parser(name, help=command.summary, add_help=False)
    return parser
