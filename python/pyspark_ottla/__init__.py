"""Lets Spark find `format("ottla")`: Spark imports every package named `pyspark_*` and takes its `DefaultSource`.

That import happens in the first data source lookup of every session, whether or not it reads Kafka, so it must be cheap
and must not fail. What fails here is raised when the source is used.
"""

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]

DefaultSource: type[DataSource]

try:
    from ottla.spark.source import OttlaDataSource as DefaultSource
except Exception as error:  # noqa: BLE001 - any failure would break data sources that have nothing to do with ottla
    _reason = f"ottla is installed and cannot be imported by Spark's Python: {error!r}"

    class _BrokenSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ottla"

        def schema(self) -> str:
            raise ImportError(_reason)

    DefaultSource = _BrokenSource
