"""`ottla config`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from ottla import _ottla
from ottla.cli import arguments

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "config",
        "print the properties of the clients and of the embedded broker",
        """
        ottla config producer     # what --config of `ottla produce` may set, and ottla.Producer(...)
        ottla config consumer
        ottla config broker       # what --config of `ottla broker` may set, and ottla.testing.Broker(config=...)
        """,
    )
    parser.add_argument(
        "role",
        nargs="?",
        choices=["producer", "consumer", "share-consumer", "admin", "broker"],
        help="only the properties of this one",
    )
    parser.set_defaults(run=_config)


def _config(options: argparse.Namespace) -> None:
    for row in [*_ottla.properties(), *_ottla.broker_properties()]:
        if options.role is None or options.role in row["roles"]:
            print(f"{row['name']}  ({', '.join(row['roles'])})")
            print(textwrap.fill(row["doc"], 100, initial_indent="    ", subsequent_indent="    "))
            if facts := ", ".join(_facts(row)):
                print(f"    {facts}")


def _facts(row: _ottla.Property) -> Iterable[str]:
    if row["kind"] == "int":
        yield f"{row['min']} to {row['max']} {row['unit']}".rstrip()
    elif row["kind"] == "choice":
        yield "one of " + ", ".join(row["choices"])
    elif row["kind"] == "bool":
        yield "true or false"
    if row["default"] is not None:
        yield f"default {row['default']}"
