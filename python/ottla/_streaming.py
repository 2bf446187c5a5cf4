"""A part of a topic as a `pyarrow.RecordBatchReader`, which reads while it is used."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla._hints import ConfigValue, Servers
from ottla._ottla import Batch, Operation
from ottla._progress import RecordProgress
from ottla._reading import SLICE, Moment, Spans, limits, stalled, steps
from ottla._sync._consumer import Consumer
from ottla._types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Part: TypeAlias = tuple[str, int | None, Moment | None, Moment | None, Spans | None]
"""Topic, last, since, until and offsets of a read."""


def open_stream(
    bootstrap_servers: Servers,
    part: Part,
    columns: Iterable[str] | None,
    progress: bool,
    config: Mapping[str, ConfigValue],
    properties: Mapping[str, Any],
) -> pa.RecordBatchReader:
    """Find what there is to read, and make the reader.

    Args:
        bootstrap_servers: The brokers.
        part: What to read.
        columns: The names of columns; None takes all.
        progress: Whether to show the progress.
        config: The consumer's properties by Kafka's names.
        properties: The same as keywords.

    Raises:
        ImportError: pyarrow is not installed.
        KafkaError: What is there to read is not known.
    """
    # Raises what is wrong with columns, and that pyarrow is missing, before anything connects.
    schema = Batch.concat([]).to_arrow(columns).schema
    import pyarrow as pa

    consumer = Consumer(bootstrap_servers, config=config, **properties)
    try:
        if part[1] is not None:
            # The newest records of all partitions are known only when all of them are read.
            table = _wait(steps(consumer._core, *part)).to_arrow(schema.names)  # noqa: SLF001 as in read
            consumer.close()
            return table.to_reader()
        topic, _, since, until, offsets = part
        spans = _wait(limits(consumer._core, topic, since, until, offsets))  # noqa: SLF001
    except BaseException:
        consumer.close()
        raise
    shown = RecordProgress(sum(map(len, spans.values())), shown=progress)
    return pa.RecordBatchReader.from_batches(schema, _record_batches(consumer, spans, schema, shown))


def _wait(steps: Generator[Operation, Any, Any]) -> Any:
    result: Any = None
    while True:
        try:
            operation = steps.send(result)
        except StopIteration as done:
            return done.value
        result = operation.wait()


def _record_batches(
    consumer: Consumer, spans: Mapping[TopicPartition, range], schema: pa.Schema, progress: RecordProgress
) -> Iterator[pa.RecordBatch]:
    """Read all partitions at once, each to its end."""
    done = 0
    with consumer:
        try:
            for batch in _batches(consumer, spans):
                for piece in _within(batch, spans, schema).to_batches():
                    done += piece.num_rows
                    progress.at(done)
                    yield piece
        finally:
            progress.close(done)


def _batches(consumer: Consumer, spans: Mapping[TopicPartition, range]) -> Iterator[Batch]:
    """Poll until each partition is at its end. The last records of a partition may lie behind its end."""
    core = consumer._core  # noqa: SLF001 the time that calls have
    patience = core.api_timeout()
    left = {each: span for each, span in spans.items() if span}
    consumer.assign([TopicPartition(*each, span.start) for each, span in left.items()])
    positions = {each: span.start for each, span in left.items()}
    deadline = time.monotonic() + patience
    while left:
        batch = consumer.poll(SLICE)
        if len(batch):
            yield batch
        # Where only markers of transactions are left, positions move without records.
        moved = bool(len(batch))
        for each in batch.partitions if len(batch) else list(left):
            if each not in left:
                continue
            before, positions[each] = positions[each], consumer.position(each)
            moved |= positions[each] > before
            if positions[each] >= left[each].stop:
                del left[each]
                consumer.pause([each])
        if moved:
            # What the caller does with the records takes none of this time.
            deadline = time.monotonic() + patience
        elif time.monotonic() > deadline:
            late = next(iter(left))
            # If brokers are away, this fails and reports the cause.
            consumer.end_offsets([late], 1.0)
            raise stalled(late, positions[late], left[late].stop, patience)


def _within(batch: Batch, spans: Mapping[TopicPartition, range], schema: pa.Schema) -> pa.Table:
    """The records of a batch before the ends of their partitions, as a table."""
    over = [each for each, span in batch.spans.items() if span.stop > spans[each].stop]
    if not over:
        return batch.to_arrow(schema.names)
    import pyarrow.compute as pc

    table = batch.to_arrow([*schema.names, *({"partition", "offset"} - set(schema.names))])
    for each in over:
        is_behind = pc.and_(
            pc.equal(table["partition"], each.partition), pc.greater_equal(table["offset"], spans[each].stop)
        )
        table = table.filter(pc.invert(is_behind))
    return table.select(schema.names)
