"""`ottla cluster`."""

from __future__ import annotations

import argparse
import base64
import json
from typing import Any, cast
from uuid import UUID

import ottla
from ottla.cli import arguments, nouns, output
from ottla.errors import ArgumentError

BROKERS = output.columns("broker:number", "host", "port:number", "rack", "controller", "fenced")
FEATURES = output.columns("feature", "level:number", "min_supported:number", "max_supported:number")
QUORUM = [
    *output.columns("node:number", "role"),
    output.Column("log_end_offset", "number", "END"),
    *output.columns("lag:number"),
    output.Column("last_caught_up", "time", "CAUGHT UP"),
    *output.columns("directory_id", "endpoints"),
]
# The name that the listener of controllers has nearly everywhere.
CONTROLLER = "CONTROLLER"
DOWNGRADES = {None: "UPGRADE", "safe": "SAFE_DOWNGRADE", "unsafe": "UNSAFE_DOWNGRADE"}


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "cluster",
        "describe the cluster: its brokers, features and controllers",
        """
        ottla cluster
        ottla cluster features
        ottla cluster quorum
        """,
        _describe,
    )
    nouns.verb(verbs, "describe", "describe the cluster and its brokers", "ottla cluster describe", _describe)
    brokers = nouns.verb(
        verbs,
        "brokers",
        "list brokers",
        """
        ottla cluster brokers
        ottla cluster brokers --fenced               # also those that are registered, but not in service
        """,
        _brokers,
    )
    brokers.add_argument("--fenced", action="store_true", help="fenced brokers, too (Kafka 4.0 and later)")
    nouns.verb(verbs, "features", "list features and their levels", "ottla cluster features", _features).add_argument(
        "--broker", type=arguments.number(2**31 - 1), metavar="ID", help="ask this broker"
    )
    change = nouns.verb(
        verbs,
        "set-features",
        "change the levels of features",
        """
        ottla cluster set-features share.version=1 --dry-run
        ottla cluster set-features transaction.version=1 --downgrade safe
        """,
        _set_features,
    )
    change.add_argument("levels", nargs="+", type=_level, metavar="FEATURE=LEVEL", help="level 0 removes the feature")
    change.add_argument(
        "--downgrade", choices=["safe", "unsafe"], help="a level may fall; unsafe: metadata may get lost"
    )
    nouns.dry_run(change)
    nouns.verb(verbs, "quorum", "describe the quorum of the controllers", "ottla cluster quorum", _quorum)
    _add_voters(verbs)
    gone = nouns.verb(
        verbs,
        "unregister",
        "forget brokers, or a controller, that are gone for good",
        """
        ottla cluster unregister 4
        ottla cluster unregister 4 --controller
        """,
        _unregister,
    )
    gone.add_argument("ids", nargs="+", type=arguments.number(2**31 - 1), metavar="ID")
    gone.add_argument("--controller", action="store_true", help="they are controllers (Kafka 4.4 and later)")
    request = nouns.verb(
        verbs,
        "request",
        "send any request of the protocol, and print the response as JSON",
        """
        ottla cluster request DescribeCluster
        ottla cluster request ListGroups '{"typesFilter": ["share"]}' --broker 1
        ottla cluster request Metadata --version 9
        """,
        _request,
    )
    request.add_argument("api", type=arguments.name, metavar="API", help="such as DescribeCluster")
    request.add_argument("message", nargs="?", type=_json, metavar="JSON", help="fields of the request")
    request.add_argument("--version", type=arguments.number(2**15 - 1), metavar="N", help="(default: the highest)")
    request.add_argument("--broker", type=arguments.number(2**31 - 1), metavar="ID", help="(default: any)")


def _add_voters(verbs: Any) -> None:
    add = nouns.verb(
        verbs,
        "add-voter",
        "make a controller that only copies a voter of the quorum (Kafka 3.9 and later)",
        """
        ottla cluster add-voter 4 --endpoint kafka-4:9093
        ottla cluster add-voter 4 --endpoint CONTROLLER://kafka-4:9093 --directory 2b6e1f9c-0b1d-4b43-9c55-0f6a64a0e5c1
        """,
        _add_voter,
    )
    add.add_argument("id", type=arguments.number(2**31 - 1), metavar="ID")
    add.add_argument(
        "--endpoint",
        action="append",
        required=True,
        type=_endpoint,
        metavar="[LISTENER://]HOST:PORT",
        help=f"where it can be reached, may be repeated (default listener: {CONTROLLER})",
    )
    remove = nouns.verb(
        verbs,
        "remove-voter",
        "remove a controller from the voters of the quorum (Kafka 3.9 and later)",
        "ottla cluster remove-voter 4",
        _remove_voter,
    )
    remove.add_argument("id", type=arguments.number(2**31 - 1), metavar="ID")
    for parser in (add, remove):
        parser.add_argument(
            "--directory",
            type=_uuid,
            metavar="UUID",
            help="the id of its folder (default: the one that `ottla cluster quorum` lists)",
        )


def _endpoint(given: str) -> ottla.RaftEndpoint:
    listener, separator, place = arguments.name(given).rpartition("://")
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16 or (separator and not listener):
        raise argparse.ArgumentTypeError(f"{given!r} is not HOST:PORT or LISTENER://HOST:PORT")
    return ottla.RaftEndpoint(listener or CONTROLLER, host.strip("[]"), int(port))


def _uuid(given: str) -> UUID:
    """An id as `ottla cluster quorum` prints it, or in base64 as Kafka's tools do."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(f"{given}==")) if len(given) == 22 else UUID(given)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{given!r} is not a UUID") from None


def _level(given: str) -> tuple[str, int]:
    name, level = arguments.pair(given)
    return name, arguments.number(2**15 - 1)(level)


def _json(given: str) -> dict[str, Any]:
    try:
        message = json.loads(given)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"this is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise argparse.ArgumentTypeError("a message is an object of JSON")
    return message


def _controller(admin: ottla.Admin, described: ottla.ClusterDescription) -> int | None:
    """The active controller: of KRaft the quorum's leader, for which brokers themselves name a random broker."""
    try:
        return admin.describe_metadata_quorum().leader_id
    except (ottla.errors.UnsupportedError, ottla.errors.AuthorizationError):
        return described.controller.id if described.controller else None


def _rows(described: ottla.ClusterDescription, controller: int | None) -> list[dict[str, Any]]:
    return [
        {
            "broker": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "controller": node.id == controller,
            "fenced": node.is_fenced,
        }
        for node in sorted(described.nodes, key=lambda node: node.id)
    ]


def _describe(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        described = admin.describe_cluster()
        controller = _controller(admin, described)
    rows = _rows(described, controller)
    if options.shown_as == "json":
        rows = [{"cluster_id": described.cluster_id, "controller": controller, "brokers": rows}]
    elif options.shown_as == "table":
        print(f"cluster {described.cluster_id}  {len(rows)} broker{'' if len(rows) == 1 else 's'}")
    output.show(options, BROKERS, rows)


def _brokers(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        described = admin.describe_cluster(include_fenced_brokers=options.fenced)
        controller = _controller(admin, described)
    output.show(options, BROKERS, _rows(described, controller))


def _features(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.describe_features(broker=options.broker)
    rows = [
        {
            "feature": name,
            "level": found.finalized[name].max if name in found.finalized else 0,
            "min_supported": found.supported[name].min if name in found.supported else None,
            "max_supported": found.supported[name].max if name in found.supported else None,
        }
        for name in sorted({*found.supported, *found.finalized})
    ]
    output.show(options, FEATURES, rows)


def _set_features(options: argparse.Namespace) -> None:
    kind = DOWNGRADES[options.downgrade]
    updates = [ottla.FeatureUpdate(name, level, kind) for name, level in options.levels]
    with nouns.admin(options) as admin:
        output.settle(options, lambda: admin.update_features(updates, validate_only=options.dry_run))
    output.done(options, "feature", "set", [name for name, _ in options.levels])


def _quorum(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.describe_metadata_quorum()
    places = {node.id: [f"{each.host}:{each.port}" for each in node.endpoints] for node in found.nodes}
    end = max((each.log_end_offset for each in found.voters), default=0)
    rows = [
        {
            "node": each.id,
            "role": "leader" if each.id == found.leader_id and role == "voter" else role,
            "log_end_offset": each.log_end_offset,
            "lag": max(end - each.log_end_offset, 0),
            "last_caught_up": each.last_caught_up_timestamp,
            "directory_id": each.directory_id,
            "endpoints": places.get(each.id, []),
            "epoch": found.leader_epoch,
            "high_watermark": found.high_watermark,
        }
        for role, replicas in (("voter", found.voters), ("observer", found.observers))
        for each in replicas
    ]
    output.show(options, QUORUM, rows)


def _directory(admin: ottla.Admin, options: argparse.Namespace, *, votes: bool) -> UUID:
    """The folder of a controller: the one given, or the only one that the quorum knows."""
    if options.directory is not None:
        return cast("UUID", options.directory)
    quorum = admin.describe_metadata_quorum()
    replicas = quorum.voters if votes else quorum.observers
    found = [each.directory_id for each in replicas if each.id == options.id and each.directory_id is not None]
    if len(found) != 1:
        known = ", ".join(map(str, found)) or "none"
        role = "voter" if votes else "observer"
        raise ArgumentError(f"{role} {options.id} of the quorum has {known} as its folder: say --directory")
    return found[0]


def _add_voter(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        admin.add_raft_voter(options.id, _directory(admin, options, votes=False), options.endpoint)
    output.done(options, "controller", "votes", [str(options.id)])


def _remove_voter(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        admin.remove_raft_voter(options.id, _directory(admin, options, votes=True))
    output.done(options, "controller", "does not vote", [str(options.id)])


def _unregister(options: argparse.Namespace) -> None:
    what = "controller" if options.controller else "broker"
    with nouns.admin(options) as admin:
        call = admin.unregister_controller if options.controller else admin.unregister_broker
        for each in options.ids:
            try:
                call(each)
            except ottla.KafkaError as error:
                options.failures[f"{what} {each}"] = error
    gone = [str(each) for each in options.ids if f"{what} {each}" not in options.failures]
    output.done(options, what, "unregistered", gone)


def _request(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        response = admin.request(options.api, options.message, version=options.version, broker=options.broker)
    if options.shown_as == "json":
        output.show(options, [], [response])
    else:
        print(json.dumps(response, indent=2, ensure_ascii=False))
