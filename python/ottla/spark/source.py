"""The data source `ottla`: what Spark calls, on the driver and in executors.

Spark sends these objects around by pickle, so they hold options and plans only; clients are made where they are used
(`ottla.spark.read.client_pool`). Method names are Spark's (`pyspark.sql.datasource`).
"""

import sys
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from ottla.errors import KafkaError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.batch import BatchReader
from ottla.spark.read.columns import COLUMNS, HEADERS
from ottla.spark.shared import redaction
from ottla.spark.shared.pickling import Picklable

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter

    from ottla import RegisteredSchema
    from ottla.spark.read.layout import Layout
    from ottla.spark.shared.formats import SideName

# What a worker of Spark 4.1 or newer runs to push filters down. It is loaded there only if
# `spark.sql.python.filterPushdown.enabled` is true; elsewhere a reader with `pushFilters` would fail the query.
PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


class OttlaDataSource(Picklable, DataSource):
    """Kafka topics as rows, by `format("ottla")`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        # Spark does not pass here whether they are of a read or of a write.
        self._given = dict(options)
        redaction.check(self._given)

    @cached_property
    def _options(self) -> ReadOptions:
        return ReadOptions.parse(self._given)

    @cached_property
    def _registered(self) -> "dict[SideName, RegisteredSchema]":
        """The schemas from registries. They are requested once, before Spark serializes this object."""
        from ottla.spark.read.schema import look_up

        return look_up(self._options)

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return "ottla"

    def schema(self) -> StructType | str:
        """The same columns as Spark's Kafka source, `headers` by option, with keys and values in their types."""
        if self._options.typed is None:
            return StructType(COLUMNS + [HEADERS] * self._options.include_headers)
        from ottla.spark.read.schema import schema

        return schema(self._options, self._registered)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What `spark.read` uses."""
        layout = self._layout(schema)
        self._options.check_batch()
        if PUSHDOWN in sys.modules:
            from ottla.spark.read.filtered_batch import FilteredReader

            return FilteredReader(self._options, layout)
        return BatchReader(self._options, layout)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":
        """What `spark.readStream` uses; Spark 4.0 and 4.1 know no limits and no availableNow."""
        try:
            layout = self._layout(schema)
            self._options.check_stream()
        except (ValueError, KafkaError) as error:
            from ottla.spark.read.stream import RefusedStream

            return RefusedStream(error)
        if find_spec("pyspark.sql.streaming.datasource") is None:
            from ottla.spark.read.stream import UnlimitedStreamReader

            return UnlimitedStreamReader(self._options, layout)
        from ottla.spark.read.small_batches import SmallBatchReader, reads_small

        if reads_small(self._options, layout):
            return SmallBatchReader(self._options, layout)
        from ottla.spark.read.limited_stream import LimitedStreamReader

        return LimitedStreamReader(self._options, layout)

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        """What `df.write` uses."""
        if overwrite:
            raise ValueError(
                'mode "overwrite" is not possible: a topic is only ever appended to. Use .mode("append"), and delete '
                "the topic or its records first if they are to go"
            )
        from ottla.spark.write.producers import checked_batch
        from ottla.spark.write.writers import BatchWriter

        return BatchWriter(*checked_batch(self._given, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamWriter":  # noqa: ARG002
        """What `df.writeStream` uses.

        Output mode `complete` sets `overwrite`. As in Spark's own Kafka sink, each micro-batch then appends all rows of
        the result again.
        """
        from ottla.spark.write.options import WriteOptions
        from ottla.spark.write.producers import check

        options = WriteOptions.parse(self._given)
        if options.once:
            options.once.check_stream()
        check(options)
        columns = options.columns(schema)
        if hasattr(datasource, "DataSourceStreamArrowWriter"):
            from ottla.spark.write.arrow_writer import StreamWriter

            return StreamWriter(options.with_token(), columns)
        from ottla.spark.write.writers import RowStreamWriter

        return RowStreamWriter(options.with_token(), columns)

    def _layout(self, schema: StructType) -> "Layout":
        from ottla.spark.read.schema import layout

        typed = self._options.typed
        if typed is None:
            own = StructType(COLUMNS + [HEADERS] * self._options.include_headers)
            if schema != own:
                raise ValueError(
                    f"format {self.name()} has a schema of its own, {own.simpleString()}: leave out .schema(...) and "
                    "select or decode columns afterwards, or set option value.format to have values decoded"
                )
            return layout(self._options, schema, {})
        # Descriptors have all fields of a message, even where the user names some.
        needed = any(side.name == "protobuf" for side in typed.sides)
        registered = self._registered if needed or "_registered" in vars(self) else {}
        return layout(self._options, schema, registered)
