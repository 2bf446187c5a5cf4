"""Clients inside Spark's Python processes, and reading a range through one.

Spark's workers are forked from a daemon and serve one task after another, so a consumer is made on first use, kept for
the next task with the same options, and never crosses a fork or a pickle.
"""

import logging
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ottla import Admin, Batch, Consumer, OffsetAndMetadata, Producer, TopicDescription, TopicPartition
from ottla._properties import AdminProperties
from ottla.errors import (
    ConfigError,
    CorruptRecordError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncatedError,
    NotFoundError,
    OffsetOutOfRangeError,
)
from ottla.spark.plan.planner import Planner
from ottla.spark.plan.read_options import ReadOptions, Topics
from ottla.spark.plan.topic_history import Past
from ottla.spark.read.dead_letters import failure, send_dead_letters
from ottla.spark.read.layout import Bad, Layout
from ottla.spark.shared.formats import FAILFAST, Typed
from ottla.spark.shared.idle_clients import Kept
from ottla.spark.shared.offsets import Offsets, Partition, Range, Seen, names
from ottla.spark.shared.tokens import resolved, take
from ottla.spark.shared.worker_process import spare_collections

LOG = logging.getLogger("ottla.spark")

# Rows of one record batch handed to Spark: more gains nothing, fewer cost the JVM time per batch.
BATCH_ROWS = 32_768
# Seconds after which a waiting read checks its position: a range can end in offsets that hold no record.
SLICE = 0.1
# Bytes of one fetch of one partition; a task reads one partition, so the consumer's default would starve it.
FETCH_BYTES = 8 << 20
# Milliseconds that a broker waits at the end of a log. A range ends before that, so that only a fetch ahead comes
# there; and brokers answer one request of a connection after the other, so that the next task's would wait behind it.
LONGEST_WAIT = 10
# Most bytes of a dead letter: a little less than brokers take as a request (`socket.request.max.bytes`), so that it is
# for the topic to refuse what is large.
LETTER_BYTES = 100_000_000
CLIENT_ID = "ottla-spark"
# Seconds without a task after which a client is closed: that of `spark.kafka.consumer.cache.timeout`.
IDLE = 300.0
# A sample of records needs few of them from each partition, and where some are gone, those that are left.
SAMPLING = {
    "auto.offset.reset": "earliest",
    "fetch.max.bytes": str(4 << 20),
    "fetch.min.bytes": "1",
    "max.partition.fetch.bytes": str(64 << 10),
}
# Offsets at the end of a range in which its last record is looked for: the marker of a transaction stands behind one.
LAST_OFFSETS = 2
# Seconds after which a stream goes on without knowing the last records of a batch, which it only needs if logs are cut.
LOOKING = 0.5
# What stands in an error about a log that was cut from where on it says what a consumer can do.
OF_CONSUMERS = ", and auto.offset.reset is none"
# A query's properties are mostly the consumer's; the admin client has these too.
ADMIN_PROPERTIES = frozenset(AdminProperties.__annotations__)

C = TypeVar("C", Admin, Consumer, Producer)

# Connections are shared by all reads that name the same brokers and properties.
_Key = tuple[type, str, tuple[tuple[str, str], ...]]
_idle: Kept[_Key, Any] = Kept(IDLE)


@contextmanager
def consumer(options: ReadOptions) -> Iterator[Consumer]:
    """A consumer for one use. After an error it is closed, else kept for the next use in this process."""
    with _lent(Consumer, options, _consumer, lambda client: client.assign([])) as client:
        yield client


@contextmanager
def admin(options: ReadOptions) -> Iterator[Admin]:
    """An admin client for one use, in the same way."""
    with _lent(Admin, options, _admin, lambda _: None) as client:
        yield client


@contextmanager
def producer(options: ReadOptions) -> Iterator[Producer]:
    """A producer of dead letters for one use, in the same way."""
    with _lent(Producer, options, _producer, lambda _: None) as client:
        yield client


def close_idle(options: ReadOptions) -> None:
    """Close what is kept for these brokers, where nobody may come back for it."""
    _idle.close(lambda key: key[1] == options.bootstrap)


@contextmanager
def _lent(kind: type, options: ReadOptions, make: Callable[[ReadOptions], C], tidy: Callable[[C], None]) -> Iterator[C]:
    key = (kind, options.bootstrap, options.properties)
    client: C = _idle.take(key) or make(options)
    failed = False
    try:
        yield client
    except Exception:
        failed = True
        raise
    finally:
        # This is not only the good end: if Spark wants no more rows (a LIMIT), it closes the reader in the middle.
        if failed:
            # The error that led here is the one to raise, not that the client's tasks took a moment longer to end.
            with suppress(KafkaError):
                client.close(timeout=0)
        else:
            tidy(client)
            _idle.keep(key, client)


def _consumer(options: ReadOptions) -> Consumer:
    properties = {
        "client.id": CLIENT_ID,
        # A mistyped name must not become a topic.
        "allow.auto.create.topics": "false",
        "max.partition.fetch.bytes": str(FETCH_BYTES),
        "fetch.max.wait.ms": str(LONGEST_WAIT),
        "auto.offset.reset": "none",
        **dict(options.properties),
    }
    try:
        return Consumer(options.bootstrap, config=resolved(properties))
    except ConfigError as error:
        raise ConfigError(f"option kafka.{error} (`ottla config consumer` lists all properties)") from None


def _admin(options: ReadOptions) -> Admin:
    return Admin(options.bootstrap, config=resolved({"client.id": CLIENT_ID, **_shared(options)}))


def _producer(options: ReadOptions) -> Producer:
    sizes = {"max.request.size": str(LETTER_BYTES), "buffer.memory": str(LETTER_BYTES)}
    # A producer has the properties of an admin client, too.
    return Producer(options.bootstrap, config=resolved({"client.id": CLIENT_ID, **sizes, **_shared(options)}))


def _shared(options: ReadOptions) -> dict[str, str]:
    """The properties that all clients have. The consumer reports errors in the others."""
    return {name: value for name, value in options.properties if name.replace(".", "_") in ADMIN_PROPERTIES}


def _absent(topics: Topics, error: NotFoundError) -> NotFoundError:
    if topics.pattern is not None:
        return NotFoundError(f"topic {error.topic}, which {topics.option} matches, was deleted meanwhile: {error}")
    return NotFoundError(f"option {topics.option} names topic {error.topic}, which does not exist: {error}")


class KafkaLog:
    """The planner's view of the cluster that the options name.

    Attributes:
        ids: The ids of the topics that `partitions` found last; none of brokers before Kafka 2.8.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self.ids: dict[str, str] = {}

    def partitions(self, topics: Topics) -> list[Partition]:
        """All partitions that are to be read now.

        Internal topics match no pattern. An assigned partition that its topic does not have is left out until it is
        there, as Spark's Kafka source does.

        Raises:
            NotFoundError: A topic that an option names does not exist.
        """
        with admin(self._options) as client:
            if topics.pattern is not None:
                search = re.compile(topics.pattern).search
                return self._of(_present(client, [name for name in client.list_topics() if search(name)]))
            named = topics.names or sorted({topic for topic, _ in topics.assigned})
            try:
                there = self._of(client.describe_topics(named))
            except NotFoundError as error:
                raise _absent(topics, error) from None
        if not topics.assigned:
            return there
        missing = set(topics.assigned) - set(there)
        if missing:
            _warn_of_missing(names(sorted(missing)))
        return [partition for partition in topics.assigned if partition not in missing]

    @contextmanager
    def _deleted_is_named(self) -> Iterator[None]:
        """A topic may be deleted after `partitions` found it."""
        try:
            yield
        except NotFoundError as error:
            raise _absent(self._options.topics, error) from None

    def _of(self, known: dict[str, TopicDescription]) -> list[Partition]:
        self.ids = {topic: str(described.id) for topic, described in known.items() if described.id is not None}
        return sorted((topic, at.partition) for topic, described in known.items() for at in described.partitions)

    def earliest(self, partitions: list[Partition]) -> Offsets:
        """The first offset that each partition still holds."""
        with self._deleted_is_named(), consumer(self._options) as client:
            return _offsets(client.beginning_offsets(_topic_partitions(partitions)))

    def latest(self, partitions: list[Partition]) -> Offsets:
        """The offset after the last record of each partition that may be read."""
        with self._deleted_is_named(), consumer(self._options) as client:
            return _offsets(client.end_offsets(_topic_partitions(partitions)))

    def at_times(self, times: Offsets) -> dict[Partition, int | None]:
        """The first offset of each partition whose record is at or after a time; None if there is none."""
        with consumer(self._options) as client:
            found = client.offsets_for_times(times)
        return {(at.topic, at.partition): None if record is None else record.offset for at, record in found.items()}

    def committed(self, group: str, partitions: list[Partition]) -> Offsets:
        """The offsets at which a consumer group goes on; partitions without a commit are left out."""
        with consumer(_in_group(self._options, group)) as client:
            found = client.committed(_topic_partitions(partitions))
        return {(at.topic, at.partition): commit.offset for at, commit in found.items() if commit is not None}

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit that a consumer group goes on at these offsets. It must have no members."""
        with consumer(_in_group(self._options, group)) as client:
            client.commit({TopicPartition(*partition): offset for partition, offset in offsets.items()})

    def record_bytes(self, starts: Offsets, ends: Offsets) -> dict[Partition, float]:
        """The bytes of keys and values, on average for an offset, of the first records between start and end.

        A sample of each partition that starts tells; offsets without a record count as 0 bytes.

        Raises:
            KafkaTimeoutError: Nothing came from a partition for `kafkaConsumer.pollTimeoutMs`.
        """
        found: dict[Partition, float] = {}
        with consumer(_sampling(self._options)) as client:
            client.assign([TopicPartition(*partition, offset) for partition, offset in starts.items()])
            deadline = time.monotonic() + self._options.poll_timeout
            while left := sorted(starts.keys() - found.keys()):
                late = time.monotonic() > deadline
                try:
                    sample = _bytes_per_offset(client.poll(SLICE), starts)
                    found |= {p: size for p, size in sample.items() if p in left}
                    found |= {p: 0.0 for p in left if p not in found and client.position(p) >= ends[p]}
                except CorruptRecordError as error:
                    _pass_over(self._options, client, error)
                except (OffsetOutOfRangeError, NotFoundError) as error:
                    gone = (error.topic, error.partition)
                    if gone not in left:
                        raise
                    # The tasks come to it, too, and settle what is lost.
                    found[gone] = 0.0
                    client.assign([TopicPartition(*p, starts[p]) for p in left if p != gone])
                except KafkaError as error:
                    # A slice is shorter than a connection may take to come up.
                    if late or not error.retriable:
                        raise
                if late and not found.keys() >= starts.keys():
                    # If brokers are away, this fails and reports the cause.
                    client.end_offsets(sorted(left), timeout=1.0)
                    raise KafkaTimeoutError(
                        f"{names(left)}: nothing came for {self._options.poll_timeout:g} s to tell the size of records "
                        "for maxBytesPerTrigger or maxBytesPerPartition. Option kafkaConsumer.pollTimeoutMs sets how "
                        "long to wait"
                    )
        return found

    def last_seen(self, spans: list[Range]) -> dict[Partition, Seen]:
        """The last record of each range; ranges are left out whose last offsets hold none, or are not told in time."""
        found: dict[Partition, Seen] = {}
        left = {(span.topic, span.partition): span for span in spans}
        deadline = time.monotonic() + LOOKING
        with consumer(_sampling(self._options)) as client:
            client.assign([TopicPartition(*at, max(span.start, span.end - LAST_OFFSETS)) for at, span in left.items()])
            while left and time.monotonic() < deadline:
                try:
                    # Before the positions, which may raise: the consumer does not return these records again.
                    found |= _last_before(client.poll(SLICE), left)
                    passed = [at for at, span in left.items() if client.position(at) >= span.end]
                except KafkaError as error:
                    if error.retriable:
                        continue
                    # The tasks come to it, too, and can say what they miss by it.
                    break
                for at in passed:
                    del left[at]
        return found


def _sampling(options: ReadOptions) -> ReadOptions:
    return replace(options, properties=tuple(sorted({**dict(options.properties), **SAMPLING}.items())))


def _last_before(batch: Batch, spans: dict[Partition, Range]) -> dict[Partition, Seen]:
    """The last record of each range, if it is in the batch."""
    if not len(batch):
        return {}
    table = batch.to_arrow()
    # As lists of Python's: Arrow's functions import pandas for a number to compare with, which takes a trigger's time.
    columns = (table.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    last: dict[Partition, int] = {}
    for row, (topic, partition, offset) in enumerate(zip(*columns, strict=True)):
        span = spans.get((topic, partition))
        if span is not None and offset < span.end:
            last[topic, partition] = row
    records = {at: batch[row] for at, row in last.items()}
    return {at: Seen(one.offset + 1, one.leader_epoch) for at, one in records.items() if one.leader_epoch is not None}


def _in_group(options: ReadOptions, group: str) -> ReadOptions:
    given = {**dict(options.properties), "group.id": group, "enable.auto.commit": "false"}
    return replace(options, properties=tuple(sorted(given.items())))


def _present(client: Admin, topics: list[str]) -> dict[str, TopicDescription]:
    """Topics, without those that were deleted after they were listed."""
    try:
        return client.describe_topics(topics) if topics else {}
    except NotFoundError as error:
        left = [topic for topic in topics if topic not in error.failures]
        if len(left) == len(topics):
            raise
    return _present(client, left)


@cache
def _warn_of_missing(listed: str) -> None:
    """Say it once, and not at every trigger."""
    LOG.warning("Option assign names %s, which are not there and are left out until they are", listed)


def _bytes_per_offset(batch: Batch, starts: Offsets) -> dict[Partition, float]:
    if not len(batch):
        return {}
    table = batch.to_arrow()
    lengths = [pc.fill_null(pc.binary_length(table.column(name)), 0) for name in ("key", "value")]
    sized = pa.table(
        {
            "topic": table.column("topic"),
            "partition": table.column("partition"),
            "offset": table.column("offset"),
            "bytes": pc.add(*lengths),
        }
    )
    sums = sized.group_by(["topic", "partition"]).aggregate([("offset", "max"), ("bytes", "sum")])
    return {
        (row["topic"], row["partition"]): row["bytes_sum"]
        / (row["offset_max"] + 1 - starts[row["topic"], row["partition"]])
        for row in sums.to_pylist()
    }


def _topic_partitions(partitions: list[Partition]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, number in partitions]


def _offsets(told: dict[TopicPartition, int]) -> Offsets:
    return {(at.topic, at.partition): offset for at, offset in told.items()}


def planner(options: ReadOptions, past: Past | None = None) -> Planner:
    """A planner over the cluster that the options name, of a stream that remembers what it has read there."""
    return Planner(options, KafkaLog(options), past)


def read(options: ReadOptions, span: Range, layout: Layout) -> Iterator[pa.RecordBatch]:
    """The records of a range, in the columns of a frame.

    The range ends where the position passes its end, not after a count of records: compaction, aborted transactions and
    control records leave offsets without a record.

    Raises:
        DataLossError: Records of the range are gone, under `failOnDataLoss`.
        KafkaTimeoutError: Nothing came for `kafkaConsumer.pollTimeoutMs`.
        CorruptRecordError: Records cannot be read, unless option `onCorrupt` has them passed over.
        DecodeError: A record does not decode, and the mode is FAILFAST.
    """
    spare_collections()
    take(options.properties, span.token)
    at = TopicPartition(span.topic, span.partition)
    with consumer(options) as client, closing(_PassedOver(span)) as passed:
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
                yield from _rows(options, wanted, layout)
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


def _pass_over(options: ReadOptions, client: Consumer, error: CorruptRecordError) -> range:
    """Go on behind records that cannot be read, whose offsets this returns.

    Raises:
        CorruptRecordError: Option `onCorrupt` does not say so, or nobody knows where they end.
    """
    topic, partition, offset, next_offset = error.topic, error.partition, error.offset, error.next_offset
    if topic is None or partition is None or offset is None or next_offset is None:
        raise error
    if not options.skip_corrupt:
        raise CorruptRecordError(f"{error}. To pass over what cannot be read, set option onCorrupt to skip") from None
    client.seek((topic, partition), next_offset)
    return range(offset, next_offset)


def _behind(
    options: ReadOptions, client: Consumer, span: Range, position: int, error: CorruptRecordError, passed: "_PassedOver"
) -> int:
    """Go on behind records that cannot be read, and return where.

    Raises:
        CorruptRecordError: As by `_pass_over`.
    """
    if position < span.start and (error.next_offset is None or error.next_offset <= span.start):
        # They are of the range before, and were looked at for their epoch alone.
        client.seek((span.topic, span.partition), span.start)
        return span.start
    offsets = _pass_over(options, client, error)
    passed.note(offsets, error)
    return offsets.stop


class _PassedOver:
    """The offsets of a range that are passed over. Neighbours, of which there may be many, share a warning."""

    def __init__(self, span: Range) -> None:
        self._span = span
        self._offsets = range(0)
        self._cause = ""

    def note(self, offsets: range, cause: CorruptRecordError) -> None:
        if self._offsets and self._offsets.stop == offsets.start:
            self._offsets = range(self._offsets.start, offsets.stop)
            return
        self.close()
        self._offsets, self._cause = offsets, str(cause)

    def close(self) -> None:
        """Warn of what was noted."""
        if self._offsets:
            LOG.warning(
                "%s-%s: what stands at the offsets %s to %s is passed over, as option onCorrupt says: %s",
                *(self._span.topic, self._span.partition, self._offsets[0], self._offsets[-1], self._cause),
            )
        self._offsets = range(0)


def _after_error(options: ReadOptions, span: Range, position: int, error: KafkaError) -> int:
    """Find the offset to continue at after an error, or raise it if none will do."""
    if isinstance(error, LogTruncatedError):
        # The offset may be in the log, and what stands before it is not what was read.
        planner(options).report(
            f"{span.topic}-{span.partition} {span.start} to {span.end}: {str(error).partition(OF_CONSUMERS)[0]}"
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


def _is_gone(options: ReadOptions, topic: str) -> bool:
    """Ask once more whether a topic is gone: a broker that has just started may not know it yet."""
    try:
        KafkaLog(options).partitions(Topics(names=(topic,)))
    except NotFoundError:
        return True
    return False


def _after_refusal(options: ReadOptions, span: Range, position: int) -> int:
    """Find the offset to continue at after the broker said that it does not hold `position`.

    This is `position` again if the partition holds it: a leader that has just taken over can refuse what it holds. Else
    it is the first offset that is left, or the end of the range.
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


def _settle(options: ReadOptions, typed: Typed, batch: Batch, bad: list[Bad]) -> None:
    if typed.mode == FAILFAST:
        raise failure(bad[0])
    if typed.dead_letters is not None:
        # A task that Spark repeats sends them again.
        with producer(options) as client:
            send_dead_letters(client, typed.dead_letters, batch, bad)
