"""`ottla config`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from ottla import _ottla
from ottla.cli import arguments, output, profiles, settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

ROLES = ("producer", "consumer", "share-consumer", "admin", "broker")
PROFILES = output.columns("profile", "default", "bootstrap_servers", "files")
SETTINGS = output.columns("property", "value", "source")
HIDDEN = "(hidden)"


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "config",
        "print the properties of clients and of the embedded broker, and your profiles",
        """
        ottla config producer     # what --config of `ottla produce` may set, and ottla.Producer(...)
        ottla config consumer
        ottla config broker       # what --config of `ottla broker` may set, and ottla.testing.Broker(config=...)

        profiles of ottla.toml:
          ottla config example > ottla.toml       # a file to begin with
          ottla config profiles                   # those that there are, and their files
          ottla config show                       # what applies here, and where it comes from; secrets are hidden
          ottla config show --profile production
        """,
    )
    arguments.client(parser)
    arguments.output(parser)
    parser.add_argument(
        "what",
        nargs="?",
        choices=[*ROLES, "profiles", "show", "example"],
        help="only the properties of this one; or what there is about profiles",
    )
    parser.set_defaults(run=_config)


def _config(options: argparse.Namespace) -> None:
    if options.what == "example":
        print(profiles.EXAMPLE, end="")
    elif options.what == "profiles":
        _profiles(options)
    elif options.what == "show":
        _show(options)
    else:
        _properties(options)


def _properties(options: argparse.Namespace) -> None:
    rows = [
        row
        for row in [*_ottla.properties(), *_ottla.broker_properties()]
        if options.what is None or options.what in row["roles"]
    ]
    if options.shown_as != "table":
        output.show(options, output.columns("name", "roles", "kind", "default", "doc"), map(dict, rows))
        return
    for row in rows:
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


def _profiles(options: argparse.Namespace) -> None:
    default, found = profiles.read()
    output.show(
        options,
        PROFILES,
        [
            {
                "profile": name,
                "default": name == default,
                "bootstrap_servers": profile.properties.get("bootstrap.servers"),
                "files": list(map(str, profile.files)),
            }
            for name, profile in found.items()
        ],
    )


def _show(options: argparse.Namespace) -> None:
    secret = {row["name"] for row in _ottla.properties() if row["kind"] == "secret"}
    profile = settings.profile(options)
    rows: dict[str, dict[str, Any]] = {}

    def place(properties: Iterable[tuple[str, str]], source: Any) -> None:
        for name, value in properties:
            # A reference such as ${KAFKA_PASSWORD} is no secret, and shows where the secret is expected.
            hide = name in secret and not (profiles.SECRET.fullmatch(value) and value != "$${")
            rows[name] = {"property": name, "value": HIDDEN if hide else value, "source": source(name)}

    place([("bootstrap.servers", arguments.DEFAULT_BOOTSTRAP)], lambda _: "default")
    place(profile.properties.items(), lambda _: f"profile {profile.name}")
    environment = profiles.of_environment()
    place(environment.items(), profiles.variable)
    place(settings.properties(options).items(), lambda _: "--config")
    place([("bootstrap.servers", given) for given in settings.bootstraps(options)], lambda _: "--bootstrap")
    output.show(options, SETTINGS, [rows[name] for name in sorted(rows)])
