"""`ottla users`."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, output, profiles
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse

CREDENTIALS = output.columns("user", "mechanism", "iterations:number")
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "users",
        "list, set and delete credentials of users for SCRAM",
        """
        ottla users
        ottla users set alice                 # prompts for the password
        ottla users delete alice
        """,
        _list,
        users=[],
    )
    listing = nouns.verb(verbs, "list", "list users and their credentials", "ottla users list alice", _list)
    listing.add_argument("users", nargs="*", type=arguments.name, metavar="USER")
    change = nouns.verb(
        verbs,
        "set",
        "set the password of a user",
        """
        ottla users set alice                                          # prompts for the password
        ottla users set alice --password-from '${ALICE_PASSWORD}'      # a variable; ${keyring:...} and ${file:...}, too
        ottla users set alice --mechanism SCRAM-SHA-256 < password.txt
        """,
        _set,
    )
    change.add_argument("user", type=arguments.name, metavar="USER")
    change.add_argument(
        "--mechanism",
        choices=MECHANISMS,
        default="SCRAM-SHA-512",
        help="(default: %(default)s)",
    )
    change.add_argument("--iterations", type=arguments.count, default=8192, metavar="N", help="(default: %(default)s)")
    change.add_argument(
        "--password-from",
        metavar="REFERENCE",
        help="${NAME} of the environment, ${keyring:SERVICE/USER} or ${file:PATH}; without it, a terminal shows "
        "a prompt, and a line of standard input is read otherwise",
    )
    delete = nouns.verb(
        verbs,
        "delete",
        "delete credentials of users",
        """
        ottla users delete alice                                       # all that she has
        ottla users delete alice bob --mechanism SCRAM-SHA-256
        """,
        _delete,
    )
    delete.add_argument("users", nargs="+", type=arguments.name, metavar="USER")
    delete.add_argument("--mechanism", choices=MECHANISMS, help="only this one")


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = output.settle(options, lambda: admin.describe_user_scram_credentials(options.users or None))
    rows = [{"user": user, **output.plain(each)} for user, credentials in sorted(found.items()) for each in credentials]
    output.show(options, CREDENTIALS, rows)


def _password(options: argparse.Namespace) -> str:
    if options.password_from is not None:
        if not profiles.SECRET.fullmatch(options.password_from):
            raise ArgumentError("--password-from is a reference such as ${ALICE_PASSWORD}, not the password itself")
        return profiles.resolve({"--password-from": options.password_from})["--password-from"]
    if sys.stdin.isatty():
        password = getpass.getpass(f"new password of {options.user}: ")
        if getpass.getpass("again: ") != password:
            raise ArgumentError("the two passwords differ")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ArgumentError("the password is empty")
    return password


def _set(options: argparse.Namespace) -> None:
    password = _password(options)
    change = ottla.ScramUpsertion(options.user, options.mechanism, password, options.iterations)
    with nouns.admin(options) as admin:
        output.settle(options, lambda: admin.alter_user_scram_credentials([change]))
    output.done(options, "user", f"{options.mechanism} set", [options.user])


def _delete(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        has = {user: [options.mechanism] for user in options.users}
        if options.mechanism is None:
            found = output.settle(options, lambda: admin.describe_user_scram_credentials(options.users))
            has = {user: [each.mechanism for each in credentials] for user, credentials in found.items()}
        gone = [ottla.ScramDeletion(user, each) for user, mechanisms in has.items() for each in mechanisms]
        if gone:
            output.settle(options, lambda: admin.alter_user_scram_credentials(gone))
    output.done(options, "user", "deleted", has)
