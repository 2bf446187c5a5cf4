# Written by scripts/unasync.py from python/ottla/aio/_read.py. Change that file, and run the script.
"""A part of a topic, read in one call: for threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, Unpack, overload

from ottla._hints import ConfigValue, Servers, keywords
from ottla._ottla import Batch
from ottla._reading import Spans, checked, not_found, of_admin, steps
from ottla._streaming import open_stream
from ottla._sync._admin import Admin
from ottla._sync._consumer import Consumer
from ottla.errors import ArgumentError, KafkaError, NotFoundError


@overload
def read(
    bootstrap_servers: Servers,
    topic: str,
    *,
    last: int | None = None,
    since: int | datetime | timedelta | None = None,
    until: int | datetime | timedelta | None = None,
    offsets: Spans | None = None,
    stream: Literal[False] = False,
    config: Mapping[str, ConfigValue] | None = None,
    **properties: Unpack[keywords.ConsumerProperties],
) -> Batch: ...


@overload
def read(
    bootstrap_servers: Servers,
    topic: str,
    *,
    last: int | None = None,
    since: int | datetime | timedelta | None = None,
    until: int | datetime | timedelta | None = None,
    offsets: Spans | None = None,
    stream: Literal[True],
    columns: Iterable[str] | None = None,
    progress: bool = False,
    config: Mapping[str, ConfigValue] | None = None,
    **properties: Unpack[keywords.ConsumerProperties],
) -> Any: ...


def read(
    bootstrap_servers: Servers,
    topic: str,
    *,
    last: int | None = None,
    since: int | datetime | timedelta | None = None,
    until: int | datetime | timedelta | None = None,
    offsets: Spans | None = None,
    stream: bool = False,
    columns: Iterable[str] | None = None,
    progress: bool = False,
    config: Mapping[str, ConfigValue] | None = None,
    **properties: Unpack[keywords.ConsumerProperties],
) -> Any:
    """Read what a topic holds now, or a part of it, as one batch or as a stream of Arrow record batches.

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
        offsets: The offsets to read of each partition, as a `range`, or of some partitions, as a dict of a range by
            partition number: `{0: range(100, 200)}`. Offsets that the log does not have are left out.
        stream: Return a `pyarrow.RecordBatchReader`, which reads on while it is used, so that the topic is never in
            memory as a whole. It waits on the thread that uses it.
        columns: With `stream`, the names of the columns to read, in this order; None takes all, as `Batch.to_arrow`.
        progress: With `stream`, show how much is read: a bar on standard error if that is a terminal, or one below
            the cell of a notebook. Elsewhere nothing is shown.
        config: Properties of the consumer by Kafka's names, such as `{"security.protocol": "SSL"}`.
        **properties: The same properties as keywords. With `isolation_level="read_committed"`, the end is where the
            first open transaction begins.

    Returns:
        A `Batch` of the records, by partition and offset. All of them are in memory. With `stream`, a
        `pyarrow.RecordBatchReader`: the records of each partition by offset, those of several partitions as they come.
        With `last`, these records are read first. The reader disconnects at its end, or when it is not used any more.

    Raises:
        ArgumentError: `last`, a time or `offsets` is negative or of a wrong type, a datetime has no time zone, there
            are several topics, a partition or column does not exist, or a group is given.
        ConfigError: A property is unknown or has a value that is not allowed.
        NotFoundError: The topic does not exist; the error names the nearest one.
        KafkaTimeoutError: No further records came for `default.api.timeout.ms`.
        KafkaError: Any other error of polls.
        ImportError: `stream` is given, and pyarrow is not installed.

    Example:
        ```python
        newest = ottla.read("localhost:9092", "flights", last=1000)
        print(newest.to_polars())
        last_hour = ottla.read("localhost:9092", "flights", since=timedelta(hours=1))
        print(last_hour.to_arrow(["value"]))
        reader = ottla.read("localhost:9092", "flights", stream=True, columns=["value"])
        print(sum(batch.num_rows for batch in reader))
        ```
    """
    config = checked(topic, last, {"since": since, "until": until}, offsets, config, properties)
    if not stream and (columns is not None or progress):
        raise ArgumentError("columns and progress are for stream=True; of a batch, to_arrow(columns) takes columns")
    part = (topic, last, since, until, offsets)
    try:
        if stream:
            return open_stream(bootstrap_servers, part, columns, progress, config, properties)
        with Consumer(bootstrap_servers, config=config, **properties) as consumer:
            reading = steps(consumer._core, *part)  # noqa: SLF001 what both facades share
            result: Any = None
            while True:
                try:
                    operation = reading.send(result)
                except StopIteration as done:
                    batch: Batch = done.value
                    return batch
                result = operation.wait()
    except NotFoundError as error:
        topics: list[str] = []
        # An error of the listing must not hide the first error.
        with contextlib.suppress(KafkaError):
            with Admin(bootstrap_servers, config=of_admin(config, properties)) as admin:
                topics = admin.list_topics()
        raise not_found(error, topics) from error
