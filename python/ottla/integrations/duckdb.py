"""A topic as a table of DuckDB: by the name of a variable, or as a view of a connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.integrations.arrow import TopicDataset

if TYPE_CHECKING:
    import duckdb

__all__ = ["TopicDataset", "view"]


def view(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    bootstrap_servers: str | list[str],
    topic: str,
    *,
    fields: Mapping[str, str] | None = None,
    **options: Any,
) -> duckdb.DuckDBPyRelation:
    """Make a view over a topic.

    Each query reads what the topic holds then, and no more of it than it needs.

    Args:
        connection: The connection. The view ends with it.
        name: The view's name.
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        fields: Columns to make of values that are JSON objects: DuckDB's types by the names of fields. They stand
            before the columns of the topic. A field that a value lacks is null, and so is one of another type. All
            fields of a value that is not a JSON object are null.
        **options: Arguments of `TopicDataset`, such as `since` and `isolation_level`.

    Returns:
        The view as a relation.

    Raises:
        duckdb.Error: A type is unknown.

    Example:
        ```python
        with duckdb.connect() as connection:
            view(connection, "flights", "localhost:9092", "flights", fields={"carrier": "VARCHAR", "delay": "DOUBLE"})
            print(connection.sql("SELECT carrier, avg(delay) FROM flights WHERE partition = 0 GROUP BY ALL"))
        ```
    """
    dataset = TopicDataset(bootstrap_servers, topic, **options)
    if fields is None:
        connection.register(name, dataset)
        return connection.sql(f"FROM {_quoted(name)}")
    source = f"{name} (topic)"
    connection.register(source, dataset)
    structure = json.dumps(dict(fields)).replace("'", "''")
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {_quoted(name)} AS "  # noqa: S608 all parts are quoted
        f"SELECT unnest(from_json(CASE WHEN json_valid(text) THEN text END, '{structure}')), * EXCLUDE (text) "
        f"FROM (SELECT try(decode(value)) AS text, * FROM {_quoted(source)})"
    )
    return connection.sql(f"FROM {_quoted(name)}")


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
