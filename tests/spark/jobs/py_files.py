"""A job for tests/spark/test_platforms.py: BOOTSTRAP TOPIC. It prints what was seen of packages that came by `--py-files`, as JSON."""

import json
import sys

from pyspark.sql import SparkSession


def main(bootstrap: str, topic: str) -> None:
    said = {}
    try:
        import ottla.spark  # noqa: F401
    except ImportError as error:
        said["import"] = str(error)
    spark = SparkSession.builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    try:
        frame = spark.read.format("ottla").options(**options).load()

        def doubled(batches):
            # A module of the job's own.
            from doubling import double

            for batch in batches:
                yield double(batch)

        rows = frame.selectExpr("cast(cast(value AS string) AS bigint) AS value")
        said["sum"] = rows.mapInArrow(doubled, "value bigint").groupBy().sum("value").first()[0]
    except Exception as error:
        said["read"] = str(error)
    print(json.dumps(said))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
