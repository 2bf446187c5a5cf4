"""Exactly once, as data: its options, the marks that shards leave in Kafka, and their meaning for a batch.

A write is divided into shards, one for each task, by the number of the task's partition. Each shard writes its rows of
a batch in one transaction, and in it a mark: an offset of a group, the batch's number plus one. A batch that Spark
replays is written only by the shards without a mark of it. Nothing here connects to a broker.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark import TaskContext

from ottla import OffsetAndMetadata
from ottla.errors import KafkaError
from ottla.spark.shared.option_values import boolean, positive, whole

OPTION = "exactlyOnce"
# What belongs to it, and has no meaning without it.
NEEDS_IT = ("appId", "shards", "version", "markerTopic", "firstBatch")
PREFIX = "ottla-sink-"
# Longer names of groups and transactional ids are of no use to anybody.
NAME = re.compile(r"[A-Za-z0-9._-]{1,180}", re.ASCII)

# Where tasks find the query that they belong to, and its micro-batch (Spark's StreamExecution, MicroBatchExecution).
QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"


class ExactlyOnceError(KafkaError):
    """What an earlier write has left in Kafka does not fit this one, which could lose or double rows."""


@dataclass(frozen=True)
class Once:
    """The options of a write that is exactly once.

    Attributes:
        app: The name under which the write is known to Kafka, whenever it starts.
        shards: How many tasks write at most.
        topic: The topic that the marks are about; it has a partition for each shard.
        version: The number of a batch; None for streams, whose batches have numbers of their own.
        first: The first batch of a stream that is written exactly once.
    """

    app: str
    shards: int
    topic: str
    version: int | None = None
    first: int = 0

    @classmethod
    def parse(cls, given: Mapping[str, str], topic: str | None) -> "Once | None":
        """Check the options.

        Args:
            given: All options, their names in lower case.
            topic: The topic of all rows, if there is one.

        Returns:
            None if the write is not to be exactly once.

        Raises:
            ValueError: One is missing, has a bad value, or has no meaning; the message names it.
        """
        if not boolean(OPTION, given, default=False):
            if unused := [name for name in NEEDS_IT if name.lower() in given]:
                raise ValueError(f"option {unused[0]} has a meaning only with {OPTION}=true: set that, or leave it out")
            return None
        app = given.get("appid", "").strip()
        if not NAME.fullmatch(app):
            raise ValueError(
                f"option appId must have up to 180 letters, digits, dots, dashes and underscores, not {app!r}"
                if app
                else f"option appId is missing: {OPTION} needs a name for the write that stays the same whenever it "
                'starts, such as "orders-enrich"'
            )
        shards = positive("shards", given)
        if shards is None:
            raise ValueError(
                f"option shards is missing: {OPTION} needs to know how many tasks write, such as 4 after "
                ".repartition(4)"
            )
        marked = given.get("markertopic", "").strip() or topic
        if marked is None:
            raise ValueError(
                f"option markerTopic is missing: where rows name their topics, {OPTION} needs one topic with a "
                "partition for each shard, to mark how far the shards are; nothing is written to it"
            )
        version = int(whole("version", given, 0)) if "version" in given else None
        return cls(app, shards, marked, version, int(whole("firstBatch", given, 0)))

    def check_batch(self) -> None:
        """Refuse what has no meaning for a batch."""
        if self.version is None:
            raise ValueError(
                f"option version is missing: with {OPTION} a batch needs a number, which grows with each batch of its "
                "appId; one that is written a second time under its number is left out"
            )
        if self.first:
            raise ValueError("option firstBatch has no meaning in a batch, which has its number from option version")

    def check_stream(self) -> None:
        """Refuse what has no meaning for a stream."""
        if self.version is not None:
            raise ValueError("option version has no meaning in a stream, whose batches have numbers of their own")

    @property
    def group(self) -> str:
        """The group that keeps the marks; with a dash and a shard's number, that shard's transactional id."""
        return PREFIX + self.app

    def transactional_id(self, shard: int) -> str:
        """Who of a shard's tasks comes last has it for itself."""
        return f"{self.group}-{shard}"


class Task(NamedTuple):
    """What one task is to write.

    Attributes:
        shard: The task's partition.
        batch: The number of the batch.
        query: The id of the query, which is that of its checkpoint; empty outside of streams.
    """

    shard: int
    batch: int
    query: str

    @classmethod
    def current(cls, once: Once) -> "Task":
        """The task that Spark runs in this process.

        Raises:
            ExactlyOnceError: There are more tasks than shards, or Spark does not report the batch.
        """
        context = TaskContext.get()
        if context is None:
            raise ExactlyOnceError(f"{OPTION} works only in Spark tasks, which know their part of a batch")
        shard = context.partitionId()
        if shard >= once.shards:
            raise ExactlyOnceError(
                f"the write of {once.app} has more tasks than option shards allows ({once.shards}): call "
                f".repartition({once.shards}) before the write, or set shards to the number of its tasks"
            )
        if once.version is not None:
            return cls(shard, once.version, "")
        query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
        if not query or not batch:
            raise ExactlyOnceError(
                f"Spark does not pass the batch number to the tasks of this stream, but {OPTION} needs it: write in "
                "foreachBatch, with option version set to the batch's number"
            )
        return cls(shard, int(batch), query)


class Mark(NamedTuple):
    """What a shard has noted in the transaction that it committed last.

    Attributes:
        batch: The number of the batch.
        query: As of `Task`.
        shards: How many shards the write had.
        rows: How many rows of the batch the shard wrote.
    """

    batch: int
    query: str
    shards: int
    rows: int

    def to_offset(self) -> OffsetAndMetadata:
        """The form in which the group stores it."""
        text = json.dumps({"query": self.query, "shards": self.shards, "rows": self.rows}, separators=(",", ":"))
        return OffsetAndMetadata(self.batch + 1, text)

    @classmethod
    def read(cls, group: str, kept: OffsetAndMetadata) -> "Mark":
        """The mark of `to_offset`.

        Raises:
            ExactlyOnceError: Another client has committed offsets in the group.
        """
        try:
            noted = json.loads(kept.metadata)
            return cls(kept.offset - 1, str(noted["query"]), int(noted["shards"]), int(noted["rows"]))
        except (ValueError, TypeError, KeyError):
            raise ExactlyOnceError(
                f"group {group} holds offset {kept.offset} with the text {kept.metadata[:80]!r}, which no write of "
                "ottla has left there: use another appId, whose group no other client uses"
            ) from None


def written(once: Once, task: Task, own: Mark | None, others: Callable[[], Iterable[Mark]]) -> Mark | None:
    """Find whether a shard has written a batch.

    Args:
        once: The write.
        task: The shard and the batch.
        own: What the shard has noted, if anything, after its transactional id was taken from all others.
        others: Gives what the other shards have noted. It is called if this one has noted nothing: what it notes has
            been found to agree with theirs.

    Returns:
        Its mark of the batch; None if it is to write it.

    Raises:
        ExactlyOnceError: The marks are of another query, of other shards or of a later batch, or they are gone.
    """
    if own is None:
        _check_first(once, task, list(others()))
        return None
    _check(once, task, own)
    _refuse_later(once, task, own, f"shard {task.shard}")
    return own if own.batch == task.batch else None


def _check_first(once: Once, task: Task, others: list[Mark]) -> None:
    for mark in others:
        _check(once, task, mark)
        # A shard that had no rows so far could write before the others find that they have done so.
        _refuse_later(once, task, mark, "another shard")
    if not others and once.version is None and task.batch > once.first:
        raise ExactlyOnceError(
            f"Kafka knows nothing of {once.app}, while its query is at batch {task.batch}: either batches before were "
            "written without this appId, or the query stood still for longer than the brokers' "
            f"offsets.retention.minutes. If nothing of batch {task.batch} is in Kafka yet, set option firstBatch to "
            f"{task.batch}"
        )


def _refuse_later(once: Once, task: Task, mark: Mark, whose: str) -> None:
    if mark.batch <= task.batch:
        return
    what, cure = (
        (f"option version is {task.batch}", "versions of an appId must grow")
        if once.version is not None
        else (f"the query is at batch {task.batch}", "its checkpoint was set back")
    )
    raise ExactlyOnceError(
        f"{whose} of {once.app} has written batch {mark.batch} already, while {what}: {cure}. To write the rows once "
        "more, take another appId"
    )


def _check(once: Once, task: Task, mark: Mark) -> None:
    if mark.query != task.query:
        whose = f"query {mark.query}" if mark.query else "batches with option version"
        raise ExactlyOnceError(
            f"appId {once.app} belongs to {whose}, which has written batch {mark.batch}: take another appId for this "
            f"{f'query ({task.query})' if task.query else 'batch'}, or continue from the checkpoint of that query"
        )
    if mark.shards != once.shards:
        raise ExactlyOnceError(
            f"{once.app} was written with shards={mark.shards}, and now with shards={once.shards}: a batch that is "
            "replayed would be divided otherwise, and rows lost or doubled. Set it back, or take another appId"
        )


def check_rows(once: Once, task: Task, mark: Mark, rows: int) -> None:
    """Compare a replayed batch with what was written of it.

    Raises:
        ExactlyOnceError: The shard had another number of rows.
    """
    if rows != mark.rows:
        raise ExactlyOnceError(
            f"batch {task.batch} is replayed with {rows} rows in shard {task.shard} of {once.app}, which wrote "
            f"{mark.rows}: the query divides its rows otherwise than before, and some would be lost or doubled. Make "
            f"it what it was; .repartition({once.shards}) before the write keeps it from changing by itself"
        )
