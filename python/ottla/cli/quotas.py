"""`ottla quotas`."""

from __future__ import annotations

import argparse
from typing import Any

from ottla.cli import arguments, nouns, output, units
from ottla.cli.parser import near

QUOTAS = output.columns("user", "client_id", "ip", "quota", "value:number")
KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
DEFAULT = "<default>"


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "quotas",
        "list and change quotas of users, client ids and addresses",
        """
        ottla quotas
        ottla quotas set --user alice producer_byte_rate=1048576
        ottla quotas unset --user alice producer_byte_rate
        """,
        _list,
        user=None,
        client_id=None,
        ip=None,
        strict=False,
    )
    listing = nouns.verb(
        verbs,
        "list",
        "list quotas",
        f"""
        ottla quotas list
        ottla quotas list --user alice
        ottla quotas list --user '{DEFAULT}' --strict      # the default of users, without client ids
        """,
        _list,
    )
    _entity(listing)
    listing.add_argument("--strict", action="store_true", help="not of entities with more parts")
    change = nouns.verb(
        verbs,
        "set",
        "set quotas",
        f"""
        ottla quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
        ottla quotas set --user alice --client-id loader request_percentage=50
        ottla quotas set --user '{DEFAULT}' producer_byte_rate=1048576
        ottla quotas set --ip 127.0.0.1 connection_creation_rate=10 --dry-run
        """,
        _set,
    )
    _entity(change)
    change.add_argument("pairs", nargs="+", type=_quota, metavar="KEY=VALUE", help=f"KEY is {', '.join(KEYS)}")
    nouns.dry_run(change)
    unset = nouns.verb(verbs, "unset", "remove quotas", "ottla quotas unset --user alice producer_byte_rate", _unset)
    _entity(unset)
    unset.add_argument("keys", nargs="+", choices=KEYS, metavar="KEY", help=", ".join(KEYS))
    nouns.dry_run(unset)


def _entity(parser: argparse.ArgumentParser) -> None:
    for flag, what in (("--user", "user"), ("--client-id", "client.id"), ("--ip", "address")):
        parser.add_argument(flag, type=arguments.name, metavar="NAME", help=f"the {what}; {DEFAULT} for any other")


def _quota(given: str) -> tuple[str, float]:
    key, value = units.setting(given)
    if key not in KEYS:
        hint = near(key, KEYS) or f": {', '.join(KEYS)}"
        raise argparse.ArgumentTypeError(f"{key!r} is not a quota{hint}")
    try:
        return key, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{given!r}: {value!r} is not a number") from None


def _named(options: argparse.Namespace) -> dict[str, str | None]:
    given = {"user": options.user, "client-id": options.client_id, "ip": options.ip}
    return {kind: None if name == DEFAULT else name for kind, name in given.items() if name is not None}


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.describe_client_quotas(_named(options), strict=options.strict)
    rows = [
        {
            **{
                kind.replace("-", "_"): (each.entity[kind] or DEFAULT) if kind in each.entity else None
                for kind in ("user", "client-id", "ip")
            },
            "quota": key,
            "value": value,
        }
        for each in found
        for key, value in sorted(each.quotas.items())
    ]
    output.show(options, QUOTAS, rows)


def _change(options: argparse.Namespace, quotas: dict[str, float | None], result: str) -> None:
    entity = _named(options)
    if not entity:
        options.parser.error("whose quota? say --user, --client-id or --ip")
    with nouns.admin(options) as admin:
        output.settle(options, lambda: admin.alter_client_quotas([(entity, quotas)], validate_only=options.dry_run))
    output.done(options, "quota", result, [] if options.failures else quotas)


def _set(options: argparse.Namespace) -> None:
    _change(options, dict(options.pairs), "set")


def _unset(options: argparse.Namespace) -> None:
    _change(options, dict.fromkeys(options.keys), "unset")
