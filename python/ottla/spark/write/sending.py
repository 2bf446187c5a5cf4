"""What the tasks of a write do.

A task sends its rows, flushes, and fails with the first error before it reports to the driver, so that a write that
succeeds is in Kafka as a whole. A task that Spark repeats writes its rows again: at least once, as Spark's own sink.
With the option `exactlyOnce` the rows of a task are in a transaction (`ottla.spark.write.transactions`).
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import EncodeError
from ottla.spark.shared.error_texts import extended
from ottla.spark.shared.tokens import take
from ottla.spark.write.encodings import KEY_SHOWN, Encoded, failure
from ottla.spark.write.options import Columns, WriteOptions
from ottla.spark.write.producers import producer
from ottla.spark.write.transactions import send_once

if TYPE_CHECKING:
    from ottla import Deliveries, Producer


def send(options: WriteOptions, columns: Columns, given: Iterable["pa.RecordBatch"]) -> None:
    """Send record batches, and wait until each row is in Kafka.

    Raises:
        KafkaError: The first row that could not be delivered: its topic, partition, cause and key. Or what keeps the
            rows from being written exactly once.
        EncodeError: A row does not fit the schema of its key or value.
        ValueError: A row has no topic.
    """
    take(options.properties, options.token)
    if options.once is None:
        with producer(options) as client:
            deliver(client, options, columns, given)
    else:
        send_once(options, options.once, given, lambda client: deliver(client, options, columns, given))


def deliver(client: "Producer", options: WriteOptions, columns: Columns, given: Iterable["pa.RecordBatch"]) -> int:
    """Send rows by a producer; they are delivered when this returns.

    It returns their number.

    The producer's buffer (`buffer.memory`) bounds the pending records, and so the batches that are held for their keys
    too.
    """
    names = [name for name, _ in columns]
    encoders = {name: place.schema.encoder() for name, place in columns if isinstance(place, Encoded)}
    count = 0
    # With the keys, which identify rows in an error.
    undecided: deque[tuple[Deliveries, pa.Array | None]] = deque()
    for batch in given:
        count += batch.num_rows
        arrays = [
            batch.column(place) if isinstance(place, int) else _made(place, encoders[name], batch, columns)
            for name, place in columns
        ]
        rows = pa.RecordBatch.from_arrays(arrays, names=names)
        if options.topic is None:
            rows = by_topic(rows)
        keys = rows.column("key") if "key" in names else None
        undecided.append((client.send_arrow(options.topic, rows), keys))
        while undecided and undecided[0][0].done():
            _raise_failure(*undecided.popleft())
    client.flush()
    for sent in undecided:
        _raise_failure(*sent)
    return count


def _made(place: Encoded, encoder: Callable[[Any], Any], batch: "pa.RecordBatch", columns: Columns) -> "pa.Array":
    """A column of keys or values."""
    try:
        return place.of_batch(batch, encoder)
    except EncodeError as error:
        keys = next((batch.column(at) for name, at in columns if name == "key" and isinstance(at, int)), None)
        raise failure(error, place.side, keys) from None


def by_topic(rows: "pa.RecordBatch") -> "pa.RecordBatch":
    """Rows that each name their topic, those of one topic together and in their order.

    The producer takes rows of one topic at once, which costs a third of taking them one by one.

    Raises:
        ValueError: A row has no topic.
    """
    topics = rows.column("topic")
    if topics.null_count:
        raise ValueError(
            "a row has no topic: its column topic is null. Fill the column, drop such rows, or set option topic for "
            "all rows"
        )
    if len(pc.unique(topics)) < 2:
        return rows
    # The sort is stable.
    return rows.take(pc.sort_indices(topics))


def _raise_failure(deliveries: "Deliveries", keys: "pa.Array | None") -> None:
    failures = deliveries.errors
    for row, error in failures.items():
        key = None if keys is None else keys[row].as_py()
        which = "a record without a key" if key is None else f"the record with the key {key[:KEY_SHOWN]!r}"
        raise extended(error, f"{which}; of the {len(deliveries)} sent together with it, {len(failures)} failed")
