"""The options of a read, checked and turned into what the clients and the planner need.

Names and meanings are the same as in Spark's Kafka source (`KafkaSourceProvider`). Names are case-insensitive.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.spark.plan import topic_history_file
from ottla.spark.plan.positions import EARLIEST, LATEST, Position, check_order, parse_assigned, parse_end, parse_start
from ottla.spark.shared import formats
from ottla.spark.shared.formats import Typed
from ottla.spark.shared.offsets import Partition, names
from ottla.spark.shared.option_values import boolean, choice, kafka_properties, lowered, positive, seconds, whole

LOG = logging.getLogger("ottla.spark")

SUBSCRIBE, PATTERN, ASSIGN = "subscribe", "subscribePattern", "assign"

# Every option but kafka.*, by its canonical name.
KNOWN = (
    SUBSCRIBE,
    PATTERN,
    ASSIGN,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "minRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "includeHeaders",
    "failOnDataLoss",
    "onCorrupt",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "commitOffsetsToGroup",
    topic_history_file.OPTION,
    *formats.KNOWN,
)

# Those by which a partition has several tasks.
DIVIDING = ("minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition")

# Set by the source itself, refused as Spark's Kafka source refuses them.
REFUSED = {
    "auto.offset.reset": "use startingOffsets instead; it can be set together with startingOffsets=group:ID",
    "key.deserializer": "keys are bytes; use option key.format to decode them",
    "value.deserializer": "values are bytes; use option value.format to decode them",
    "enable.auto.commit": "the Spark checkpoint keeps the offsets; option commitOffsetsToGroup commits them to a group",
    "interceptor.classes": "there is no Java consumer to intercept",
}

# Properties of consumer groups. Tasks get their partitions without one, so that these change nothing. Spark's own
# source takes them too.
OF_GROUPS = frozenset(
    {
        "auto.commit.interval.ms",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)


@dataclass(frozen=True)
class Topics:
    """What is read; one of the three is set.

    Attributes:
        names: Names of topics, sorted, each once (`subscribe`).
        pattern: A regular expression that is searched for in names of topics (`subscribePattern`).
        assigned: Partitions, sorted, each once (`assign`).
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[Partition, ...] = ()

    @property
    def option(self) -> str:
        """The option that names them."""
        return SUBSCRIBE if self.names else ASSIGN if self.assigned else PATTERN


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of a read. They are plain data and travel to executors by pickle.

    Attributes:
        bootstrap: Addresses, `host:port` separated by commas; empty for a read of files.
        topics: What is read.
        start: The user's beginning; None leaves it to the kind of read.
        end: The user's end; None for latest.
        latest_if_none: Whether a partition begins at its end, rather than fails the read, if `start` is a time after
            all of its records.
        min_partitions: The least number of tasks.
        max_records: Most records of a task.
        max_task_bytes: About the most bytes of keys and values of a task.
        min_task_records: Least records of a task, which reads several partitions where one has fewer.
        max_offsets: Most records of a micro-batch.
        min_offsets: Records for which a micro-batch waits.
        max_delay: Seconds after which it no longer waits.
        max_bytes: About the most bytes of keys and values of a micro-batch.
        include_headers: Whether the column `headers` is there.
        fail_on_data_loss: Whether records that are gone fail the query.
        skip_corrupt: Whether records that cannot be read are skipped, with a warning, rather than fail the query.
        poll_timeout: Seconds without progress after which a range fails.
        fetch_attempts: How often the driver requests offsets before it fails.
        fetch_interval: Seconds between these attempts.
        typed: What is decoded, and which columns are wanted; None for the same columns as Spark's Kafka source.
        commit_group: The consumer group to which a stream commits what it has read.
        remember_in: The folder in which a stream keeps the ids of its topics over restarts.
        properties: Kafka's own properties, from the options that begin with `kafka.`. A repr leaves them out,
            since some are secret.
    """

    bootstrap: str
    topics: Topics
    start: Position | None = None
    end: Position | None = None
    latest_if_none: bool = False
    min_partitions: int | None = None
    max_records: int | None = None
    max_task_bytes: int | None = None
    min_task_records: int | None = None
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay: float = 15 * 60.0
    max_bytes: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    skip_corrupt: bool = False
    poll_timeout: float = 120.0
    fetch_attempts: int = 3
    fetch_interval: float = 1.0
    typed: Typed | None = None
    commit_group: str | None = None
    remember_in: str | None = None
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def stream_start(self) -> Position:
        """Where a new stream begins: by default at the latest offset, as with Spark's Kafka source."""
        return self.start or Position("startingOffsets", LATEST)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Check options and give them their types.

        Args:
            options: As Spark hands them over.

        Raises:
            ValueError: One is missing, unknown or has a bad value; the message names it.
        """
        given = lowered(options, KNOWN)
        start = parse_start(given)
        if start is not None and start.group is not None:
            # It sets where partitions without a commit begin, as for the consumers of a group.
            given.pop("kafka.auto.offset.reset", None)
        bootstrap, properties = kafka_properties(given, REFUSED)
        parsed = cls(
            bootstrap=bootstrap,
            topics=parse_topics(given),
            start=start,
            end=parse_end(given),
            latest_if_none=choice("startingOffsetsByTimestampStrategy", given, ("error", "latest")) == "latest",
            min_partitions=positive("minPartitions", given),
            max_records=positive("maxRecordsPerPartition", given),
            max_task_bytes=positive("maxBytesPerPartition", given),
            min_task_records=positive("minRecordsPerPartition", given),
            max_offsets=positive("maxOffsetsPerTrigger", given),
            min_offsets=positive("minOffsetsPerTrigger", given),
            max_delay=seconds("maxTriggerDelay", given, cls.max_delay),
            max_bytes=positive("maxBytesPerTrigger", given),
            include_headers=boolean("includeHeaders", given, default=cls.include_headers),
            fail_on_data_loss=boolean("failOnDataLoss", given, default=cls.fail_on_data_loss),
            skip_corrupt=choice("onCorrupt", given, ("fail", "skip")) == "skip",
            poll_timeout=(positive("kafkaConsumer.pollTimeoutMs", given) or cls.poll_timeout * 1000) / 1000,
            fetch_attempts=positive("fetchOffset.numRetries", given) or cls.fetch_attempts,
            fetch_interval=whole("fetchOffset.retryIntervalMs", given, cls.fetch_interval * 1000) / 1000,
            typed=formats.parse(given),
            commit_group=_group(given),
            remember_in=_folder(given),
            properties=tuple(sorted(_without_groups(properties).items())),
        )
        if parsed.min_offsets and parsed.max_offsets and parsed.min_offsets > parsed.max_offsets:
            raise ValueError(
                f"option minOffsetsPerTrigger ({parsed.min_offsets}) is above maxOffsetsPerTrigger "
                f"({parsed.max_offsets}): no batch can hold both"
            )
        dividing = [name for name in DIVIDING if name.lower() in given]
        if parsed.min_task_records is not None and dividing:
            raise ValueError(
                f"option minRecordsPerPartition joins what {dividing[0]} divides among tasks: leave out one of them"
            )
        _refuse_own_letters(parsed.topics, parsed.typed.dead_letters if parsed.typed else None)
        return parsed

    def check_batch(self) -> None:
        """Refuse options that have no meaning for a batch."""
        for position, useless, what in ((self.start, LATEST, "latest"), (self.end, EARLIEST, "earliest")):
            if position is None or position.timed:
                continue
            if position.at == useless:
                raise ValueError(
                    f'option {position.option} cannot be "{what}" in a batch, which would read nothing: '
                    "name the other end of the topics or give offsets as JSON"
                )
            if isinstance(position.at, dict) and useless in position.at.values():
                these = names(p for p, offset in sorted(position.at.items()) if offset == useless)
                raise ValueError(
                    f"option {position.option} cannot hold {useless} ({what}) for {these} in a batch, "
                    "which would read nothing there"
                )
        check_order(self.start, self.end)
        limits = {
            "maxOffsetsPerTrigger": self.max_offsets,
            "minOffsetsPerTrigger": self.min_offsets,
            "maxBytesPerTrigger": self.max_bytes,
        }
        if unused := [name for name, value in limits.items() if value is not None]:
            LOG.warning("A batch has no triggers and ignores %s", ", ".join(unused))
        if self.commit_group is not None:
            raise ValueError(
                "option commitOffsetsToGroup has no meaning in a batch, which does not know whether its rows were "
                "used: leave it out"
            )
        if self.remember_in is not None:
            raise ValueError(
                f"option {topic_history_file.OPTION} has no meaning in a batch, which has no later one: leave it out"
            )

    def check_stream(self) -> None:
        """Refuse options that have no meaning for a stream."""
        if self.end is not None:
            raise ValueError(
                f"option {self.end.option} has no meaning in a stream: "
                "use the trigger availableNow to stop at today's end"
            )


def _refuse_own_letters(topics: Topics, letters: str | None) -> None:
    """Refuse a topic of dead letters that is read itself: each letter would be one more bad record, without end."""
    if letters is None:
        return
    read = letters in topics.names or any(topic == letters for topic, _ in topics.assigned)
    if read or (topics.pattern is not None and re.search(topics.pattern, letters)):
        raise ValueError(
            f"option deadLetterTopic is {letters}, which option {topics.option} reads: its letters would be read and "
            "sent again without end. Name a topic that is not read"
        )


def _group(given: Mapping[str, str]) -> str | None:
    group = given.get("commitoffsetstogroup")
    if group is not None and not group.strip():
        raise ValueError("option commitOffsetsToGroup names no group: give the id of a consumer group")
    return group and group.strip()


def _folder(given: Mapping[str, str]) -> str | None:
    folder = given.get(topic_history_file.OPTION.lower())
    if folder is not None and not folder.strip():
        raise ValueError(f"option {topic_history_file.OPTION} is empty: name a folder of this stream alone")
    return folder and folder.strip()


def _without_groups(properties: Mapping[str, str]) -> dict[str, str]:
    if unused := sorted(OF_GROUPS & properties.keys()):
        listed = ", ".join(f"kafka.{name}" for name in unused)
        LOG.warning("ottla assigns partitions to tasks without a consumer group, which leaves %s unused", listed)
    return {name: value for name, value in properties.items() if name not in OF_GROUPS}


def parse_topics(given: Mapping[str, str]) -> Topics:
    """The topics of `subscribe`, `subscribePattern` or `assign`, of which one must be set.

    Args:
        given: Options by their names in lower case.

    Raises:
        ValueError: None is there, or several, or it has a bad value.
    """
    named = [name for name in (SUBSCRIBE, PATTERN, ASSIGN) if name.lower() in given]
    if not named:
        raise ValueError(
            f'one of the options {SUBSCRIBE}, {PATTERN} and {ASSIGN} must be set, such as subscribe="orders,payments"'
        )
    if len(named) > 1:
        raise ValueError(f"options {' and '.join(named)} exclude each other: leave one of them")
    text = given[named[0].lower()].strip()
    if named[0] == ASSIGN:
        return Topics(assigned=parse_assigned(text))
    if named[0] == SUBSCRIBE:
        topics = tuple(sorted({topic for topic in map(str.strip, text.split(",")) if topic}))
        if not topics:
            raise ValueError(
                'option subscribe names no topic: give names separated by commas, such as "orders,payments"'
            )
        return Topics(names=topics)
    if not text:
        raise ValueError('option subscribePattern is empty: give a regular expression, such as "orders-.*"')
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(
            f"option subscribePattern is not a regular expression that Python's module re knows: {text!r}: {error}"
        ) from None
    return Topics(pattern=text)
