"""Folders of Parquet files to which micro-batches are added exactly once, for every reader.

Spark's own streaming sink keeps a list of files that only Spark reads. Here a batch is written beside the data, where
no reader looks (`_ottla`), then a plan of its moves is written, and then the files are moved to their places under
names that say batch and query. The plan is the decision: a batch that Spark replays finds its plan and makes the
moves that are left, and nothing else. Without a plan it is written anew, and what a failed attempt left is overwritten.
"""

import json
from typing import NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from ottla.spark.ingest.storage import Folder

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
        self._staging, self._plan = f"{OWN}/{query}/staging", f"{OWN}/{query}/plan.json"

    def add(self, batch: int, frame: DataFrame, most_rows: int) -> Written | None:
        """Add the rows of a batch.

        Args:
            batch: Its number.
            frame: Its rows.
            most_rows: Most rows of a file.

        Returns:
            What was written; None if an earlier attempt had decided that already.
        """
        moves = self._planned(batch)
        if moves is not None:
            self._make(moves)
            return None
        counted = Observation()
        writer = frame.observe(counted, f.count("*").alias("rows")).write.mode("overwrite").options(**self._options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.option("maxRecordsPerFile", most_rows).parquet(f"{self._folder}/{self._staging}")
        rows = int(counted.get["rows"])
        # A batch without rows is a file without rows.
        staged = [file for file in self._folder.files(self._staging) if rows and file.name.endswith(".parquet")]
        moves = [(f"{self._staging}/{file.name}", self._place(batch, n, file.name)) for n, file in enumerate(staged)]
        self._folder.write(self._plan, json.dumps({"batch": batch, "moves": moves}))
        self._make(moves)
        return Written(rows, len(staged), sum(file.size for file in staged))

    def _planned(self, batch: int) -> list[tuple[str, str]] | None:
        text = self._folder.read(self._plan)
        plan = json.loads(text) if text else {}
        return [(source, target) for source, target in plan["moves"]] if plan.get("batch") == batch else None

    def _place(self, batch: int, number: int, staged: str) -> str:
        """Where a staged file comes to stand: in the same folder of partitions, under a name of its own."""
        folders, slash, name = staged.rpartition("/")
        ending = name[name.index(".") :]
        return f"{folders}{slash}{self._query[:8]}-{batch:06d}-{number:05d}{ending}"

    def _make(self, moves: list[tuple[str, str]]) -> None:
        for source, target in moves:
            self._folder.move(source, target)
        self._folder.delete(self._staging)
