"""A topic as a DataFrame of Daft, and DataFrames written to topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from daft import DataFrame, DataType, Schema
from daft.io.sink import DataSink, WriteResult
from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import MicroPartition, RecordBatch

from ottla import Batch, Producer, read
from ottla.integrations.ranges import pieces_of, ranges_of

if TYPE_CHECKING:
    from daft.io.pushdowns import Pushdowns


class TopicSource(DataSource):  # type: ignore[misc]  # Daft's types are not followed
    """A topic. Each query reads what it holds then, in tasks that run at the same time.

    Columns and limits of a query are pushed down.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        tasks: The number of tasks, which read parts of partitions; None reads a partition in each.
        since: As for `ottla.read`.
        until: As for `ottla.read`.
        offsets: As for `ottla.read`.
        config: Properties of the consumer by Kafka's names.
        **properties: The same properties as keywords.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        topic: str,
        *,
        tasks: int | None = None,
        since: int | datetime | timedelta | None = None,
        until: int | datetime | timedelta | None = None,
        offsets: range | Mapping[int, range] | None = None,
        config: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> None:
        self._read, self._tasks = (bootstrap_servers, topic), tasks
        self._bounds: dict[str, Any] = {"since": since, "until": until, "offsets": offsets}
        self._options: dict[str, Any] = {"config": config, **properties}

    @property
    def name(self) -> str:
        """The source's name."""
        return f"ottla topic {self._read[1]}"

    @property
    def schema(self) -> Schema:
        """The columns of `Batch.to_arrow`."""
        return Schema.from_pyarrow_schema(Batch.concat([]).to_arrow().schema)

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[TopicTask]:
        """Divide the offsets that the topic has now.

        Args:
            pushdowns: What the query needs.
        """
        columns = None
        if pushdowns.columns is not None:
            columns = [*dict.fromkeys([*pushdowns.columns, *sorted(pushdowns.filter_required_column_names())])]
        # A limit counts the rows that pass the filter.
        limit = pushdowns.limit if pushdowns.filters is None else None
        servers, topic = self._read
        ranges = await asyncio.to_thread(partial(ranges_of, servers, topic, **self._bounds, **self._options))
        for piece in pieces_of(ranges, self._tasks or len(ranges), split=self._tasks is not None):
            yield TopicTask(self._read, piece, columns, limit, self._options)


class TopicTask(DataSourceTask):  # type: ignore[misc]
    """A part of a topic.

    Args:
        topic: The brokers and the topic.
        piece: Offsets by partition number.
        columns: The names of columns; None takes all.
        limit: The most rows; None for all.
        options: Properties of the consumer, as for `ottla.read`.
    """

    def __init__(
        self,
        topic: tuple[str | list[str], str],
        piece: dict[int, range],
        columns: list[str] | None,
        limit: int | None,
        options: dict[str, Any],
    ) -> None:
        self._topic, self._piece, self._columns, self._limit, self._options = topic, piece, columns, limit, options

    @property
    def schema(self) -> Schema:
        """The columns of the task."""
        return Schema.from_pyarrow_schema(Batch.concat([]).to_arrow(self._columns).schema)

    async def read(self) -> AsyncIterator[RecordBatch]:
        """Read the part, on another thread than Daft's."""
        servers, topic = self._topic
        reader: Any = await asyncio.to_thread(
            partial(read, servers, topic, offsets=self._piece, stream=True, columns=self._columns, **self._options)
        )
        left, following = self._limit, partial(next, reader, None)
        while left != 0 and (batch := await asyncio.to_thread(following)) is not None:
            found = batch if left is None else batch.slice(0, left)
            left = None if left is None else left - found.num_rows
            yield RecordBatch.from_arrow_record_batches([found], found.schema)


class TopicSink(DataSink[int]):  # type: ignore[misc]
    """Sends rows to a topic. A query ends when all of its rows are delivered.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name; None takes each row's topic from the column `topic`.
        config: Properties of the producer by Kafka's names.
        **properties: The same properties as keywords.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        topic: str | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> None:
        self._servers, self._topic, self._config, self._properties = bootstrap_servers, topic, config, properties

    def name(self) -> str:
        """The sink's name."""
        return f"ottla topic {self._topic}"

    def schema(self) -> Schema:
        """The columns of the result: the number of rows."""
        return Schema.from_pydict({"rows": DataType.int64()})

    def write(self, micropartitions: Iterator[MicroPartition]) -> Iterator[WriteResult[int]]:
        """Send rows, with the columns of `Producer.send_arrow`.

        Args:
            micropartitions: The rows.

        Raises:
            KafkaError: A row was not delivered.
        """
        with Producer(self._servers, config=self._config, **self._properties) as producer:
            for part in micropartitions:
                table = part.to_arrow()
                deliveries = producer.send_arrow(self._topic, table)
                deliveries.result()
                yield WriteResult(len(deliveries), table.nbytes, len(deliveries))

    def finalize(self, write_results: list[WriteResult[int]]) -> MicroPartition:
        """Count the rows.

        Args:
            write_results: The results of all tasks.
        """
        return MicroPartition.from_pydict({"rows": [sum(each.result for each in write_results)]})


def read_topic(bootstrap_servers: str | list[str], topic: str, **options: Any) -> DataFrame:
    """Make a DataFrame of a topic.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        **options: The other arguments of `TopicSource`.

    Returns:
        A lazy DataFrame with the columns of `ottla.read`; Daft reads the topic when it is collected.
    """
    return TopicSource(bootstrap_servers, topic, **options).read()
