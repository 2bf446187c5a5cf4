"""Lets Spark find `format("ottla")`: Spark imports every package named `pyspark_*` and takes its `DefaultSource`.

That import happens in the first data source lookup of every session, whether or not it reads Kafka, so it must be cheap
and must not fail. What fails here is raised when the source is used.
"""

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource", "broken"]

DefaultSource: type[DataSource]


def broken(format_name: str, error: Exception) -> type[DataSource]:
    """A source that raises when it is used, in the place of one that cannot be imported."""
    reason = f"ottla is installed and cannot be imported by Spark's Python: {error!r}"

    class Broken(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> str:
            raise ImportError(reason)

    return Broken


try:
    from ottla.spark.source import OttlaDataSource as DefaultSource
except Exception as error:  # noqa: BLE001 - any failure would break data sources that have nothing to do with ottla
    DefaultSource = broken("ottla", error)
