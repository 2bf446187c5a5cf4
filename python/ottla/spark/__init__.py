"""Spark reads Kafka topics through ottla, without a jar: `spark.read` and `spark.readStream` with `.format("ottla")`.

The package `pyspark_ottla`, which is installed along, registers the format by itself. `register` does it by hand, and
`ensure_java` finds a Java runtime for Spark, which needs one.

Columns, options and the JSON of offsets are those of Spark's own Kafka source (the "Structured Streaming + Kafka
Integration Guide"), so a query moves over by changing one word, and its checkpoint with it.
"""

from typing import TYPE_CHECKING

from ottla.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ensure_java", "register"]


def register(spark: "SparkSession") -> None:
    """Make `format("ottla")` known to a session.

    Needed only where Spark's Python does not see the package `pyspark_ottla`; where it does, this changes nothing.

    Args:
        spark: The session, classic or Connect.

    Raises:
        ImportError: pyspark is missing, or older than 4.0.
    """
    from pyspark.errors import PySparkException

    from ottla.spark.source import OttlaDataSource

    try:
        spark.dataSource.register(OttlaDataSource)
    except PySparkException as error:
        # Found by its package name already: Spark guards such sources against being replaced.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
