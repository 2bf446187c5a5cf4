"""Batches under Spark 4.1 and newer, which hands filters to the reader (SPARK-51271)."""

from collections.abc import Iterable

from pyspark.sql import datasource

from ottla.spark.plan.filters import Filter, Narrowing
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.batch import BatchReader
from ottla.spark.read.layout import Layout


class FilteredReader(BatchReader):
    """A batch that leaves out what filters on topic, partition, offset and timestamp rule out."""

    def __init__(self, options: ReadOptions, layout: Layout) -> None:
        super().__init__(options, layout)
        self._left = Narrowing()

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:
        """Take filters, before `partitions` is called.

        Returns:
            Those that Spark must apply to each row.
        """
        for given in filters:
            plain = _plain(given)
            done = False
            # A field of a flattened value may have the name of a column that the frame leaves out.
            if plain is not None and plain.column in self._layout.of_records:
                self._left, done = self._left.after(plain)
            if not done:
                yield given

    def _narrowing(self) -> Narrowing:
        return self._left


def _plain(given: datasource.Filter) -> Filter | None:
    """The filter as data; None for a field inside of a column."""
    inner = given.child if isinstance(given, datasource.Not) else given
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    if len(path) != 1:
        return None
    return Filter(path[0], type(inner).__name__, getattr(inner, "value", None), negated=inner is not given)
