"""A part of a topic, read in one call: for asyncio."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Unpack

from ottla._hints import ConfigValue, Servers, keywords
from ottla._ottla import Batch
from ottla._reading import checked, not_found, of_admin, steps
from ottla.aio._admin import Admin
from ottla.aio._consumer import Consumer
from ottla.errors import KafkaError, NotFoundError


async def read(
    bootstrap_servers: Servers,
    topic: str,
    *,
    last: int | None = None,
    since: int | datetime | timedelta | None = None,
    until: int | datetime | timedelta | None = None,
    config: Mapping[str, ConfigValue] | None = None,
    **properties: Unpack[keywords.ConsumerProperties],
) -> Batch:
    """Reads what a topic holds now, or a part of it, as one batch.

    It does not wait for new records. A time is milliseconds since 1970 UTC, a datetime with a time zone, or a timedelta
    before now. In each partition it means the first record at or after it: where records are not in the order of their
    times, some may be on the other side.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        last: The most records to return: the newest of all partitions, by their timestamps. Partitions with equal
            timestamps take turns. Where offsets have no records, as after compaction or in transactions, it reads from
            further back.
        since: The time from which on records are read; None reads from the beginning.
        until: The time before which records are read; None reads to the end.
        config: Properties of the consumer by Kafka's names, such as `{"security.protocol": "SSL"}`.
        **properties: The same properties as keywords. With `isolation_level="read_committed"`, the end is where the
            first open transaction begins.

    Returns:
        The records, by partition and offset. All of them are in memory.

    Raises:
        ArgumentError: `last` or a time is negative or of a wrong type, a datetime has no time zone, there are several
            topics, or a group is given.
        ConfigError: A property is unknown or has a value that is not allowed.
        NotFoundError: The topic does not exist; the error names the nearest one.
        KafkaTimeoutError: No further records came for `default.api.timeout.ms`.
        KafkaError: Any other error of polls.

    Example:
        ```python
        newest = await aio.read("localhost:9092", "flights", last=1000)
        print(newest.to_polars())
        last_hour = await aio.read("localhost:9092", "flights", since=timedelta(hours=1))
        print(last_hour.to_arrow(["value"]))
        ```
    """
    config = checked(topic, last, {"since": since, "until": until}, config, properties)
    try:
        async with Consumer(bootstrap_servers, config=config, **properties) as consumer:
            reading = steps(consumer._core, topic, last, since, until)  # noqa: SLF001 what both facades share
            result: Any = None
            while True:
                try:
                    operation = reading.send(result)
                except StopIteration as done:
                    batch: Batch = done.value
                    return batch
                result = await operation
    except NotFoundError as error:
        topics: list[str] = []
        # An error of the listing must not hide the first error.
        with contextlib.suppress(KafkaError):
            async with Admin(bootstrap_servers, config=of_admin(config, properties)) as admin:
                topics = await admin.list_topics()
        raise not_found(error, topics) from error
