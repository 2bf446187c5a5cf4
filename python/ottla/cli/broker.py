"""`ottla broker`."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import ottla
from ottla.cli import arguments, output, settings, signals
from ottla.testing._certificates import LOOPBACK
from ottla.testing._listeners import FORM


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "broker",
        "run the embedded broker until Ctrl-C",
        """
        ottla broker                                                           # in memory, on port 9092
        ottla broker --topic flights:4 --topic audit --data-dir ./kafka-data   # keeps its log
        ottla broker --nodes 3 --topic flights:6                               # a cluster, on ports 9092 to 9094
        ottla broker --as-version 0.10.2                                       # speaks as a broker of that release
        ottla broker --port 0 --config auto.create.topics.enable=false         # prints which port it took
        ottla broker --registry                                                # with a schema registry, on port 8081
        ottla config broker                                                    # lists what --config may set

        with security, for tests of your own set-up:
          ottla broker --user alice:alice-secret                               # SASL_PLAINTEXT: PLAIN and SCRAM
          ottla broker --make-certificates ./tls --user alice:alice-secret     # SASL_SSL; clients trust ./tls/ca.pem
          ottla broker --make-certificates ./tls --client-certificate alice \\
              --listener "SSL://127.0.0.1:9093 client-auth=required principal=cn"   # mTLS: ./tls/client-*.pem
          ottla broker --listener PLAINTEXT://127.0.0.1:9092 --super-user ANONYMOUS \\
              --listener "SASL_PLAINTEXT://127.0.0.1:9094 mechanisms=SCRAM-SHA-512" --user alice:alice-secret \\
              --acl "alice read,write topic:flights-*" --acl "alice read group:*" \\
              --quota "user:alice producer_byte_rate=1048576"
        """,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=arguments.number(2**16 - 1),
        default=9092,
        help="port to listen on, 0 for a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--nodes",
        type=arguments.number(100),
        default=1,
        help="brokers of the cluster; several take the ports from --port on, and keep their logs in memory "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--as-version",
        metavar="RELEASE",
        help="release of Kafka to speak as, such as 0.9.0 or 2.8 (default: the newest)",
    )
    parser.add_argument("--data-dir", metavar="FOLDER", help="where to keep the log; without it, in memory")
    parser.add_argument(
        "--topic",
        action="append",
        type=arguments.new_topic,
        default=[],
        metavar="NAME:PARTITIONS",
        help="topic to create, may be repeated",
    )
    parser.add_argument(
        "--registry",
        nargs="?",
        const=8081,
        type=arguments.number(2**16 - 1),
        metavar="PORT",
        help="run a schema registry with Confluent's REST API, too, on PORT or 8081; 0 takes a free one",
    )
    _security(parser.add_argument_group("security"))
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="how it prints where it listens; json is the envelope of other commands (default: %(default)s)",
    )
    arguments.config(parser, "setting of the broker, may be repeated; `ottla config broker` lists them")
    parser.set_defaults(run=_broker)


def _security(group: argparse._ArgumentGroup) -> None:
    def add(flag: str, **details: Any) -> None:
        group.add_argument(flag, action="append", default=[], **details)

    add(
        "--listener",
        metavar="LINE",
        help=f"{FORM}; may be repeated, and replaces --host and --port. Without it there is one listener: SASL if "
        "there are users or keys, TLS if there is a certificate",
    )
    add(
        "--user",
        type=_secret,
        metavar="NAME:PASSWORD",
        help="user for PLAIN and SCRAM, may be repeated. Others on this machine can see it: give no real password",
    )
    group.add_argument(
        "--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="the server's certificate and key: files in PEM"
    )
    group.add_argument("--tls-client-ca", metavar="FILE", help="authority of client certificates, in PEM")
    group.add_argument(
        "--make-certificates",
        metavar="FOLDER",
        help="make a throw-away authority (ca.pem) and the server's certificate there, and use them",
    )
    add("--client-certificate", metavar="NAME", help="with --make-certificates: a client's certificate for NAME too")
    add(
        "--acl",
        metavar="LINE",
        help="[allow|deny] PRINCIPAL OPERATION[,OPERATION] TYPE:NAME [from HOST], may be repeated; a name that ends "
        "with * is a prefix. What is not allowed is then denied",
    )
    add("--super-user", metavar="NAME", help="user that may do everything; ANONYMOUS is one that does not authenticate")
    add(
        "--quota",
        metavar="LINE",
        help="[user:NAME] [client-id:NAME] KEY=VALUE, may be repeated; NAME * is the default, and KEY is "
        "producer_byte_rate, consumer_byte_rate or request_percentage",
    )
    group.add_argument("--jwks", metavar="FILE", help="public keys of bearer tokens (OAUTHBEARER), a JSON Web Key Set")
    add("--aws-key", type=_secret, metavar="ID:SECRET", help="AWS access key for AWS_MSK_IAM, may be repeated")


def _secret(given: str) -> tuple[str, str]:
    """The type of a NAME:SECRET; errors do not show the secret."""
    name, separator, secret = arguments.name(given).partition(":")
    if not name or not separator or not secret:
        raise argparse.ArgumentTypeError("a name, a colon and a secret are needed, as in alice:alice-secret")
    return name, secret


def _tls(options: argparse.Namespace) -> ottla.testing.Certificates | ottla.testing.Identity | None:
    if options.make_certificates:
        certificates = ottla.testing.Certificates(options.make_certificates, hosts=[*LOOPBACK, options.host])
        lines = [f"clients trust {certificates.ca}"]
        for name in options.client_certificate:
            identity = certificates.client(name)
            lines.append(f"{name} has {identity.certificate} and {identity.key}")
        if options.format == "text":
            print("\n".join(lines), flush=True)
        return certificates
    if options.client_certificate:
        raise ottla.errors.ConfigError("--client-certificate needs --make-certificates, whose authority signs it")
    if options.tls:
        certificate, key = map(Path, options.tls)
        return ottla.testing.Identity(certificate, key, Path(options.tls_client_ca or certificate))
    return None


def _broker(options: argparse.Namespace) -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, *signals.terminations()):
        signal.signal(number, lambda *_: stop.set())
    registry = None if options.registry is None else ottla.testing.Registry(host=options.host, port=options.registry)
    broker = ottla.testing.Broker(
        nodes=options.nodes,
        as_version=options.as_version,
        topics={name: partitions or 1 for name, partitions in options.topic},
        data_dir=options.data_dir,
        host=options.host,
        port=options.port,
        listeners=options.listener,
        tls=_tls(options),
        users=dict(options.user),
        acls=options.acl or None,
        super_users=options.super_user,
        quotas=options.quota,
        jwks=Path(options.jwks).read_text(encoding="utf-8-sig") if options.jwks else None,
        aws_keys=dict(options.aws_key),
        config=settings.properties(options),
        print_events=True,
    )
    with broker, registry or contextlib.nullcontext():
        if registry is not None:
            print(f"schema registry listens on {registry.url}", flush=True)
        where = broker.bootstrap_servers
        if len(listeners := broker.listeners) > 1 or listeners[0].protocol != "PLAINTEXT":
            where = ", ".join(f"{each.bootstrap_servers} ({each.name})" for each in listeners)
        if options.format == "json":
            options.shown_as = "json"
            rows = [
                {"listener": each.name, "protocol": each.protocol, "bootstrap_servers": each.bootstrap_servers}
                for each in listeners
            ]
            output.show(options, [], rows)
            sys.stdout.flush()
        else:
            print(f"ottla broker listens on {where}; Ctrl-C ends it", flush=True)
        # In slices, since some platforms deliver signals only between waits.
        while not stop.wait(0.5):
            pass
