"""Commands with verbs, such as `ottla topics list`: what all of them have."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, settings
from ottla.cli.parser import near
from ottla.errors import NotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    Run = Callable[[argparse.Namespace], object]

GROUP_ID_NOT_FOUND = 69


def noun(commands: Any, name: str, summary: str, examples: str, default: Run | None = None, **values: Any) -> Any:
    """Add a command with verbs.

    Args:
        commands: What `add_subparsers` returned.
        name: The command's name.
        summary: A line for the help, without a period.
        examples: Command lines, one a line.
        default: What runs without a verb; None if a verb is required.
        **values: Values of the options that `default` reads.

    Returns:
        Where `verb` adds its verbs.
    """
    parser = arguments.command(commands, name, summary, examples)
    arguments.client(parser)
    arguments.output(parser)
    if default is not None:
        parser.set_defaults(run=default, **values)
    return parser.add_subparsers(
        title="verbs",
        metavar="VERB",
        dest="action",
        required=default is None,
        prog=parser.prog,
        description=None if default is None else "without one: list",
    )


def verb(verbs: Any, name: str, summary: str, examples: str, run: Run) -> argparse.ArgumentParser:
    """Add a verb.

    Args:
        verbs: What `noun` returned.
        name: The verb.
        summary: A line for the help, without a period.
        examples: Command lines, one a line.
        run: What it does. `output.show` and `output.done` print the result.
    """
    parser = arguments.command(verbs, name, summary, examples)
    arguments.client(parser)
    arguments.output(parser)
    parser.set_defaults(run=run)
    return parser


def dry_run(parser: argparse.ArgumentParser, summary: str = "only check whether it could be done") -> None:
    """Add `--dry-run`."""
    parser.add_argument("--dry-run", action="store_true", help=summary)


@contextmanager
def admin(options: argparse.Namespace) -> Iterator[ottla.Admin]:
    """Connect an admin client. At the end, names that do not exist get the nearest ones that do as a hint."""
    with ottla.Admin(settings.bootstrap(options), config=settings.client_config(options, "admin")) as client:
        try:
            yield client
        except NotFoundError as error:
            _hint(options, client, error.failures or {error.topic or "": error})
            raise
        _hint(options, client, options.failures)


def _hint(options: argparse.Namespace, client: ottla.Admin, failures: Mapping[Any, Exception]) -> None:
    missing = {item: error for item, error in failures.items() if isinstance(error, NotFoundError)}
    groups = {item for item, error in missing.items() if error.code == GROUP_ID_NOT_FOUND}
    try:
        known = {
            True: [group.group_id for group in client.list_groups()] if groups else [],
            False: client.list_topics(internal=True) if missing.keys() - groups else [],
        }
    except ottla.KafkaError:
        # The error that there is says more than that of a search for hints.
        return
    for item in missing:
        given = str(getattr(item, "topic", None) or getattr(item, "name", None) or item)
        options.hints[given] = near(given, known[item in groups])
