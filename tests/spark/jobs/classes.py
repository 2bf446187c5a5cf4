"""A little of everything that the tests have a Spark driver do, so that it loads those classes; then the driver exits."""

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader


class Numbers(DataSource):
    """A source in Python."""

    def schema(self):
        return "a int"

    def reader(self, schema):
        return NumbersReader()


class NumbersReader(DataSourceReader):
    def read(self, partition):
        yield from ((number,) for number in range(10))


def work(spark, folder):
    spark.dataSource.register(Numbers)
    numbers = spark.read.format("Numbers").load()
    numbers.mapInArrow(lambda batches: batches, "a int").groupBy("a").count().orderBy("a").collect()
    spark.createDataFrame([(1, b"x", [("h", b"y")])]).write.parquet(str(folder / "batch"))
    spark.read.parquet(str(folder / "batch")).createOrReplaceTempView("read")
    spark.sql("select *, cast(_2 as string), from_json('{}', 'a int') from read where _1 > 0").toArrow()
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    stream = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = stream.option("path", str(folder / "stream")).trigger(processingTime="0 seconds").start()
    while not query.recentProgress and query.isActive:
        query.awaitTermination(0.1)
    query.stop()


def main():
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.ui.showConsoleProgress", "false")
    with tempfile.TemporaryDirectory() as folder:
        spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.local.dir", folder).getOrCreate()
        driver = spark.sparkContext._gateway.proc
        work(spark, Path(folder))
        spark.stop()
        driver.stdin.close()
        sys.exit(driver.wait())


if __name__ == "__main__":
    main()
