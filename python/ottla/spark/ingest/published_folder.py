"""Folders of Parquet files to which micro-batches are added exactly once, for every reader.

The streaming file sink of Spark keeps a list of files that only Spark reads. Here each attempt at a batch writes its
files to its own folder next to the data, where no reader looks (`_ottla`), then a plan of their moves is made, and
then they are moved to their places under names that contain batch and query. The plan is the decision: a batch that
Spark replays finds the plan and makes only the moves that are left. A plan for other offsets is an error. Without a
plan the batch is written again, and what failed attempts have left is deleted.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from ottla.spark.ingest.identity import Batch
from ottla.spark.ingest.moves import Move, Moves
from ottla.spark.shared.storage import Folder

OWN = "_ottla"


class Written(NamedTuple):
    """What became of a batch.

    Attributes:
        rows: How many there are.
        files: In how many files.
        size: Bytes of the files.
    """

    rows: int
    files: int
    size: int


class PublishedFolder:
    """A folder of Parquet files.

    Args:
        spark: The session.
        path: Of the folder.
        query: Spark's id of the query, which stays the same as long as its checkpoint.
        partition_by: Columns that are folders.
        options: Of the format.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        query: str,
        partition_by: tuple[str, ...] = (),
        options: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._folder = Folder(spark, path)
        self._query = query
        self._partition_by = partition_by
        self._options = dict(options)
        # Of one query alone: others may write here, too.
        self._moves = Moves(self._folder, f"{OWN}/{query}")

    def add(self, batch: Batch, frame: DataFrame, most_rows: int) -> Written | None:
        """Add the rows of a batch.

        Args:
            batch: Which one it is.
            frame: Its rows.
            most_rows: Most rows of a file.

        Returns:
            What was written; None if an earlier attempt had decided that already.

        Raises:
            IngestError: The folder has another batch of this number, another job runs on this checkpoint, or files
                were touched.
        """
        planned = self._moves.planned(batch)
        if planned is not None:
            self._moves.make(batch.number, planned, again=True)
            return None
        staging = self._moves.staging(batch.number)
        counted = Observation()
        writer = frame.observe(counted, f.count("*").alias("rows")).write.options(**self._options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.option("maxRecordsPerFile", most_rows).parquet(f"{self._folder}/{staging}")
        rows = int(counted.get["rows"])
        # A batch without rows is a file without rows.
        staged = [file for file in self._folder.files(staging) if rows and file.name.endswith(".parquet")]
        moves = [
            Move(f"{staging}/{file.name}", self._place(batch.number, n, file.name)) for n, file in enumerate(staged)
        ]
        self._moves.plan(batch, moves)
        self._moves.make(batch.number, moves, again=False)
        return Written(rows, len(staged), sum(file.size for file in staged))

    def _place(self, batch: int, number: int, staged: str) -> str:
        """Where a staged file comes to stand: in the same folder of partitions, under a name of its own."""
        folders, slash, name = staged.rpartition("/")
        ending = name[name.index(".") :]
        return f"{folders}{slash}{self._query[:8]}-{batch:06d}-{number:05d}{ending}"
