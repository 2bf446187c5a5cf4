"""The records of a range, as tasks read them."""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import closing

import pyarrow as pa

from ottla import Batch, Consumer, OffsetAndMetadata, TopicPartition
from ottla.errors import (
    CorruptRecordError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncatedError,
    NotFoundError,
    OffsetOutOfRangeError,
)
from ottla.spark.plan.read_options import ReadOptions, Topics
from ottla.spark.read.client_pool import consumer, producer
from ottla.spark.read.corrupt_records import PassedOver, pass_over
from ottla.spark.read.dead_letters import failure, send_dead_letters
from ottla.spark.read.kafka_log import SLICE, KafkaLog, planner
from ottla.spark.read.layout import Bad, Layout
from ottla.spark.shared.formats import FAILFAST, Typed
from ottla.spark.shared.ranges import Range
from ottla.spark.shared.tokens import take
from ottla.spark.shared.worker_process import spare_collections

# Rows of one record batch handed to Spark: more gains nothing, fewer cost the JVM time per batch.
BATCH_ROWS = 32_768
# Bytes of one record batch, which the JVM holds outside its heap. A megabyte of a log can be a compressed gigabyte.
BATCH_BYTES = 16 << 20


def read(options: ReadOptions, span: Range, layout: Layout) -> Iterator[pa.RecordBatch]:
    """The records of a range, in the columns of a frame.

    The range ends where the position passes its end, not after a count of records: compaction, aborted transactions and
    control records leave offsets without a record.

    Raises:
        DataLossError: Records of the range are gone, under `failOnDataLoss`.
        KafkaTimeoutError: Nothing came for `kafkaConsumer.pollTimeoutMs`.
        CorruptRecordError: Records cannot be read, unless option `onCorrupt` skips them.
        DecodeError: A record does not decode, and the mode is FAILFAST.
    """
    spare_collections()
    take(options.properties, span.token)
    at = TopicPartition(span.topic, span.partition)
    with consumer(options) as client, closing(PassedOver(span)) as passed:
        position = span.start if span.seen is None else span.seen.next
        client.assign([TopicPartition(span.topic, span.partition, position)])
        if span.seen is not None:
            # The broker compares it with its log: what was read must still be there.
            client.seek(at, OffsetAndMetadata(position, leader_epoch=span.seen.epoch))
        deadline = time.monotonic() + options.poll_timeout
        while position < span.end:
            try:
                batch, reached = _polled(client, at, position)
            except CorruptRecordError as error:
                position = _behind(options, client, span, position, error, passed)
                deadline = time.monotonic() + options.poll_timeout
                continue
            except KafkaError as error:
                if time.monotonic() > deadline:
                    raise
                position = _after_error(options, span, position, error)
                if isinstance(error, OffsetOutOfRangeError):
                    client.assign([TopicPartition(span.topic, span.partition, position)])
                continue
            if len(batch) and len(wanted := _between(batch, span.start, span.end)):
                yield from _portions(_rows(options, wanted, layout))
            if reached > position:
                position = reached
                deadline = time.monotonic() + options.poll_timeout
            elif time.monotonic() > deadline:
                position = _after_silence(options, span, position)


def _polled(client: Consumer, at: TopicPartition, position: int) -> tuple[Batch, int]:
    """The next records, and the position after them. After an error they are polled again."""
    batch = client.poll(SLICE, max_records=BATCH_ROWS)
    try:
        return batch, client.position(at)
    except KafkaError:
        if len(batch):
            client.seek(at, position)
        raise


def _behind(
    options: ReadOptions, client: Consumer, span: Range, position: int, error: CorruptRecordError, passed: "PassedOver"
) -> int:
    """Continue after records that cannot be read, and return the offset.

    Raises:
        CorruptRecordError: As by `pass_over`.
    """
    if position < span.start and (error.next_offset is None or error.next_offset <= span.start):
        # They are of the range before, and were looked at for their epoch alone.
        client.seek((span.topic, span.partition), span.start)
        return span.start
    offsets = pass_over(options, client, error)
    passed.note(offsets, error)
    return offsets.stop


def _after_error(options: ReadOptions, span: Range, position: int, error: KafkaError) -> int:
    """Find the offset to continue at after an error, or raise it if none will do."""
    if isinstance(error, LogTruncatedError):
        # The offset may be in the log, and what stands before it is not what was read.
        planner(options).report(
            f"{span.topic}-{span.partition} {span.start} to {span.end}: the log was truncated, as after an unclean "
            f"leader election. {_divergence(error)}"
        )
        return max(position, span.start)
    if isinstance(error, OffsetOutOfRangeError) and position < span.start:
        # The record before the range may have been deleted since.
        return span.start
    if isinstance(error, OffsetOutOfRangeError):
        return _after_refusal(options, span, position)
    if not isinstance(error, NotFoundError):
        # A slice is shorter than a connection may take to come up.
        if not error.retriable:
            raise error
        return position
    if _is_gone(options, span.topic):
        planner(options).report(
            f"{span.topic}-{span.partition}: the topic was deleted while it was read, and the records from offset "
            f"{position} to {span.end} are gone"
        )
        return span.end
    time.sleep(SLICE)
    return position


def _divergence(error: LogTruncatedError) -> str:
    """What was read of a truncated log, and where the leader's log differs from it."""
    read = f"Everything up to offset {error.offset} was read (leader epoch {_epoch(error.leader_epoch)})"
    if error.divergent_offset is None:
        return f"{read}, and the leader does not know this epoch: which of these records are lost is not known"
    return (
        f"{read}, and the leader's log differs from offset {error.divergent_offset} on (leader epoch "
        f"{_epoch(error.divergent_epoch)} before it): the records from offset {error.divergent_offset} to "
        f"{error.offset} are lost"
    )


def _epoch(epoch: int | None) -> str:
    return "unknown" if epoch is None else str(epoch)


def _is_gone(options: ReadOptions, topic: str) -> bool:
    """Check again whether a topic is gone: a broker that has just started may not know it yet."""
    try:
        KafkaLog(options).partitions(Topics(names=(topic,)))
    except NotFoundError:
        return True
    return False


def _after_refusal(options: ReadOptions, span: Range, position: int) -> int:
    """Find the offset to continue at after the broker reported that it does not hold `position`.

    This is `position` again if the partition holds it: a leader that has just taken over can return OFFSET_OUT_OF_RANGE
    for an offset that it holds. Else it is the first offset that is left, or the end of the range.
    """
    partition = (span.topic, span.partition)
    log = KafkaLog(options)
    first, last = log.earliest([partition])[partition], log.latest([partition])[partition]
    name = f"{span.topic}-{span.partition}"
    if first > position:
        planner(options).report(
            f"{name}: the records from offset {position} to {min(first, span.end)} are gone; raise the "
            "topic's retention to keep records longer"
        )
        return min(first, span.end)
    if position >= last:
        return _after_cut(options, span, position)
    time.sleep(SLICE)
    return position


def _after_silence(options: ReadOptions, span: Range, position: int) -> int:
    """Find the offset to continue at after nothing came for `kafkaConsumer.pollTimeoutMs`.

    A log that was cut inside the range ends where the consumer stands. The broker refuses nothing there, and records
    that are written later are not those that were planned. Spark's Kafka source treats it as out of range, too.

    Raises:
        KafkaTimeoutError: The log goes on.
    """
    at = (span.topic, span.partition)
    if KafkaLog(options).latest([at])[at] <= position:
        return _after_cut(options, span, position)
    raise KafkaTimeoutError(
        f"{span.topic}-{span.partition}: nothing came at offset {position} for {options.poll_timeout:g} s, while the "
        f"range goes on to offset {span.end}. Was the topic recreated? Option kafkaConsumer.pollTimeoutMs sets how "
        "long to wait"
    )


def _after_cut(options: ReadOptions, span: Range, position: int) -> int:
    """Report that the log ends before the range does, and return the end of the range."""
    planner(options).report(
        f"{span.topic}-{span.partition}: the records from offset {position} to {span.end} are gone; the log was cut"
    )
    return span.end


def _between(batch: Batch, start: int, end: int) -> Batch:
    """The records from `start`, inclusive, to `end`, exclusive; offsets ascend within a partition."""
    first, last = (bisect_left(range(len(batch)), bound, key=lambda row: batch[row].offset) for bound in (start, end))
    return batch[first:last] if last - first < len(batch) else batch


def _rows(options: ReadOptions, batch: Batch, layout: Layout) -> list[pa.RecordBatch]:
    """The rows of records; what does not decode is settled before they are used."""
    rows, bad = layout.decode(batch)
    if bad and options.typed is not None:
        _settle(options, options.typed, batch, bad)
    return rows


def _portions(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, in batches of about `BATCH_BYTES` at most, or of one row."""
    for batch in rows:
        parts = -(-batch.nbytes // BATCH_BYTES)
        if parts < 2:
            yield batch
            continue
        step = max(1, batch.num_rows // parts)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def _settle(options: ReadOptions, typed: Typed, batch: Batch, bad: list[Bad]) -> None:
    if typed.mode == FAILFAST:
        raise failure(bad[0])
    if typed.dead_letters is not None:
        # A task that Spark repeats sends them again.
        with producer(options) as client:
            send_dead_letters(client, typed.dead_letters, batch, bad)
