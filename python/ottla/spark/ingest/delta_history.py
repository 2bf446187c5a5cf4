"""The history of a Delta table: the batches of a query, from its commits.

Other writers commit between two batches too, and so does Delta itself (`OPTIMIZE`, auto compaction). Delta reads a file
for each commit, so the newest commits are read first, and only as many as needed.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress

from pyspark.sql import SparkSession

from ottla.spark.ingest.identity import Batch

# In the user metadata of each commit, as in the summary of each snapshot of Iceberg: which batch of which query it is.
# Earlier versions of ottla kept no offsets, and nothing in Delta.
QUERY, BATCH, OFFSETS = "ottla.query", "ottla.batch", "ottla.offsets"
# How many times as many commits are looked at if those before were too few.
MORE = 8


class DeltaHistory:
    """The commits of one query in one table.

    Args:
        spark: The session.
        name: Of the table, as SQL names it.
        query: Spark's id of the query.
    """

    def __init__(self, spark: SparkSession, name: str, query: str) -> None:
        self._spark, self._name, self._query = spark, name, query
        # The newest version that was looked at.
        self._version = -1

    def batches(self, first: int) -> dict[int, Batch | None]:
        """The batches by number, at least those from `first` on; none of a query that is new."""
        return self._look(lambda kept: min(kept, default=first + 1) <= first, since=-1)

    def has_new(self, number: int) -> bool:
        """Whether a batch is among the commits since the last look."""
        return number in self._look(lambda kept: number in kept, since=self._version)

    def _look(self, is_enough: Callable[[dict[int, Batch | None]], bool], since: int) -> dict[int, Batch | None]:
        limit = 1
        while True:
            history = self._spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT {limit}")
            commits = history.select("version", "userMetadata").collect()
            kept = kept_by(self._query, (metadata for _, metadata in commits))
            if is_enough(kept) or len(commits) < limit or commits[-1][0] <= since:
                self._version = commits[0][0] if commits else self._version
                return kept
            limit *= MORE


def kept_by(query: str, texts: Iterable[str | None]) -> dict[int, Batch | None]:
    """The batches of a query, by number, from the user metadata of commits, of which others write some."""
    kept: dict[int, Batch | None] = {}
    for text in texts:
        with suppress(ValueError, TypeError, KeyError):
            about = json.loads(text or "null")
            if about[QUERY] == query:
                number = int(about[BATCH])
                kept[number] = Batch.from_json(number, about[OFFSETS])
    return kept
