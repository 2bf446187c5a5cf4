"""A topic as a `pandas.DataFrame`, or as one after the other; and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

from ottla import Producer, read

if TYPE_CHECKING:
    import pandas as pd


@overload
def read_topic(
    bootstrap_servers: str | list[str],
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    chunksize: None = None,
    arrow: bool = True,
    **options: Any,
) -> pd.DataFrame: ...


@overload
def read_topic(
    bootstrap_servers: str | list[str],
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    chunksize: int,
    arrow: bool = True,
    **options: Any,
) -> Iterator[pd.DataFrame]: ...


def read_topic(
    bootstrap_servers: str | list[str],
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    chunksize: int | None = None,
    arrow: bool = True,
    **options: Any,
) -> pd.DataFrame | Iterator[pd.DataFrame]:
    """Read what a topic holds now.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name.
        columns: The names of columns; None takes all.
        chunksize: The most rows of a DataFrame. With it, DataFrames are returned one after the other, so that the topic
            is never in memory as a whole.
        arrow: Keep columns as Arrow data (`pandas.ArrowDtype`). Without it, each key and value is a Python object,
            which takes more memory and time.
        **options: Other arguments of `ottla.read`, such as `since`, `last`, `offsets` and `isolation_level`.

    Returns:
        A DataFrame, or with `chunksize` an iterator over DataFrames.

    Raises:
        ImportError: pandas or pyarrow is not installed.
        KafkaError: As from `ottla.read`.
    """
    reader = read(bootstrap_servers, topic, stream=True, columns=columns, **options)
    if chunksize is None:
        return _frame(reader.read_all(), arrow=arrow)
    return _frames(reader, chunksize, arrow=arrow)


def _frames(reader: Any, size: int, *, arrow: bool) -> Iterator[pd.DataFrame]:
    for batch in reader:
        for start in range(0, batch.num_rows, size):
            yield _frame(batch.slice(start, size), arrow=arrow)


def _frame(table: Any, *, arrow: bool) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype) if arrow else table.to_pandas()
    return frame


def write_topic(
    frame: pd.DataFrame,
    bootstrap_servers: str | list[str],
    topic: str | None = None,
    *,
    timeout: float | None = None,
    **properties: Any,
) -> int:
    """Send the rows of a DataFrame.

    Args:
        frame: The rows, with the columns of `Producer.send_arrow`: `value`, and if there are `key`, `topic`,
            `partition`, `timestamp` and `headers`.
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topic: The topic's name; None takes each row's topic from the column `topic`.
        timeout: Seconds to wait at most for the delivery of all rows; None waits until `delivery.timeout.ms` decides.
        **properties: Properties of the producer as keywords.

    Returns:
        The number of rows that were delivered, which are all.

    Raises:
        ImportError: pyarrow is not installed.
        KafkaError: A row was not delivered.
    """
    import pyarrow as pa

    with Producer(bootstrap_servers, **properties) as producer:
        deliveries = producer.send_arrow(topic, pa.Table.from_pandas(frame, preserve_index=False))
        deliveries.result(timeout)
    return len(deliveries)
