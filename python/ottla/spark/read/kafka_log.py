"""The cluster as a planner needs to know it: partitions, offsets, samples of records."""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from ottla import Admin, Batch, TopicDescription, TopicPartition
from ottla.errors import CorruptRecordError, KafkaError, KafkaTimeoutError, NotFoundError, OffsetOutOfRangeError
from ottla.spark.plan.planner import Planner
from ottla.spark.plan.read_options import ReadOptions, Topics
from ottla.spark.plan.topic_history import TopicHistory
from ottla.spark.read.client_pool import admin, consumer
from ottla.spark.read.corrupt_records import pass_over
from ottla.spark.shared.offsets import Offsets, Partition, names
from ottla.spark.shared.ranges import Range, Seen

LOG = logging.getLogger("ottla.spark")

# Seconds after which a waiting read checks its position: a range can end in offsets that hold no record.
SLICE = 0.1
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


def _absent(topics: Topics, error: NotFoundError) -> NotFoundError:
    if topics.pattern is not None:
        return NotFoundError(f"topic {error.topic}, which {topics.option} matches, was deleted meanwhile: {error}")
    return NotFoundError(f"option {topics.option} names topic {error.topic}, which does not exist: {error}")


class KafkaLog:
    """The planner's access to the cluster of the options.

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
        """Return the offset after the last record of each partition that may be read."""
        with self._deleted_is_named(), consumer(self._options) as client:
            return _offsets(client.end_offsets(_topic_partitions(partitions)))

    def at_times(self, times: Offsets) -> dict[Partition, int | None]:
        """The first offset of each partition whose record is at or after a time; None without one."""
        with consumer(self._options) as client:
            found = client.offsets_for_times(times)
        return {(at.topic, at.partition): None if record is None else record.offset for at, record in found.items()}

    def committed(self, group: str, partitions: list[Partition]) -> Offsets:
        """The committed offsets of a consumer group, without partitions that have none."""
        with consumer(_in_group(self._options, group)) as client:
            found = client.committed(_topic_partitions(partitions))
        return {(at.topic, at.partition): commit.offset for at, commit in found.items() if commit is not None}

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit these offsets for a consumer group, which must have no members."""
        with consumer(_in_group(self._options, group)) as client:
            client.commit({TopicPartition(*partition): offset for partition, offset in offsets.items()})

    def record_bytes(self, starts: Offsets, ends: Offsets) -> dict[Partition, float]:
        """The bytes of keys and values, on average for an offset, of the first records between start and end.

        It is measured on a sample of each partition; offsets without a record count as 0 bytes.

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
                    pass_over(self._options, client, error)
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
                        f"{names(left)}: no records came for {self._options.poll_timeout:g} s to measure their size "
                        "for maxBytesPerTrigger or maxBytesPerPartition. Option kafkaConsumer.pollTimeoutMs sets how "
                        "long to wait"
                    )
        return found

    def last_seen(self, spans: list[Range]) -> dict[Partition, Seen]:
        """The last record of each range; without ranges whose last offsets hold none, or do not arrive in time."""
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
                    # The tasks get this error too, and report which records it affects.
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
    """Warn once, and not at every trigger."""
    LOG.warning("Option assign names %s, which do not exist and are skipped until they do", listed)


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


def _offsets(found: dict[TopicPartition, int]) -> Offsets:
    return {(at.topic, at.partition): offset for at, offset in found.items()}


def planner(options: ReadOptions, past: TopicHistory | None = None) -> Planner:
    """A planner over the cluster that the options name, of a stream that remembers what it has read there."""
    return Planner(options, KafkaLog(options), past)
