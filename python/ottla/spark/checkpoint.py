"""The folder in which a stream keeps where it stands, in the layout of Spark's own checkpoints.

So a query can move to `format("ottla")` or `format("kafka")` and back. The folder holds `metadata`, `sources/0/0` with
where the first batch begins, and for each batch `offsets/N`, written before it, and `commits/N`, written after it.
Hadoop's file systems read and write them, so that the folder may be wherever Spark's own checkpoints are.
"""

import json
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.spark.offsets import Offsets, from_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of offsets and commits, of which Spark keeps as many (`spark.sql.streaming.minBatchesToRetain`).
KEPT = 100
VERSION = "v1"


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
    """One stream's folder. Two drivers that use it at once are told apart by the files that they make."""

    def __init__(self, spark: "SparkSession", folder: str) -> None:
        self._folder = folder
        self._files = _Files(spark, folder)

    def last(self) -> Planned | None:
        """The last batch that was planned; None in a new folder.

        Raises:
            ValueError: The folder is not that of one stream of Kafka's records.
        """
        numbers = self._files.numbers("offsets")
        if not numbers:
            return None
        number = numbers[-1]
        end = self._end_of(number)
        if self._files.has(f"commits/{number}"):
            return Planned(number, end, end, done=True)
        start = self._end_of(number - 1) if number - 1 in numbers else self._initial(number)
        return Planned(number, start, end, done=False)

    def first(self) -> Offsets | None:
        """Where the first batch begins; None if that was not decided here.

        Raises:
            ValueError: The folder is not that of a stream of Kafka's records.
        """
        return self._initial(0) if self._files.has("sources/0/0") else None

    def has_commits(self) -> bool:
        """Whether any batch was processed."""
        return bool(self._files.numbers("commits"))

    def begin(self, offsets: Callable[[], Offsets]) -> Offsets:
        """Where the first batch begins: as it was decided before, else decided now."""
        if not self._files.has("metadata"):
            self._files.make("metadata", json.dumps({"id": str(uuid.uuid4())}))
        if self._files.has("sources/0/0"):
            return self._initial(0)
        decided = offsets()
        # The byte 0 stands in front since Spark 2.1.
        self._files.make("sources/0/0", f"\0{VERSION}\n{_text(decided)}")
        return decided

    def plan(self, batch: Planned) -> None:
        """Keep what a batch reads, before it is processed.

        Raises:
            ValueError: Another driver has planned it.
        """
        about = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
        told = "\n".join((VERSION, json.dumps(about), _text(batch.end)))
        self._files.make(f"offsets/{batch.number}", told)

    def commit(self, batch: Planned) -> None:
        """Keep that a batch is processed, and drop what is long past.

        Raises:
            ValueError: Another driver has done so.
        """
        self._files.make(f"commits/{batch.number}", f'{VERSION}\n{{"nextBatchWatermarkMs":0}}')
        for kind in ("offsets", "commits"):
            self._files.drop(f"{kind}/{batch.number - KEPT}")

    def _initial(self, number: int) -> Offsets:
        if number == 0 and self._files.has("sources/0/0"):
            _, _, told = self._files.read("sources/0/0").partition("\n")
            return self._parsed(told, "sources/0/0")
        raise ValueError(
            f"checkpoint {self._folder} does not tell where batch {number} begins: it lacks "
            f"{f'offsets/{number - 1}' if number else 'sources/0/0'}. Restore the file, or name a new folder"
        )

    def _end_of(self, number: int) -> Offsets:
        name = f"offsets/{number}"
        version, *lines = self._files.read(name).split("\n")
        if version != VERSION or len(lines) != 2:
            raise ValueError(
                f"checkpoint {self._folder}: {name} is not of a stream with one source, in version {VERSION}. Name "
                "the folder of a stream that reads Kafka's records and nothing else, or a new one"
            )
        return self._parsed(lines[1], name)

    def _parsed(self, told: str, name: str) -> Offsets:
        with suppress(ValueError, AttributeError, TypeError):
            return from_json(json.loads(told))
        raise ValueError(
            f"checkpoint {self._folder}: {name} holds no offsets of Kafka: {told[:100]!r}. Name the folder of a stream "
            "that reads Kafka's records, or a new one"
        )


def _text(offsets: Offsets) -> str:
    return json.dumps(to_json(offsets), separators=(",", ":"))


class _Files:
    """Small texts in a folder of a Hadoop file system."""

    def __init__(self, spark: "SparkSession", folder: str) -> None:
        context: Any = spark.sparkContext
        self._jvm, self._gateway = context._jvm, context._gateway  # noqa: SLF001 - Spark has no Python API of files
        configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        root = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._system = root.getFileSystem(configuration)
        self._root = self._system.makeQualified(root)
        self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), configuration)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}")

    def has(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def numbers(self, folder: str) -> list[int]:
        """The files of a folder that are named by numbers, in order."""
        if not self.has(folder):
            return []
        names = [status.getPath().getName() for status in self._system.listStatus(self._path(folder))]
        return sorted(int(name) for name in names if name.isdigit())

    def read(self, name: str) -> str:
        stream = self._system.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def make(self, name: str, text: str) -> None:
        """Make a file as a whole, which was not there."""
        path = self._path(name)
        part = self._jvm.org.apache.hadoop.fs.Path(path.getParent(), f".{path.getName()}.{uuid.uuid4()}.tmp")
        stream = self._system.create(part, False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        plain = self._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)
        try:
            self._context.rename(part, path, plain)
        except Exception as error:
            self._system.delete(part, False)
            if self.has(name):
                raise ValueError(
                    f"checkpoint {self._root} is used by another query, which has made {name}: stop one of the two, "
                    "or give each a folder of its own"
                ) from None
            raise OSError(f"checkpoint {self._root}: {name} cannot be made: {error}") from error

    def drop(self, name: str) -> None:
        self._system.delete(self._path(name), False)
