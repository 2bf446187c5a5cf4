"""Tables to which micro-batches are added exactly once: a folder of Parquet files, Delta, Iceberg."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from ottla.errors import ConfigError
from ottla.spark.ingest.published import PublishedFolder
from ottla.spark.ingest.settings import FormatName, Settings, Table

# In the summary of each snapshot of Iceberg: which batch of which query it is.
QUERY, BATCH = "ottla.query", "ottla.batch"


class Package(NamedTuple):
    """What Spark needs for a format.

    Attributes:
        coordinates: Of Maven, without the version, where `{}` is the release of Spark that it is for.
        provides: The file of a class of it.
        extension: A class that the session loads.
        site: Where its versions are listed.
    """

    coordinates: str
    provides: str
    extension: str
    site: str


PACKAGES: dict[FormatName, Package] = {
    "delta": Package(
        "io.delta:delta-spark_{}_2.13",
        "io/delta/sql/DeltaSparkSessionExtension.class",
        "io.delta.sql.DeltaSparkSessionExtension",
        "https://docs.delta.io/latest/releases.html",
    ),
    "iceberg": Package(
        "org.apache.iceberg:iceberg-spark-runtime-{}_2.13",
        "org/apache/iceberg/spark/SparkCatalog.class",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "https://iceberg.apache.org/releases",
    ),
}


def properties(table: Table) -> dict[str, str]:
    """What a session needs for the format, beside the package."""
    package = PACKAGES.get(table.format)
    if package is None:
        return {}
    made = {"spark.sql.extensions": package.extension}
    if table.format == "delta":
        made["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return made


def check_package(spark: SparkSession, settings: Settings) -> None:
    """Refuse a format whose package Spark does not have.

    Raises:
        ConfigError: It has not; the text says how to add it.
    """
    package = PACKAGES.get(settings.table.format)
    if package is None:
        return
    java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way to ask for a class
    if java.java.lang.Thread.currentThread().getContextClassLoader().getResource(package.provides) is not None:
        return
    coordinates = package.coordinates.format(".".join(spark.version.split(".")[:2]))
    named = f"{coordinates}:VERSION"
    raise ConfigError(
        f'{settings.file}: [table] format = "{settings.table.format}" needs the package {coordinates}, which '
        f"this Spark {spark.version} does not have. Add it, if there is one for this Spark ({package.site}): "
        f'with jars.packages = "{named}" in [spark], or with spark-submit --packages {named}'
    )


class Sink(ABC):
    """A table as micro-batches see it."""

    @abstractmethod
    def add(self, batch: int, frame: DataFrame, most_rows: int) -> float | None:
        """Add the rows of a batch, unless it was added before.

        Returns:
            The bytes of a row in files, on average; None if that is not known.
        """


def sink(spark: SparkSession, table: Table, query: str) -> Sink:
    """The table that settings name.

    Args:
        spark: The session.
        table: Of the settings.
        query: Spark's id of the query, which stays the same as long as its checkpoint.
    """
    if table.format == "parquet":
        return ParquetFolder(PublishedFolder(spark, str(table.path), query, table.partition_by, table.options))
    if table.format == "delta":
        return DeltaTable(table, query)
    return IcebergTable(spark, table, query)


class ParquetFolder(Sink):
    """A folder of Parquet files."""

    def __init__(self, folder: PublishedFolder) -> None:
        self._folder = folder

    def add(self, batch: int, frame: DataFrame, most_rows: int) -> float | None:
        """See `Sink`."""
        written = self._folder.add(batch, frame, most_rows)
        return written.size / written.rows if written and written.rows else None


class DeltaTable(Sink):
    """A Delta table, whose log knows the last batch of each query (`txnAppId`, `txnVersion`)."""

    def __init__(self, table: Table, query: str) -> None:
        self._table, self._query = table, query

    def add(self, batch: int, frame: DataFrame, most_rows: int) -> None:
        """See `Sink`."""
        table = self._table
        writer = frame.write.format("delta").mode("append").option("maxRecordsPerFile", most_rows)
        writer = writer.options(**dict(table.options)).option("txnAppId", self._query).option("txnVersion", batch)
        if table.partition_by:
            writer = writer.partitionBy(*table.partition_by)
        if table.path:
            writer.save(table.path)
        else:
            writer.saveAsTable(str(table.name))


class IcebergTable(Sink):
    """An Iceberg table. The summaries of its snapshots say which batch of which query they are."""

    def __init__(self, spark: SparkSession, table: Table, query: str) -> None:
        self._spark, self._table, self._query = spark, table, query
        self._name = str(table.name)
        # Spark replays its last batch at most, and that at the start.
        self._last = self._last_batch() if spark.catalog.tableExists(self._name) else None

    def add(self, batch: int, frame: DataFrame, most_rows: int) -> None:  # noqa: ARG002 - Iceberg divides by bytes
        """See `Sink`."""
        if self._last is not None and batch <= self._last:
            return
        if not self._spark.catalog.tableExists(self._name):
            new = frame.limit(0).writeTo(self._name).using("iceberg")
            if self._table.partition_by:
                new = new.partitionedBy(*(frame[column] for column in self._table.partition_by))
            new.create()
        writer = frame.writeTo(self._name).options(**dict(self._table.options))
        writer = writer.option(f"snapshot-property.{QUERY}", self._query)
        writer.option(f"snapshot-property.{BATCH}", batch).append()
        self._last = batch

    def _last_batch(self) -> int | None:
        query, batch = (f"summary['{name}']" for name in (QUERY, BATCH))
        found = self._spark.sql(
            f"SELECT max(CAST({batch} AS bigint)) FROM {self._name}.snapshots WHERE {query} = '{self._query}'"  # noqa: S608
        ).first()
        return None if found is None or found[0] is None else int(found[0])
