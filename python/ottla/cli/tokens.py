"""`ottla tokens`."""

from __future__ import annotations

import argparse
import base64
import binascii
from typing import TYPE_CHECKING, Any

from ottla.cli import arguments, nouns, output, times

if TYPE_CHECKING:
    from ottla import DelegationToken

TOKENS = output.columns("token", "owner", "requester", "renewers", "issued:time", "expires:time", "ends:time")
CREATED = output.columns("token", "owner", "expires:time", "ends:time", "hmac")
EXPIRES = output.columns("expires:time")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "tokens",
        "list, create, renew and expire delegation tokens",
        """
        ottla tokens
        ottla tokens create --renewer bob --lifetime 1d
        """,
        _list,
        owner=[],
    )
    listing = nouns.verb(verbs, "list", "list tokens, without their secrets", "ottla tokens list --owner alice", _list)
    listing.add_argument("--owner", action="append", default=[], type=_principal, metavar="NAME", help="only of these")
    create = nouns.verb(
        verbs,
        "create",
        "create a token, and print it with its secret",
        """
        ottla tokens create
        ottla tokens create --owner alice --renewer bob --lifetime 1d
        """,
        _create,
    )
    create.add_argument("--owner", type=_principal, metavar="NAME", help="whom it stands for (default: this client)")
    create.add_argument(
        "--renewer", action="append", default=[], type=_principal, metavar="NAME", help="who may renew it, too"
    )
    create.add_argument("--lifetime", type=times.duration, metavar="DURATION", help="at most (default: the broker's)")
    renew = nouns.verb(verbs, "renew", "make a token live longer", "ottla tokens renew HMAC --period 1d", _renew)
    expire = nouns.verb(
        verbs, "expire", "make a token end", "ottla tokens expire HMAC               # at once", _expire
    )
    for parser, default in ((renew, "as long as the broker allows"), (expire, "at once")):
        parser.add_argument("hmac", type=_hmac, metavar="HMAC", help="the token's secret, as `create` prints it")
        parser.add_argument(
            "--period", type=times.duration, metavar="DURATION", help=f"from now on (default: {default})"
        )


def _principal(given: str) -> tuple[str, str]:
    kind, colon, name = arguments.name(given).partition(":")
    return (kind, name) if colon else ("User", kind)


def _hmac(given: str) -> bytes:
    try:
        return base64.b64decode(given, validate=True)
    except binascii.Error:
        raise argparse.ArgumentTypeError("the HMAC is not base64") from None


def _row(token: DelegationToken) -> dict[str, Any]:
    def principal(given: tuple[str, str] | None) -> str | None:
        return None if given is None else ":".join(given)

    return {
        "token": token.id,
        "owner": principal(token.owner),
        "requester": principal(token.requester),
        "renewers": [principal(each) for each in token.renewers],
        "issued": token.issued,
        "expires": token.expires,
        "ends": token.ends,
    }


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.describe_delegation_tokens(options.owner or None)
    output.show(options, TOKENS, map(_row, found))


def _create(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        token = admin.create_delegation_token(
            owner=options.owner, renewers=options.renewer, max_lifetime=options.lifetime
        )
    output.show(options, CREATED, [{**_row(token), "hmac": token.hmac}])


def _renew(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        expires = admin.renew_delegation_token(options.hmac, options.period)
    output.show(options, EXPIRES, [{"expires": expires}])


def _expire(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        expires = admin.expire_delegation_token(options.hmac, options.period)
    output.show(options, EXPIRES, [{"expires": expires}])
