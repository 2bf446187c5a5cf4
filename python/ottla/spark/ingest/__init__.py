"""Topics to a table: the job that `ottla ingest CONFIG.toml` runs.

A file configures the source of records, their decoding, and the table that takes them: a folder of Parquet files, or a
Delta or Iceberg table. [docs/spark/ingest.md] describes all settings, and `ottla ingest --example` prints an example
file.

```python
from ottla.spark import ingest

outcome = ingest.run(ingest.read_settings("orders.toml"))
```
"""

from typing import TYPE_CHECKING

from ottla.spark.ingest.settings import Settings, SettingsError, read_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.ingest.job import Outcome, Stop

__all__ = ["Settings", "SettingsError", "read_settings", "run"]


def run(settings: Settings, spark: "SparkSession | None" = None, stop: "Stop | None" = None) -> "Outcome":
    """Run a job until its end, or until it is stopped.

    In the main thread SIGINT and SIGTERM end it after the running micro-batch, and a second one at once.

    Args:
        settings: Of the job.
        spark: A session to run in; by default the one that is there already, or one of its own, which ends with it.
        stop: An `ottla.spark.ingest.job.Stop`, which ends it from another thread.

    Returns:
        The numbers of records, batches and dead letters, and whether the job was stopped.

    Raises:
        KeyboardInterrupt: It was stopped twice, which ends it at once.
        IngestError: The query failed; the text is that of its innermost cause.
        ConfigError: The package of the table's format is missing.
    """
    from ottla.spark.ingest import job

    return job.run(settings, spark, stop)
