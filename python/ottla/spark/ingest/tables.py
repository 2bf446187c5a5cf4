"""Tables to which micro-batches are added exactly once: a folder of Parquet files, Delta, Iceberg."""

import json
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from ottla.errors import ConfigError
from ottla.spark.ingest.delta_history import BATCH, OFFSETS, QUERY, DeltaHistory
from ottla.spark.ingest.identity import Batch, is_added
from ottla.spark.ingest.published_folder import PublishedFolder
from ottla.spark.ingest.settings import FormatName, Settings, Table
from ottla.spark.shared.storage import Folder


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
    """The session properties for the format, besides the package."""
    package = PACKAGES.get(table.format)
    if package is None:
        return {}
    made = {"spark.sql.extensions": package.extension}
    if table.format == "delta":
        made["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return made


def check_package(spark: SparkSession, settings: Settings) -> None:
    """Reject a format whose package is missing in Spark.

    Raises:
        ConfigError: It is missing; the text names the package to add.
    """
    package = PACKAGES.get(settings.table.format)
    if package is None:
        return
    java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way to find a class
    if java.java.lang.Thread.currentThread().getContextClassLoader().getResource(package.provides) is not None:
        return
    coordinates = package.coordinates.format(".".join(spark.version.split(".")[:2]))
    named = f"{coordinates}:VERSION"
    raise ConfigError(
        f'{settings.file}: [table] format = "{settings.table.format}" needs the package {coordinates}, which '
        f"this Spark {spark.version} does not have. Add it, if there is one for this Spark ({package.site}): "
        f'with jars.packages = "{named}" in [spark], or with spark-submit --packages {named}'
    )


class Added(NamedTuple):
    """What became of a batch.

    Attributes:
        computed: Whether its rows are known to have been computed. They are not if the table had the batch already.
        row_bytes: The bytes of a row in files, on average; None if that is not known.
    """

    computed: bool
    row_bytes: float | None = None


class Sink(ABC):
    """A table as micro-batches see it."""

    @abstractmethod
    def add(self, batch: Batch, frame: DataFrame, most_rows: int) -> Added:
        """Add the rows of a batch, unless it was added before.

        Raises:
            IngestError: The table has another batch of this number.
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
        return DeltaTable(spark, table, query)
    return IcebergTable(spark, table, query)


class ParquetFolder(Sink):
    """A folder of Parquet files."""

    def __init__(self, folder: PublishedFolder) -> None:
        self._folder = folder

    def add(self, batch: Batch, frame: DataFrame, most_rows: int) -> Added:
        """See `Sink`."""
        written = self._folder.add(batch, frame, most_rows)
        return Added(written is not None, written.size / written.rows if written and written.rows else None)


class DeltaTable(Sink):
    """A Delta table. Its log has the last batch number of each query (`txnAppId`, `txnVersion`), and all offsets."""

    def __init__(self, spark: SparkSession, table: Table, query: str) -> None:
        self._spark, self._table, self._query = spark, table, query
        self._name = f"delta.`{Folder(spark, table.path).url}`" if table.path else str(table.name)
        self._history = DeltaHistory(spark, self._name, query)
        self._kept: dict[int, Batch | None] | None = None

    def add(self, batch: Batch, frame: DataFrame, most_rows: int) -> Added:
        """See `Sink`."""
        if self._kept is None:
            self._kept = self._history.batches(batch.number) if self._exists() else {}
        if is_added(batch, self._kept, str(self._table)):
            return Added(computed=False)
        table = self._table
        kept = {QUERY: self._query, BATCH: batch.number, OFFSETS: batch.to_json()}
        writer = frame.write.format("delta").mode("append").option("maxRecordsPerFile", most_rows)
        # User metadata of the file takes precedence over ours.
        writer = writer.option("userMetadata", json.dumps(kept)).options(**dict(table.options))
        writer = writer.option("txnAppId", self._query).option("txnVersion", batch.number)
        if table.partition_by:
            writer = writer.partitionBy(*table.partition_by)
        if table.path:
            writer.save(table.path)
        else:
            writer.saveAsTable(str(table.name))
        # Delta silently skips a number that it has from a version of ottla that kept no offsets.
        computed = self._history.has_new(batch.number)
        self._kept[batch.number] = batch
        return Added(computed)

    def _exists(self) -> bool:
        if not self._table.path:
            return self._spark.catalog.tableExists(self._name)
        return bool(Folder(self._spark, self._table.path).names("_delta_log"))


class IcebergTable(Sink):
    """An Iceberg table. The summaries of its snapshots contain the query and the batch."""

    def __init__(self, spark: SparkSession, table: Table, query: str) -> None:
        self._spark, self._table, self._query = spark, table, query
        self._name = str(table.name)
        self._kept = self._snapshots() if spark.catalog.tableExists(self._name) else {}

    def add(self, batch: Batch, frame: DataFrame, most_rows: int) -> Added:  # noqa: ARG002 - Iceberg divides by bytes
        """See `Sink`."""
        if is_added(batch, self._kept, str(self._table)):
            return Added(computed=False)
        if not self._spark.catalog.tableExists(self._name):
            self._create(frame)
        writer = frame.writeTo(self._name).options(**dict(self._table.options))
        writer = writer.option(f"snapshot-property.{QUERY}", self._query)
        writer = writer.option(f"snapshot-property.{OFFSETS}", batch.text())
        writer.option(f"snapshot-property.{BATCH}", batch.number).append()
        self._kept[batch.number] = batch
        return Added(computed=True)

    def _create(self, frame: DataFrame) -> None:
        """Make the table from the types alone: a query of the frame itself would end what counts its bad records."""
        empty = self._spark.createDataFrame([], frame.schema)
        new = empty.writeTo(self._name).using("iceberg")
        if self._table.partition_by:
            new = new.partitionedBy(*(empty[column] for column in self._table.partition_by))
        new.create()

    def _snapshots(self) -> dict[int, Batch | None]:
        """The batches of this query, by number."""
        query, batch, offsets = (f"summary['{name}']" for name in (QUERY, BATCH, OFFSETS))
        found = self._spark.sql(
            f"SELECT {batch}, {offsets} FROM {self._name}.snapshots WHERE {query} = '{self._query}'"  # noqa: S608
        ).collect()
        return {int(n): Batch.from_json(int(n), json.loads(text or "null")) for n, text in found if n is not None}
