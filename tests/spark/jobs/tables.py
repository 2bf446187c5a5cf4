"""A driver for tests/spark/versions.py: FORMAT BOOTSTRAP SOURCE FOLDER JARS. It writes a table of Delta or Iceberg.

SOURCE holds 3,000 values {"a":N}. `ottla ingest` and a plain stream of the source write them, each twice: once more as Spark
does it when a driver has died between the table's commit and its own. Then the checkpoint of `ottla ingest` is set back: the same
batch is passed over, and another one under its number is an error. What is seen is printed as JSON, as by reach.py.
"""

import json
import os
import re
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from reach import BYTES, RECORDS, SUM, seen
from tests.spark.starts import begun

from ottla.spark import ensure_java, ingest, register
from ottla.spark.ingest.batches import Batches
from ottla.spark.ingest.settings import parse
from ottla.spark.ingest.spark_errors import IngestError
from ottla.spark.ingest.tables import properties

DIES = "the driver dies"
BATCH = 1_500
SET_BACK = re.compile(
    r"does not fit the table: .* has batch 1 with .*, and the checkpoint plans batch 1 with .* was set back"
)


class Tables:
    def __init__(self, form: str, bootstrap: str, source: str, folder: str, jars: str) -> None:
        self.form, self.folder = form, Path(folder)
        self.bootstrap, self.source = bootstrap, source
        self.options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
        builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
        needed = {
            **properties(self.settings("ingested").table),
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

    def settings(self, name: str, kind: str = "int", most: int = BATCH) -> ingest.Settings:
        where = f'path = "{self.folder}/{name}"' if self.form == "delta" else f'name = "lake.shop.{name}"'
        text = f"""
            name = "job"
            [source]
            kafka.bootstrap.servers = "{self.bootstrap}"
            subscribe = "{self.source}"
            value.format = "json"
            "value.schema" = "a {kind}"
            maxOffsetsPerTrigger = {most}
            [table]
            format = "{self.form}"
            {where}
            select = ["value.*", "partition"]
            partition-by = ["partition"]
            [dead-letters]
            folder = "{self.folder}/dead-{name}"
            [run]
            checkpoint = "{self.folder}/job-{name}"
        """
        return parse(text.encode(), "job.toml", {})

    def run(self, settings: ingest.Settings) -> int:
        """Run a job until nothing is left; its dead letters. Before Spark 4.2 a run has one batch, whatever is left."""
        bad = 0
        while (outcome := ingest.run(settings, self.spark)).batches:
            bad += outcome.bad
        return bad

    def read(self, name: str) -> DataFrame:
        if self.form == "delta":
            return self.spark.read.format("delta").load(str(self.folder / name))
        # Batches are written in another session, whose catalog this one's does not hear of.
        self.spark.sql(f"REFRESH TABLE lake.shop.{name}")
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
            ingest.run(self.settings("ingested"), self.spark)
        except IngestError as error:
            if DIES not in str(error):
                raise
        else:
            return False
        finally:
            Batches.__call__ = take
        assert self.read("ingested").count() == BATCH, "what was committed before the driver died"
        self.compact("ingested")
        self.run(self.settings("ingested"))
        assert self.holds_all("ingested")
        self.set_back("ingested")
        assert self.holds_all("ingested")
        self.dead_letters()
        return True

    def set_back(self, name: str) -> None:
        """The second batch is not in the checkpoint any more."""
        self.forget_batch(name)
        self.run(self.settings(name))
        assert self.holds_all(name), "the same batch is passed over"
        self.forget_batch(name)
        told = ""
        try:
            self.run(self.settings(name, most=BATCH // 2))
        except IngestError as error:
            told = str(error)
        assert SET_BACK.search(told), told or "another batch of the same number was taken"

    def forget_batch(self, name: str) -> None:
        for part in ("offsets", "commits"):
            # With its checksum, which Spark would take for a batch that another query has planned.
            for file in ("1", ".1.crc"):
                (self.folder / f"job-{name}" / part / file).unlink()

    def compact(self, name: str) -> None:
        """Files become one, by a commit that is none of ours."""
        if self.form == "delta":
            self.spark.sql(f"OPTIMIZE delta.`{self.folder / name}`")
        else:
            self.spark.sql(
                f"CALL lake.system.rewrite_data_files(table => 'shop.{name}', options => map('rewrite-all', 'true'))"
            )

    def dead_letters(self) -> None:
        """Those of each batch are counted and kept once, also if a compaction follows the batch (Delta)."""
        self.spark.conf.set("spark.databricks.delta.autoCompact.enabled", "true")
        self.spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "2")
        bad = self.run(self.settings("small", kind="tinyint"))
        kept = self.spark.read.parquet(f"{self.folder}/dead-small").count()
        found = {"counted": bad, "kept": kept, "rows": self.read("small").count()}
        assert found == {"counted": RECORDS - BYTES, "kept": RECORDS - BYTES, "rows": BYTES}, found

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
        query = begun(
            lambda: (
                writer.start(str(self.folder / "streamed"))
                if self.form == "delta"
                else writer.toTable("lake.shop.streamed")
            )
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
