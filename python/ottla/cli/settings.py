"""What a command's clients are configured with: the command line, the environment and a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla import _ottla
from ottla.cli import arguments, profiles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

# Milliseconds: someone who types a wrong address should not wait a minute for the error.
PATIENCE_MS = 10_000


def profile(options: argparse.Namespace) -> profiles.Profile:
    """The profile that the command line chose."""
    return profiles.choose(next(reversed(arguments.given(options, "profile")), None))


def bootstraps(options: argparse.Namespace) -> list[str]:
    """All values of `--bootstrap`, in their order."""
    return arguments.given(options, "bootstrap")


def bootstrap(options: argparse.Namespace) -> str:
    """The addresses of brokers: the last one given, the environment's, the profile's, or the default."""
    if given := bootstraps(options):
        return given[-1]
    found = {**profile(options).properties, **profiles.of_environment()}
    servers = profiles.resolve({name: found[name] for name in found if name == "bootstrap.servers"})
    return servers.get("bootstrap.servers", arguments.DEFAULT_BOOTSTRAP)


def properties(options: argparse.Namespace) -> dict[str, str]:
    """The pairs of every `--config`."""
    return dict(arguments.given(options, "config"))


def client_config(options: argparse.Namespace, role: str) -> dict[str, str]:
    """The properties of a client, with the command line's patience.

    Those of the profile and of the environment may be about other clients too: those that this one lacks are left out.

    Args:
        options: The command line.
        role: `"producer"`, `"consumer"`, `"share-consumer"` or `"admin"`.
    """
    shared = {**profile(options).properties, **profiles.of_environment()}
    return _of_role(shared, role, properties(options))


def _of_role(shared: Mapping[str, str], role: str, given: Mapping[str, str]) -> dict[str, str]:
    known = {row["name"] for row in _ottla.properties() if role in row["roles"]} - {"bootstrap.servers"}
    found = profiles.resolve({name: value for name, value in shared.items() if name in known})
    return {"default.api.timeout.ms": str(PATIENCE_MS), **found, **given}


class Target(NamedTuple):
    """A cluster that a command writes to.

    Attributes:
        bootstrap: Its bootstrap brokers.
        properties: Properties of its clients.
    """

    bootstrap: str
    properties: Mapping[str, str]

    def of(self, role: str) -> dict[str, str]:
        """The properties that a client of this role has."""
        return _of_role(self.properties, role, {})


def target(options: argparse.Namespace) -> Target:
    """The cluster of `--to-bootstrap`, `--to-profile` and `--to-config`; the command's own without them."""
    if options.to_profile:
        shared = dict(profiles.choose(options.to_profile).properties)
        servers = profiles.resolve({"bootstrap.servers": shared.get("bootstrap.servers", arguments.DEFAULT_BOOTSTRAP)})
        own = servers["bootstrap.servers"]
    else:
        shared = {**profile(options).properties, **profiles.of_environment(), **properties(options)}
        own = bootstrap(options)
    return Target(options.to_bootstrap or own, {**shared, **dict(options.to_config)})


def admin_config(options: argparse.Namespace) -> dict[str, str]:
    """The properties of another client that an admin client has too."""
    known = {row["name"] for row in _ottla.properties() if "admin" in row["roles"]}
    return {name: value for name, value in client_config(options, "admin").items() if name in known}
