"""A topic as a lazy source of polars: `ottla.scan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ottla import Batch, Consumer, read
from ottla.integrations.polars_bounds import Bounds

if TYPE_CHECKING:
    import polars as pl


def scan(
    bootstrap_servers: str | list[str],
    topic: str,
    *,
    since: int | datetime | timedelta | None = None,
    until: int | datetime | timedelta | None = None,
    offsets: range | Mapping[int, range] | None = None,
    config: Mapping[str, Any] | None = None,
    **properties: Any,
) -> Any:
    """Return a topic as a `polars.LazyFrame`, which is read when it is collected.

    Each `collect` reads what the topic holds then, and no more of it than the query needs. Columns that the query does
    not use are not built. Comparisons of `partition` and `offset` with values select partitions and offsets, a lower
    bound of `timestamp` becomes the first offset of each partition, and `head` ends the read. An upper bound of
    `timestamp` filters rows but bounds nothing, since records need not be in the order of their times: use `until`.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        since: As for `ottla.read`.
        until: As for `ottla.read`.
        offsets: As for `ottla.read`.
        config: Properties of the consumer by Kafka's names, such as `{"security.protocol": "SSL"}`.
        **properties: The same properties as keywords.

    Returns:
        A lazy frame with the columns of `ottla.read`: `key`, `value`, `topic`, `partition`, `offset`, `timestamp`,
        `timestampType` and `headers`.

    Raises:
        ImportError: polars or pyarrow is not installed. Other errors are those of `ottla.read`, when it is collected.

    Example:
        ```python
        flights = ottla.scan("localhost:9092", "flights")
        print(flights.filter(pl.col("partition") == 0, pl.col("offset") >= 1000).select("value").head(10).collect())
        ```
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    schema = Batch.concat([]).to_polars().schema

    def frames(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        limit: int | None,
        size: int | None,  # noqa: ARG001 it is a hint
    ) -> Iterator[pl.DataFrame]:
        wanted = list(schema) if columns is None else columns
        bounds = Bounds(offsets, since)
        tested: list[str] = []
        if predicate is not None:
            tested = [name for name in predicate.meta.root_names() if name not in wanted]
            bounds.narrow(predicate, lambda: _partitions(bootstrap_servers, topic, config, properties))
        reader = read(
            bootstrap_servers,
            topic,
            since=bounds.since,
            until=until,
            offsets=bounds.offsets,
            stream=True,
            columns=[*wanted, *tested],
            config=config,
            **properties,
        )
        for batch in reader:
            frame = pl.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate).select(wanted)
            if limit is not None:
                frame, limit = frame.head(limit), limit - min(limit, len(frame))
            yield frame
            if limit == 0:
                break

    return register_io_source(frames, schema=schema)


def _partitions(
    servers: str | list[str], topic: str, config: Mapping[str, Any] | None, properties: Mapping[str, Any]
) -> list[int]:
    with Consumer(servers, config=config, **properties) as consumer:
        return consumer.partitions_for(topic)
