"""`ottla sql`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, output, settings, times
from ottla.cli.parser import near
from ottla.cli.readable import readable
from ottla.errors import ArgumentError, ConfigError, NotFoundError

if TYPE_CHECKING:
    import argparse

# Records that show which fields the values of a topic have.
SAMPLE = 200
TOPIC_COLUMNS = {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"}
NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UINTEGER", "DOUBLE", "FLOAT", "DECIMAL"}


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "sql",
        "query topics with SQL (DuckDB)",
        """
        ottla sql 'select partition, count(*) from orders group by all'
        ottla sql 'select item, sum(price) from orders group by item' --since 1h      # fields of JSON values
        ottla sql 'select decode(value) from "orders-eu" where "offset" >= 1000' --format csv
        ottla sql --file report.sql --format json

        A table is a topic. Its columns are key, value, topic, partition, "offset", timestamp, timestampType and
        headers. If the newest values are JSON objects, their fields are columns too, before these. Conditions on
        partition, "offset" and timestamp, and LIMIT, are pushed down to the brokers. It needs pip install 'ottla[cli]'.
        """,
    )
    arguments.client(parser)
    arguments.output(parser)
    parser.add_argument("query", nargs="?", metavar="QUERY")
    parser.add_argument("--file", metavar="FILE", help="read the query from a file; - is standard input")
    parser.add_argument("--since", type=times.since, metavar="TIME", help=f"only records since {times.SINCE}")
    parser.add_argument("--raw", action="store_true", help="do not look for fields in values")
    parser.add_argument("--uncommitted", action="store_true", help="records of open and aborted transactions, too")
    parser.set_defaults(run=_sql)


def _sql(options: argparse.Namespace) -> None:
    if bool(options.query) == bool(options.file):
        options.parser.error("say either QUERY or --file")
    try:
        import duckdb
        import pyarrow as pa  # noqa: F401 the integration needs it
    except ModuleNotFoundError as error:
        raise ConfigError(f"ottla sql needs {error.name}: pip install 'ottla[cli]'") from None
    query = options.query or _read(options.file)
    with duckdb.connect() as connection:
        try:
            for name in sorted(connection.get_table_names(query)):
                _add_view(options, connection, name)
            found = connection.sql(query)
            names = [] if found is None else found.columns
            types = [] if found is None else list(map(str, found.types))
            rows = [] if found is None else found.fetchall()
        except duckdb.Error as error:
            raise ArgumentError(str(error)) from None
    shown = [
        output.Column(name, "number" if kind.partition("(")[0] in NUMBERS else "text", name)
        for name, kind in zip(names, types, strict=True)
    ]
    output.show(options, shown, [dict(zip(names, map(_plain, row), strict=True)) for row in rows])


def _read(file: str) -> str:
    import sys
    from pathlib import Path

    return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")


def _add_view(options: argparse.Namespace, connection: Any, name: str) -> None:
    from ottla.integrations.duckdb import view

    servers, config = settings.bootstrap(options), settings.client_config(options, "consumer")
    config["isolation.level"] = "read_uncommitted" if options.uncommitted else "read_committed"
    try:
        fields = None if options.raw else _fields(ottla.read(servers, name, last=SAMPLE, config=config))
    except NotFoundError:
        with nouns.admin(options) as admin:
            names = admin.list_topics(internal=True)
        raise NotFoundError(f"topic {name} does not exist{near(name, names)}") from None
    view(connection, name, servers, name, fields=fields, since=options.since, config=config)


def _fields(batch: ottla.Batch) -> dict[str, str] | None:
    """The fields of values that are JSON objects, with DuckDB's types; None if a value is something else."""
    found: dict[str, set[str]] = {}
    for record in batch:
        if record.value is None:
            continue
        try:
            value = json.loads(record.value)
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        for key, each in value.items():
            if key not in TOPIC_COLUMNS and each is not None:
                found.setdefault(key, set()).add(_type(each))
    return {key: _common(types) for key, types in found.items()} or None


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -(2**63) <= value < 2**63 else "DOUBLE"
    if isinstance(value, float):
        return "DOUBLE"
    return "VARCHAR" if isinstance(value, str) else "JSON"


def _common(types: set[str]) -> str:
    if len(types) == 1:
        return next(iter(types))
    return "DOUBLE" if types <= {"BIGINT", "DOUBLE"} else "JSON" if "JSON" in types else "VARCHAR"


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return readable(bytes(value))
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
