"""A topic as a dataset of Ray Data, and datasets written to topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import ray.data
from ray.data import Dataset, Datasource, ReadTask
from ray.data.block import Block, BlockAccessor, BlockMetadata
from ray.data.datasource import Datasink

from ottla import Batch, Producer, read
from ottla.integrations.ranges import pieces_of, ranges_of

# Bytes of a row whose key and value are empty.
ROW = 40


class TopicDatasource(Datasource):  # type: ignore[misc]  # Ray's types are not followed
    """What a topic holds when the datasource is made, in tasks that Ray's workers read at the same time.

    A task reads one partition, or several. With `split` there may be more tasks than partitions.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        columns: The names of columns; None takes all.
        split: Whether tasks read parts of partitions. It is for partitions that take long: a task fetches ahead beyond
            the end of its part.
        since: As for `ottla.read`.
        until: As for `ottla.read`.
        offsets: As for `ottla.read`.
        config: Properties of the consumer by Kafka's names.
        **properties: The same properties as keywords.

    Raises:
        NotFoundError: The topic does not exist.
        KafkaError: What else `ottla.read` raises before it reads.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        topic: str,
        *,
        columns: Iterable[str] | None = None,
        split: bool = False,
        since: int | datetime | timedelta | None = None,
        until: int | datetime | timedelta | None = None,
        offsets: range | Mapping[int, range] | None = None,
        config: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> None:
        super().__init__()
        self._split = split
        self._schema = Batch.concat([]).to_arrow(columns).schema
        options = {"config": config, **properties}
        self._ranges = ranges_of(bootstrap_servers, topic, since=since, until=until, offsets=offsets, **options)
        self._read = partial(_blocks, bootstrap_servers, topic, self._schema.names, options)

    def get_name(self) -> str:
        """The name of the read tasks."""
        return "OttlaTopic"

    def estimate_inmemory_data_size(self) -> int | None:
        """The least that as many rows take, since offsets say nothing of values. Without it Ray makes 200 blocks."""
        return sum(map(len, self._ranges.values())) * ROW

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # noqa: ARG002 Ray's argument
    ) -> list[ReadTask]:
        """Divide the offsets.

        Args:
            parallelism: The most tasks.
            per_task_row_limit: The most rows of a task; None for all.
            data_context: Is not used.
        """
        # The number of records is not known: markers and deleted records have offsets, too.
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [
            ReadTask(partial(self._read, piece), metadata, self._schema, per_task_row_limit)
            for piece in pieces_of(self._ranges, parallelism, split=self._split)
        ]


def _blocks(
    servers: str | list[str], topic: str, columns: list[str], options: dict[str, Any], piece: dict[int, range]
) -> Iterator[Block]:
    import pyarrow as pa

    for batch in read(servers, topic, offsets=piece, stream=True, columns=columns, **options):
        yield pa.Table.from_batches([batch])


class TopicDatasink(Datasink[int]):  # type: ignore[misc]
    """Sends rows to a topic. A write task ends when all of its rows are delivered.

    Ray runs a task again if its worker dies, which sends the rows of the task again.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name; None takes each row's topic from the column `topic`.
        config: Properties of the producer by Kafka's names.
        **properties: The same properties as keywords.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        topic: str | None,
        *,
        config: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> None:
        self._servers, self._topic, self._config, self._properties = bootstrap_servers, topic, config, properties

    def write(self, blocks: Iterable[Block], ctx: Any) -> int:  # noqa: ARG002 Ray's argument
        """Send blocks, with the columns of `Producer.send_arrow`.

        Args:
            blocks: The blocks of a task.
            ctx: Is not used.

        Returns:
            The number of rows.

        Raises:
            KafkaError: A row was not delivered.
        """
        with Producer(self._servers, config=self._config, **self._properties) as producer:
            sent = [producer.send_arrow(self._topic, BlockAccessor.for_block(block).to_arrow()) for block in blocks]
            for deliveries in sent:
                deliveries.result()
        return sum(map(len, sent))


def read_topic(
    bootstrap_servers: str | list[str], topic: str, *, override_num_blocks: int | None = None, **options: Any
) -> Dataset:
    """Make a dataset of what a topic holds now.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        override_num_blocks: The number of read tasks, which read parts of partitions; None reads a partition in each.
        **options: The other arguments of `TopicDatasource`.

    Returns:
        A lazy dataset with the columns of `ottla.read`; Ray reads the topic when it is consumed.
    """
    source = TopicDatasource(bootstrap_servers, topic, **{"split": override_num_blocks is not None, **options})
    return ray.data.read_datasource(source, override_num_blocks=override_num_blocks)


def write_topic(dataset: Dataset, bootstrap_servers: str | list[str], topic: str | None = None, **options: Any) -> None:
    """Send the rows of a dataset, and wait until they are delivered.

    Args:
        dataset: The rows, with the columns of `Producer.send_arrow`.
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name; None takes each row's topic from the column `topic`.
        **options: The other arguments of `TopicDatasink`.
    """
    dataset.write_datasink(TopicDatasink(bootstrap_servers, topic, **options))
