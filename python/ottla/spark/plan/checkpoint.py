"""The folder for a stream's position, in the layout of a Spark checkpoint.

So a query can move to `format("ottla")` or `format("kafka")` and back. The folder holds `metadata`, `sources/0/0` with
where the first batch begins, and for each batch `offsets/N`, written before it, and `commits/N`, written after it.
In addition `ottla/N` has what a stream remembers of topics and logs, which Spark's own queries ignore.
Hadoop's file systems read and write them, so that the folder may be wherever Spark's own checkpoints are.
"""

import json
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla.spark.plan.topic_history import TopicHistory
from ottla.spark.shared.offsets import Offsets, from_json, to_json
from ottla.spark.shared.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of offsets and commits, of which Spark keeps as many (`spark.sql.streaming.minBatchesToRetain`).
KEPT = 100
VERSION = "v1"
# What is remembered of topics and logs.
PAST = "ottla"
# Where the first batch begins.
FIRST = "sources/0/0"


class Planned(NamedTuple):
    """A batch whose end is decided.

    Attributes:
        number: Counts from 0.
        start: Where it begins; of one that is done, its end.
        end: Where it ends.
        done: Whether it was processed.
    """

    number: int
    start: Offsets
    end: Offsets
    done: bool


class Checkpoint:
    """One stream's folder. Two drivers that use it at once are detected by the files that they create."""

    def __init__(self, spark: "SparkSession", folder: str) -> None:
        self._folder = folder
        self._files = Folder(spark, folder)

    def last(self) -> Planned | None:
        """The last batch that was planned; None in a new folder.

        Raises:
            ValueError: The folder is not that of one stream of Kafka records.
        """
        numbers = self._numbers("offsets")
        if not numbers:
            return None
        number = numbers[-1]
        end = self._end_of(number)
        if self._files.size(f"commits/{number}") is not None:
            return Planned(number, end, end, done=True)
        start = self._end_of(number - 1) if number - 1 in numbers else self._initial(number)
        return Planned(number, start, end, done=False)

    def first(self) -> Offsets | None:
        """Where the first batch begins; None if that was not decided here.

        Raises:
            ValueError: The folder is not that of a stream of Kafka records.
        """
        text = self._files.read(FIRST)
        return None if text is None else self._parsed(text.partition("\n")[2], FIRST)

    def has_commits(self) -> bool:
        """Whether any batch was processed."""
        return bool(self._numbers("commits"))

    def begin(self, offsets: Callable[[], Offsets]) -> Offsets:
        """Where the first batch begins: as it was decided before, else decided now."""
        if self._files.size("metadata") is None:
            self._make("metadata", json.dumps({"id": str(uuid.uuid4())}))
        kept = self.first()
        if kept is not None:
            return kept
        decided = offsets()
        # The byte 0 stands in front since Spark 2.1.
        self._make(FIRST, f"\0{VERSION}\n{_text(decided)}")
        return decided

    def plan(self, batch: Planned) -> None:
        """Keep what a batch reads, before it is processed.

        Raises:
            ValueError: Another driver has planned it.
        """
        about = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
        text = "\n".join((VERSION, json.dumps(about), _text(batch.end)))
        self._make(f"offsets/{batch.number}", text)

    def remember(self, batch: Planned, past: TopicHistory) -> None:
        """Keep what the stream remembers at the end of a batch, unless it was kept when the batch was given before."""
        self._files.make(f"{PAST}/{batch.number}", json.dumps(past.to_json()))

    @property
    def own(self) -> str | None:
        """The path of the folder of what is remembered; None if it is not on this machine."""
        return self._files.local(PAST)

    def past(self, batch: Planned) -> TopicHistory:
        """What the stream remembers where it goes on; nothing if another source has read the last batch."""
        text = self._files.read(f"{PAST}/{batch.number if batch.done else batch.number - 1}")
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            return TopicHistory.from_json(json.loads(text or "{}"))
        return TopicHistory()

    def commit(self, batch: Planned) -> None:
        """Keep that a batch is processed, and drop what is long past.

        Raises:
            ValueError: Another driver has done so.
        """
        self._make(f"commits/{batch.number}", f'{VERSION}\n{{"nextBatchWatermarkMs":0}}')
        for kind in ("offsets", "commits", PAST):
            self._files.delete(f"{kind}/{batch.number - KEPT}")

    def _make(self, name: str, text: str) -> None:
        if not self._files.make(name, text):
            raise ValueError(
                f"checkpoint {self._folder} is used by another query, which has made {name}: stop one of the two, or "
                "give each a folder of its own"
            )

    def _numbers(self, kind: str) -> list[int]:
        """The batches of which there are files of a kind, in order."""
        return sorted(int(name) for name in self._files.names(kind) if name.isdigit())

    def _initial(self, number: int) -> Offsets:
        kept = self.first() if number == 0 else None
        if kept is not None:
            return kept
        raise ValueError(
            f"checkpoint {self._folder} does not have the beginning of batch {number}: it lacks "
            f"{f'offsets/{number - 1}' if number else FIRST}. Restore the file, or name a new folder"
        )

    def _end_of(self, number: int) -> Offsets:
        name = f"offsets/{number}"
        version, *lines = (self._files.read(name) or "").split("\n")
        if version != VERSION or len(lines) != 2:
            raise ValueError(
                f"checkpoint {self._folder}: {name} is not of a stream with one source, in version {VERSION}. Name "
                "the folder of a stream that reads Kafka's records and nothing else, or a new one"
            )
        return self._parsed(lines[1], name)

    def _parsed(self, text: str, name: str) -> Offsets:
        with suppress(ValueError, AttributeError, TypeError):
            return from_json(json.loads(text))
        raise ValueError(
            f"checkpoint {self._folder}: {name} holds no Kafka offsets: {text[:100]!r}. Name the folder of a stream "
            "that reads Kafka records, or a new one"
        )


def _text(offsets: Offsets) -> str:
    return json.dumps(to_json(offsets), separators=(",", ":"))
