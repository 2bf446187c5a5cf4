"""`ottla acls`."""

from __future__ import annotations

import argparse
from typing import Any

import ottla
from ottla.cli import arguments, nouns, output
from ottla.cli.parser import near

RULES = output.columns("principal", "permission", "operation", "resource_type", "name", "pattern_type", "host")
RESOURCES = {
    "topic": "TOPIC",
    "group": "GROUP",
    "cluster": "CLUSTER",
    "transactional-id": "TRANSACTIONAL_ID",
    "delegation-token": "DELEGATION_TOKEN",
    "user": "USER",
}
OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)
CLUSTER = "kafka-cluster"


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "acls",
        "list, create and delete rules of access control lists",
        """
        ottla acls
        ottla acls create --principal alice --operation read,describe --topic 'flights-*'
        ottla acls delete --principal alice --dry-run
        """,
        _list,
        **dict.fromkeys(("principal", "operation", "deny", "allow", "host", *RESOURCES), None),
        match=False,
    )
    listing = nouns.verb(
        verbs,
        "list",
        "list rules",
        """
        ottla acls list
        ottla acls list --principal alice
        ottla acls list --topic flights --match      # all that are about this topic, prefixes and * too
        """,
        _list,
    )
    _filters(listing)
    create = nouns.verb(
        verbs,
        "create",
        "create rules",
        """
        ottla acls create --principal alice --operation read,describe --topic flights
        ottla acls create --principal alice --operation read --topic 'flights-*' --group 'billing-*'   # prefixes
        ottla acls create --principal '*' --operation describe --cluster
        ottla acls create --principal bob --operation write --topic flights --deny --host 127.0.0.1
        """,
        _create,
    )
    _common(create, many=True)
    delete = nouns.verb(
        verbs,
        "delete",
        "delete rules",
        """
        ottla acls delete --principal alice --dry-run      # prints what would be deleted
        ottla acls delete --principal alice --topic flights --operation read
        """,
        _delete,
    )
    _filters(delete)
    nouns.dry_run(delete, "only print what would be deleted")


def _common(parser: argparse.ArgumentParser, *, many: bool) -> None:
    parser.add_argument(
        "--principal",
        type=_principal,
        action="append" if many else "store",
        required=many,
        metavar="NAME",
        help="a user, or TYPE:NAME; '*' is anybody" + (", may be repeated" if many else ""),
    )
    parser.add_argument(
        "--operation",
        type=_operations,
        required=many,
        metavar="NAME[,NAME]",
        help=", ".join(OPERATIONS),
    )
    for name in RESOURCES:
        details: dict[str, Any] = {"nargs": "?", "const": CLUSTER} if name == "cluster" else {}
        if many:
            details |= {"action": "append"} if name != "cluster" else {}
        parser.add_argument(
            f"--{name}",
            dest=name,
            type=arguments.name,
            metavar="NAME",
            help="the cluster itself" if name == "cluster" else "a name; 'NAME*' is a prefix, '*' any",
            **details,
        )
    permission = parser.add_mutually_exclusive_group()
    permission.add_argument("--deny", action="store_true", help="rules that deny")
    if not many:
        permission.add_argument("--allow", action="store_true", help="rules that allow")
    parser.add_argument("--host", metavar="ADDRESS", help="the client's address" + (" (default: any)" if many else ""))


def _filters(parser: argparse.ArgumentParser) -> None:
    _common(parser, many=False)
    parser.add_argument(
        "--match", action="store_true", help="also rules of prefixes and of '*' that are about the resource"
    )


def _principal(given: str) -> str:
    name = arguments.name(given)
    return name if ":" in name else f"User:{name}"


def _operations(given: str) -> list[str]:
    found = given.lower().replace("_", "-").split(",")
    for name in found:
        if name not in OPERATIONS:
            hint = near(name, OPERATIONS) or f": {', '.join(OPERATIONS)}"
            raise argparse.ArgumentTypeError(f"{name!r} is not an operation{hint}")
    return [name.replace("-", "_").upper() for name in found]


def _pattern(name: str) -> tuple[str, str]:
    """The name and the type of its pattern, of a name that may end with `*`."""
    return (name[:-1], "PREFIXED") if name.endswith("*") and name != "*" else (name, "LITERAL")


def _resources(options: argparse.Namespace) -> list[tuple[str, str]]:
    found = []
    for name, kind in RESOURCES.items():
        given = getattr(options, name)
        found += [(kind, each) for each in ([given] if isinstance(given, str) else given or [])]
    return found


def _filter(options: argparse.Namespace) -> list[ottla.AclFilter]:
    who = {
        "principal": options.principal,
        "host": options.host,
        "permission": "DENY" if options.deny else "ALLOW" if options.allow else "ANY",
    }
    found = []
    for operation in options.operation or ["ANY"]:
        for kind, given in _resources(options) or [("ANY", "")]:
            name, pattern = _pattern(given)
            if kind == "ANY":
                found.append(ottla.AclFilter(operation=operation, **who))
            else:
                pattern = "MATCH" if options.match else pattern
                found.append(ottla.AclFilter(kind, name, operation=operation, pattern_type=pattern, **who))
    return found


def _found(options: argparse.Namespace) -> list[ottla.AclBinding]:
    with nouns.admin(options) as admin:
        return sorted({rule for each in _filter(options) for rule in admin.describe_acls(each)})


def _list(options: argparse.Namespace) -> None:
    output.show(options, RULES, map(output.plain, _found(options)))


def _create(options: argparse.Namespace) -> None:
    resources = _resources(options)
    if not resources:
        options.parser.error(f"what is it about? say one of {', '.join(f'--{name}' for name in RESOURCES)}")
    rules = [
        ottla.AclBinding(
            kind,
            _pattern(name)[0],
            principal,
            operation,
            "DENY" if options.deny else "ALLOW",
            _pattern(name)[1],
            options.host or "*",
        )
        for principal in options.principal
        for kind, name in resources
        for operation in options.operation
    ]
    with nouns.admin(options) as admin:
        output.settle(options, lambda: admin.create_acls(rules))
    output.show(options, RULES, [output.plain(rule) for rule in rules if rule not in options.failures])


def _delete(options: argparse.Namespace) -> None:
    if not (options.principal or options.operation or options.host or _resources(options)):
        options.parser.error("which rules? say --principal, --operation, --host or a resource")
    if options.dry_run:
        _list(options)
        return
    filters = _filter(options)
    with nouns.admin(options) as admin:
        deleted = output.settle(options, lambda: admin.delete_acls(filters))
    rules = sorted({rule for rules in deleted.values() for rule in rules})
    output.show(options, RULES, map(output.plain, rules))
