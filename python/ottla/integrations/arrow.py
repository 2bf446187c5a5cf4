"""A topic as a `pyarrow.dataset.Dataset`, which DuckDB and other readers of datasets push their filters into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from ottla import Batch, read
from ottla.errors import ArgumentError
from ottla.integrations.arrow_bounds import Bounds


class TopicDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow publishes no types
    """A topic as a dataset: each scan reads what the topic holds then, and no more of it than the filter needs.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        since: As for `ottla.read`.
        until: As for `ottla.read`.
        offsets: As for `ottla.read`.
        config: Properties of the consumer by Kafka's names, such as `{"security.protocol": "SSL"}`.
        **properties: The same properties as keywords.

    Columns that a scan does not use are not built. Conditions on `partition` and `offset` select partitions and
    offsets, and a lower bound of `timestamp` becomes the first offset of each partition. An upper bound of `timestamp`
    filters rows but bounds nothing, since records need not be in the order of their times: use `until`.

    Scans raise the errors of `ottla.read`. It can be pickled, if the properties can be.

    Example:
        ```python
        flights = TopicDataset("localhost:9092", "flights")
        print(flights.to_table(columns=["value"], filter=pc.field("offset") >= 1000))
        ```
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        topic: str,
        *,
        since: int | datetime | timedelta | None = None,
        until: int | datetime | timedelta | None = None,
        offsets: range | Mapping[int, range] | None = None,
        config: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> None:
        # The base class has nothing to initialize: it forbids instances of its own.
        self._read = (bootstrap_servers, topic)
        self._options = {"since": since, "until": until, "offsets": offsets, "config": config, **properties}

    @property
    def schema(self) -> pa.Schema:
        """The columns of `Batch.to_arrow`."""
        return Batch.concat([]).to_arrow().schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: A002 pyarrow's name
        **_hints: Any,
    ) -> TopicScan:
        """Make a scan.

        Args:
            columns: The names of columns; None takes all.
            filter: A `pyarrow.compute.Expression`; None takes all rows.
            **_hints: Arguments of pyarrow about sizes and threads, which change nothing here.

        Returns:
            The scan, which has read nothing yet.

        Raises:
            ArgumentError: Columns are expressions.
        """
        if isinstance(columns, Mapping):
            raise ArgumentError("columns of a topic are names, and expressions were given: compute them afterwards")
        return TopicScan(self, list(self.schema.names if columns is None else columns), filter)

    def open(self, columns: list[str], filter: Any) -> pa.RecordBatchReader:  # noqa: A002
        """Read what a scan needs.

        Args:
            columns: The names of columns.
            filter: The scan's filter: rows that do not pass it may be among those read.

        Returns:
            A reader of the rows, with these columns.

        Raises:
            KafkaError: Reading failed, as `ottla.read` raises it.
        """
        options = self._options
        if filter is not None:
            bounds = Bounds(filter, self.schema)
            options = options | bounds.of(*self._read, options)
        return read(*self._read, stream=True, columns=columns, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._read, self._options)


def _made(read: tuple[str | list[str], str], options: dict[str, Any]) -> TopicDataset:
    return TopicDataset(*read, **options)


class TopicScan:
    """A scan of a topic, with the methods of a `pyarrow.dataset.Scanner` that read.

    Args:
        dataset: The topic.
        columns: The names of columns.
        filter: A `pyarrow.compute.Expression`, or None.
    """

    def __init__(self, dataset: TopicDataset, columns: list[str], filter: Any) -> None:  # noqa: A002
        self._dataset, self._columns, self._filter = dataset, columns, filter

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns of the topic."""
        return self._dataset.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the scan."""
        return pa.schema([self._dataset.schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """Read record batches one by one.

        Returns:
            A reader with the columns of the scan.
        """
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Iterate over record batches.

        Yields:
            Record batches with the columns of the scan, without the rows that do not pass its filter.

        Raises:
            KafkaError: Reading failed, as `ottla.read` raises it.
        """
        if self._filter is None:
            yield from self._dataset.open(self._columns, None)
            return
        # The columns of a filter are known only by its text. A text of its values may name one, too: it is then read
        # for nothing.
        text = str(self._filter)
        tested = [name for name in self._dataset.schema.names if name not in self._columns and name in text]
        for batch in self._dataset.open([*self._columns, *tested], self._filter):
            yield from pa.Table.from_batches([batch]).filter(self._filter).select(self._columns).to_batches()

    def to_table(self) -> pa.Table:
        """Read everything.

        Returns:
            All rows of the scan.

        Raises:
            KafkaError: Reading failed, as `ottla.read` raises it.
        """
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows.

        Args:
            num_rows: How many.

        Returns:
            A table with at most that many rows.

        Raises:
            KafkaError: Reading failed, as `ottla.read` raises it.
        """
        batches, left = [], num_rows
        for batch in self.to_batches():
            batches.append(batch.slice(0, left))
            left -= batches[-1].num_rows
            if not left:
                break
        return pa.Table.from_batches(batches, self.projected_schema)

    def count_rows(self) -> int:
        """Count the rows.

        They are read for that, since offsets may be without a record.

        Returns:
            The number of rows of the scan.

        Raises:
            KafkaError: Reading failed, as `ottla.read` raises it.
        """
        narrow = TopicScan(self._dataset, ["partition"], self._filter)
        return sum(batch.num_rows for batch in narrow.to_batches())
