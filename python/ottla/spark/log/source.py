"""What Spark calls for `format("ottla-log")`, on the driver and in executors."""

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from ottla.spark.log.options import LogOptions
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.source import OttlaDataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter

BATCHES_ONLY = 'format("ottla-log") reads the files of a broker\'s log in batches'


class OttlaLogDataSource(OttlaDataSource):
    """A broker's log segments as rows, by `format("ottla-log")`."""

    @cached_property
    def _log(self) -> LogOptions:
        return LogOptions.parse(self._given)

    @cached_property
    def _options(self) -> ReadOptions:
        return self._log.read

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return "ottla-log"

    def reader(self, schema: StructType) -> DataSourceReader:
        """What `spark.read` uses."""
        from ottla.spark.log.reader import LogReader

        layout = self._layout(schema)
        self._options.check_batch()
        return LogReader(self._log, layout)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":  # noqa: ARG002
        """Refuse."""
        from ottla.spark.read.stream import RefusedStream

        return RefusedStream(ValueError(f'{BATCHES_ONLY}: read streams from the brokers, by format("ottla")'))

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":  # noqa: ARG002
        """Refuse."""
        raise ValueError(f'{BATCHES_ONLY}, and writes none: write to the brokers, by format("ottla")')

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamWriter":  # noqa: ARG002
        """Refuse."""
        raise ValueError(f'{BATCHES_ONLY}, and writes none: write to the brokers, by format("ottla")')
