"""`ottla configs`."""

from __future__ import annotations

import argparse
from typing import Any

import ottla
from ottla.cli import arguments, nouns, output, units
from ottla.cli.parser import near
from ottla.errors import ArgumentError

TYPES = {
    "topic": "TOPIC",
    "broker": "BROKER",
    "broker-logger": "BROKER_LOGGER",
    "group": "GROUP",
    "client-metrics": "CLIENT_METRICS",
}
ENTRIES = output.columns("resource", "name", "value", "source", "read_only")
RESOURCES = output.columns("type", "name")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "configs",
        "read and change the configurations of topics, brokers, groups and client metrics",
        """
        ottla configs get topic/flights
        ottla configs set topic/flights retention.ms=3600000
        ottla configs set broker/1 log.cleaner.threads=2
        """,
    )
    get = nouns.verb(
        verbs,
        "get",
        "print configurations",
        """
        ottla configs get topic/flights                     # what is set for this topic
        ottla configs get topic/flights --all               # defaults, too
        ottla configs get topic/flights retention.ms        # one of them
        ottla configs get broker/ --all                     # the default of all brokers
        ottla configs get broker/1 broker/2 --all --format csv
        ottla configs get topic/flights retention.ms --doc --format json
        """,
        _get,
    )
    get.add_argument("resource", type=resource, metavar="TYPE/NAME", help=f"TYPE is {', '.join(TYPES)}")
    get.add_argument("names", nargs="*", type=arguments.name, metavar="KEY", help="names, or more of TYPE/NAME")
    get.add_argument("--all", action="store_true", help="those with a default value, too")
    get.add_argument("--doc", action="store_true", help="with Kafka's documentation, in JSON")

    change = nouns.verb(
        verbs,
        "set",
        "set configurations; others stay as they are",
        """
        ottla configs set topic/flights retention.ms=7d cleanup.policy=compact
        ottla configs set topic/flights --append cleanup.policy=delete      # adds to a list
        ottla configs set topic/flights --subtract cleanup.policy=delete
        ottla configs set broker/ message.max.bytes=2000000                 # the default of all brokers
        ottla configs set topic/flights retention.ms=1 --dry-run
        """,
        _set,
    )
    change.add_argument("resource", type=resource, metavar="TYPE/NAME")
    change.add_argument("pairs", nargs="*", type=units.setting, metavar="KEY=VALUE", help=units.HELP)
    for flag in ("append", "subtract"):
        change.add_argument(
            f"--{flag}",
            action="append",
            type=arguments.pair,
            default=[],
            metavar="KEY=VALUE",
            help=f"{flag} items of a list, may be repeated",
        )
    nouns.dry_run(change)

    unset = nouns.verb(
        verbs,
        "unset",
        "remove configurations, so that their defaults apply again",
        "ottla configs unset topic/flights retention.ms cleanup.policy",
        _unset,
    )
    unset.add_argument("resource", type=resource, metavar="TYPE/NAME")
    unset.add_argument("names", nargs="+", type=arguments.name, metavar="KEY")
    nouns.dry_run(unset)

    listing = nouns.verb(
        verbs,
        "list",
        "list what can have a configuration",
        """
        ottla configs list
        ottla configs list --type group
        """,
        _list,
    )
    listing.add_argument(
        "--type", action="append", default=[], choices=list(TYPES), help="only of this type, may be repeated"
    )


def resource(given: str) -> ottla.ConfigResource:
    """The type of a TYPE/NAME."""
    kind, slash, name = arguments.name(given).partition("/")
    if not slash:
        raise argparse.ArgumentTypeError(f"{given!r} is not TYPE/NAME, such as topic/flights")
    if kind not in TYPES:
        raise argparse.ArgumentTypeError(f"{kind!r} is not one of {', '.join(TYPES)}{near(kind, TYPES)}")
    return ottla.ConfigResource(TYPES[kind], name)


def _named(options: argparse.Namespace) -> tuple[list[ottla.ConfigResource], list[str]]:
    """The resources and the names of a command line: a name has no slash."""
    try:
        more = [resource(word) for word in options.names if "/" in word]
    except argparse.ArgumentTypeError as error:
        options.parser.error(str(error))
    return [options.resource, *more], [word for word in options.names if "/" not in word]


def _value(entry: ottla.ConfigEntry, *, for_people: bool) -> str | None:
    """A value. Brokers return none of passwords, whether they are set or not: only the source shows it."""
    if for_people and entry.is_sensitive and entry.value is None and entry.source != "DEFAULT_CONFIG":
        return "(secret)"
    return entry.value


def _get(options: argparse.Namespace) -> None:
    resources, names = _named(options)
    with nouns.admin(options) as admin:
        found = output.settle(
            options,
            lambda: admin.describe_configs(
                resources,
                names=names or None,
                include_synonyms=options.shown_as == "json",
                include_documentation=options.doc,
            ),
        )
    entries = [(each, entry) for each, entries in found.items() for entry in entries]
    if not options.all and not names:
        entries = [(each, entry) for each, entry in entries if entry.source.startswith("DYNAMIC")]
    rows = [
        {
            "resource": _shown(each),
            "name": entry.name,
            "value": _value(entry, for_people=options.shown_as == "table"),
            "source": entry.source,
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
            "type": entry.type,
            "documentation": entry.documentation,
            "synonyms": entry.synonyms,
        }
        for each, entry in entries
    ]
    for each, listed in found.items():
        for name in sorted(set(names) - {entry.name for entry in listed}):
            error = ArgumentError(f"there is no configuration {name}")
            options.failures[f"{_shown(each)} {name}"] = error
    output.show(options, ENTRIES, rows)


def _shown(given: ottla.ConfigResource) -> str:
    return f"{given.type.lower().replace('_', '-')}/{given.name}"


def _change(options: argparse.Namespace, operations: list[ottla.AlterConfigOp], result: str) -> None:
    with nouns.admin(options) as admin:
        output.settle(
            options,
            lambda: admin.incremental_alter_configs({options.resource: operations}, validate_only=options.dry_run),
        )
    where = _shown(options.resource)
    names = [] if options.failures else [f"{where} {operation.name}" for operation in operations]
    output.done(options, "configuration", result, dict.fromkeys(names))


def _set(options: argparse.Namespace) -> None:
    given = {"SET": options.pairs, "APPEND": options.append, "SUBTRACT": options.subtract}
    operations = [
        ottla.AlterConfigOp(name, value, operation) for operation, pairs in given.items() for name, value in pairs
    ]
    if not operations:
        options.parser.error("what is to be set? say KEY=VALUE")
    _change(options, operations, "set")


def _unset(options: argparse.Namespace) -> None:
    _change(options, [ottla.AlterConfigOp(name, None, "DELETE") for name in options.names], "unset")


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.list_config_resources([TYPES[kind] for kind in options.type])
    names = {kind: name for name, kind in TYPES.items()}
    rows = [{"type": names.get(each.type, each.type.lower()), "name": each.name} for each in found]
    output.show(options, RESOURCES, rows)
