"""The command line: `ottla broker`, `topics`, `produce`, `consume`, `config`."""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import sys
import textwrap
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import ottla
from ottla import _ottla

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
# Milliseconds: someone who types a wrong address should not wait a minute for the answer.
PATIENCE_MS = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The command line, without the program's name; `sys.argv` if not given.

    Returns:
        The exit code: 0 if all went well, 1 if the command failed, 130 after Ctrl-C. Wrong usage exits with 2.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ottla.KafkaError, OSError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla",
        description="Kafka from the command line.",
        epilog=_text(
            """
            try it, in two terminals:
              ottla broker --topic flights:4
              echo hello | ottla produce -t flights
              ottla consume -t flights --beginning --format json --max 1
            """
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ottla {ottla.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _broker_command(commands)
    _topics_command(commands)
    _produce_command(commands)
    _consume_command(commands)
    _config_command(commands)
    return parser


def _text(text: str) -> str:
    return textwrap.dedent(text).strip()


def _command(commands: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="examples:\n" + textwrap.indent(_text(examples), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _client_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-b",
        "--bootstrap",
        default="localhost:9092",
        metavar="HOST:PORT",
        help="brokers to ask for all others, separated by commas (default: %(default)s)",
    )
    _config_argument(parser, "property of the client, may be repeated; `ottla config` lists them")


def _config_argument(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--config", action="append", type=_pair, default=[], metavar="KEY=VALUE", help=text)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.partition(":")
    if not name or (partitions and not partitions.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME:PARTITIONS")
    return name, int(partitions or 1)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def _client_config(options: argparse.Namespace) -> dict[str, str]:
    return {"default.api.timeout.ms": str(PATIENCE_MS), **dict(options.config)}


# --- broker ---


def _broker_command(commands: Any) -> None:
    parser = _command(
        commands,
        "broker",
        "run the embedded broker until Ctrl-C",
        """
        ottla broker
        ottla broker --topic flights:4 --topic audit --data-dir ./kafka-data
        ottla broker --port 0 --config auto.create.topics.enable=false
        """,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=9092, help="port to listen on, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument("--data-dir", metavar="FOLDER", help="where to keep the log; without it, in memory")
    parser.add_argument(
        "--topic",
        action="append",
        type=_topic,
        default=[],
        metavar="NAME:PARTITIONS",
        help="topic to make, may be repeated",
    )
    _config_argument(parser, "setting of the broker by Kafka's name, may be repeated")
    parser.set_defaults(run=_broker)


def _broker(options: argparse.Namespace) -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ottla.testing.Broker(
        topics=dict(options.topic),
        data_dir=options.data_dir,
        host=options.host,
        port=options.port,
        config=dict(options.config),
        print_events=True,
    ) as broker:
        print(f"ottla broker listens on {broker.bootstrap_servers}; Ctrl-C ends it", flush=True)
        # In slices, for some platforms hand signals over only between waits.
        while not stop.wait(0.5):
            pass


# --- topics ---


def _topics_command(commands: Any) -> None:
    parser = commands.add_parser(
        "topics", help="list, create, delete and describe topics", description="Manage topics."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    listing = _command(actions, "list", "list the names of topics", "ottla topics list -b localhost:9092")
    listing.add_argument("--internal", action="store_true", help="with those that Kafka keeps for itself")
    listing.set_defaults(run=_list)

    create = _command(
        actions,
        "create",
        "create topics",
        """
        ottla topics create flights:4
        ottla topics create flights:4 audit --replication 3 --topic-config retention.ms=3600000
        """,
    )
    create.add_argument("topics", nargs="+", type=_topic, metavar="NAME:PARTITIONS")
    create.add_argument(
        "--replication", type=int, default=-1, help="replicas of each partition (default: the broker's)"
    )
    create.add_argument(
        "--topic-config", action="append", type=_pair, default=[], metavar="KEY=VALUE", help="property of the topics"
    )
    create.set_defaults(run=_create)

    delete = _command(actions, "delete", "delete topics and all their records", "ottla topics delete flights audit")
    delete.add_argument("topics", nargs="+", metavar="NAME")
    delete.set_defaults(run=_delete)

    describe = _command(actions, "describe", "describe topics and their partitions", "ottla topics describe flights")
    describe.add_argument("topics", nargs="+", metavar="NAME")
    describe.set_defaults(run=_describe)

    for action in (listing, create, delete, describe):
        _client_arguments(action)


def _admin(options: argparse.Namespace) -> ottla.Admin:
    return ottla.Admin(options.bootstrap, config=_client_config(options))


def _list(options: argparse.Namespace) -> None:
    with _admin(options) as admin:
        for name in admin.list_topics(internal=options.internal):
            print(name)


def _create(options: argparse.Namespace) -> None:
    config = dict(options.topic_config)
    with _admin(options) as admin:
        admin.create_topics([ottla.NewTopic(name, n, options.replication, config) for name, n in options.topics])


def _delete(options: argparse.Namespace) -> None:
    with _admin(options) as admin:
        admin.delete_topics(options.topics)


def _describe(options: argparse.Namespace) -> None:
    with _admin(options) as admin:
        for topic in admin.describe_topics(options.topics).values():
            print(f"{topic.name}  id {topic.id}  {len(topic.partitions)} partitions")
            for p in topic.partitions:
                print(f"  {p.partition:>4}  leader {p.leader}  replicas {p.replicas}  in sync {p.in_sync}")


# --- produce ---


def _produce_command(commands: Any) -> None:
    parser = _command(
        commands,
        "produce",
        "send each line of standard input as a record",
        """
        echo hello | ottla produce -t flights
        ottla produce -t flights --key-separator : < events.txt
        ottla produce -t flights --config compression.type=zstd < events.txt
        """,
    )
    _client_arguments(parser)
    parser.add_argument("-t", "--topic", required=True, help="where to send them")
    parser.add_argument("--key-separator", metavar="TEXT", help="what divides the key from the value, in each line")
    parser.set_defaults(run=_produce)


def _produce(options: argparse.Namespace) -> None:
    separator = os.fsencode(options.key_separator) if options.key_separator else None
    config = {"max.block.ms": str(PATIENCE_MS), **dict(options.config)}
    sent = 0
    pending: deque[ottla.Delivery] = deque()
    with ottla.Producer(options.bootstrap, config=config) as producer:
        for line in sys.stdin.buffer:
            value, key = line.rstrip(b"\r\n"), None
            if separator:
                before, found, after = value.partition(separator)
                key, value = (before, after) if found else (None, value)
            pending.append(producer.send(options.topic, value, key=key))
            while pending and pending[0].done():
                pending.popleft().result()
                sent += 1
        producer.flush()
        for delivery in pending:
            delivery.result()
            sent += 1
    print(f"{sent} records sent to {options.topic}", file=sys.stderr)


# --- consume ---


def _consume_command(commands: Any) -> None:
    parser = _command(
        commands,
        "consume",
        "print the records of a topic until Ctrl-C",
        """
        ottla consume -t flights
        ottla consume -t flights --beginning --max 10 --format json
        ottla consume -t flights --beginning --idle 5 > flights.txt
        """,
    )
    _client_arguments(parser)
    parser.add_argument("-t", "--topic", required=True, help="what to read")
    parser.add_argument("--beginning", action="store_true", help="start at the first record instead of after the last")
    parser.add_argument("--max", type=_count, metavar="N", help="stop after so many records")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="stop when nothing came for so long")
    parser.add_argument(
        "--format",
        choices=["raw", "json"],
        default="raw",
        help="raw: each value and a newline; json: each record as an object on a line (default: %(default)s)",
    )
    parser.set_defaults(run=_consume)


def _consume(options: argparse.Namespace) -> None:
    config = _client_config(options)
    if options.beginning:
        config["auto.offset.reset"] = "earliest"
    show = _json if options.format == "json" else _raw
    left = options.max
    with ottla.Consumer(options.bootstrap, topics=[options.topic], config=config) as consumer:
        while left is None or left > 0:
            batch = consumer.poll(options.idle, max_records=left)
            if options.idle is not None and not len(batch):
                return
            sys.stdout.buffer.writelines(map(show, batch))
            sys.stdout.buffer.flush()
            if left is not None:
                left -= len(batch)


def _raw(record: ottla.Record) -> bytes:
    return (record.value or b"") + b"\n"


def _json(record: ottla.Record) -> bytes:
    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _readable(record.key),
        "value": _readable(record.value),
        "headers": [[name, _readable(value)] for name, value in record.headers],
    }
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _readable(data: bytes | None) -> str | dict[str, str] | None:
    """Text where the bytes are text, else their base64 in an object."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


# --- config ---


def _config_command(commands: Any) -> None:
    parser = _command(
        commands,
        "config",
        "print the properties of a client",
        """
        ottla config producer
        ottla config consumer
        """,
    )
    parser.add_argument(
        "client", nargs="?", choices=["producer", "consumer", "admin"], help="only those of this client"
    )
    parser.set_defaults(run=_config)


def _config(options: argparse.Namespace) -> None:
    for row in _ottla.properties():
        if options.client is None or options.client in row["roles"]:
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
