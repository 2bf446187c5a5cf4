"""A driver for tests/spark/versions.py: FORMAT BOOTSTRAP SOURCE FOLDER JARS. It writes a table of Delta or Iceberg.

SOURCE holds 3,000 values {"a":N}. `ottla ingest` and a plain stream of the source write them, each twice: once more as Spark
does it when a driver has died between the table's commit and its own. What is seen is printed as JSON, as by reach.py.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from reach import RECORDS, SUM, seen

from ottla.spark import ensure_java, ingest, register
from ottla.spark.ingest.batches import Batches
from ottla.spark.ingest.settings import parse
from ottla.spark.ingest.spark_errors import IngestError
from ottla.spark.ingest.tables import properties

DIES = "the driver dies"


class Tables:
    def __init__(self, form: str, bootstrap: str, source: str, folder: str, jars: str) -> None:
        self.form, self.folder = form, Path(folder)
        self.where = f'path = "{folder}/ingested"' if form == "delta" else 'name = "lake.shop.ingested"'
        self.settings = parse(self.job(bootstrap, source).encode(), "job.toml", {})
        self.options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
        builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
        needed = {
            **properties(self.settings.table),
            "spark.jars": jars,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        }
        if form == "iceberg":
            needed |= {
                "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
                "spark.sql.catalog.lake.type": "hadoop",
                "spark.sql.catalog.lake.warehouse": f"{folder}/lake",
            }
        for name, value in needed.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        register(self.spark)

    def job(self, bootstrap: str, source: str) -> str:
        return f"""
            name = "job"
            [source]
            kafka.bootstrap.servers = "{bootstrap}"
            subscribe = "{source}"
            value.format = "json"
            "value.schema" = "a int"
            [table]
            format = "{self.form}"
            {self.where}
            select = ["value.*", "partition"]
            partition-by = ["partition"]
            [run]
            checkpoint = "{self.folder}/job"
        """

    def read(self, name: str) -> DataFrame:
        if self.form == "delta":
            return self.spark.read.format("delta").load(str(self.folder / name))
        return self.spark.table(f"lake.shop.{name}")

    def holds_all(self, name: str) -> bool:
        row = self.read(name).selectExpr("count(*)", "count(DISTINCT a)", "sum(a)").first()
        return tuple(row) == (RECORDS, RECORDS, SUM)

    def ingest(self) -> bool:
        take = Batches.__call__

        def dying(batches: Batches, frame: DataFrame, number: int) -> None:
            take(batches, frame, number)
            raise OSError(DIES)

        Batches.__call__ = dying
        try:
            ingest.run(self.settings, self.spark)
        except IngestError as error:
            if DIES not in str(error):
                raise
        else:
            return False
        finally:
            Batches.__call__ = take
        assert self.holds_all("ingested"), "what was committed before the driver died"
        ingest.run(self.settings, self.spark)
        return self.holds_all("ingested")

    def stream(self) -> bool:
        if self.form == "iceberg":
            self.spark.sql("CREATE TABLE lake.shop.streamed (a int) USING iceberg")
        self.run_stream()
        assert self.holds_all("streamed"), "what the first attempt wrote"
        for done in (self.folder / "query" / "commits").iterdir():
            done.unlink()
        self.run_stream()
        return self.holds_all("streamed")

    def run_stream(self) -> None:
        frame = self.spark.readStream.format("ottla").options(**self.options).load()
        rows = frame.selectExpr("get_json_object(cast(value AS string), '$.a')::int AS a")
        writer = rows.writeStream.format(self.form).option("checkpointLocation", str(self.folder / "query"))
        writer = writer.trigger(availableNow=True)
        query = (
            writer.start(str(self.folder / "streamed"))
            if self.form == "delta"
            else writer.toTable("lake.shop.streamed")
        )
        assert query.awaitTermination(90), "the query did not end"


def main(form: str, *where: str) -> None:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    tables = Tables(form, *where)
    print(json.dumps({f"{form}_ingest": seen(tables.ingest), f"{form}_stream": seen(tables.stream)}), flush=True)
    tables.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
