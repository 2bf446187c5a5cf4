"""Lets Spark find `format("ottla-log")`, as `pyspark_ottla` does for `format("ottla")`: a package has one source."""

from pyspark.sql.datasource import DataSource

from pyspark_ottla import broken

__all__ = ["DefaultSource"]

DefaultSource: type[DataSource]

try:
    from ottla.spark.log.source import OttlaLogDataSource as DefaultSource
except Exception as error:  # noqa: BLE001 - any failure would break data sources that have nothing to do with ottla
    DefaultSource = broken("ottla-log", error)
