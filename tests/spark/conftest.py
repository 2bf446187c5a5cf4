"""One Spark session for all tests, and topics on an embedded broker."""

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ottla
import ottla.testing
from ottla.spark import ensure_java

ROOT = Path(__file__).parents[2]
PEER = [
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
]


def peer_jars():
    """The jars of Spark's own Kafka source, from Maven once; none without Maven."""
    folder = ROOT / "target" / "spark-peer"
    folder.mkdir(parents=True, exist_ok=True)
    jars = [ROOT / "tests" / "spark" / "peer" / "spark-token-provider-stub.jar"]
    for artifact in PEER:
        _, name, version = artifact.split(":")
        jar = folder / f"{name}-{version}.jar"
        if not jar.exists():
            if not shutil.which("mvn"):
                return []
            copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", "-Dmdep.useBaseVersion=true"]
            subprocess.run([*copy, f"-DoutputDirectory={folder}"], check=True, timeout=300, cwd=folder)
        jars.append(jar)
    return jars


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A small local session, whose workers run this Python."""
    ensure_java()
    scratch = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("ottla tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    )
    if jars := peer_jars():
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker():
    """An embedded broker for all tests; each makes topics of its own."""
    with ottla.testing.Broker() as broker:
        yield broker


class Topic:
    """A fresh topic, and what reads it."""

    def __init__(self, spark, broker, partitions):
        self.spark = spark
        self.bootstrap = broker.bootstrap_servers
        self.name = f"t-{uuid.uuid4().hex[:8]}"
        with ottla.Admin(self.bootstrap) as admin:
            admin.create_topics([ottla.NewTopic(self.name, partitions=partitions)])

    def produce(self, values, *, partition=None, headers=None):
        """Send values, keyed by themselves; returns when all are in the log."""
        with ottla.Producer(self.bootstrap) as producer:
            sent = [
                producer.send(self.name, v, key=b"k" + v, partition=partition, headers=headers)
                for v in map(encode, values)
            ]
            for delivery in sent:
                delivery.result(timeout=30)

    def options(self, **options):
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.name, **options}

    def read(self, source="ottla", **options):
        """A batch DataFrame."""
        return self.spark.read.format(source).options(**self.options(**options)).load()

    def stream(self, folder, source="ottla", **options):
        """Run a query until it has caught up; appends to Parquet in the folder and keeps its checkpoint there."""
        frame = self.spark.readStream.format(source).options(**self.options(**options)).load()
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(folder / "rows"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(90), "the query did not end"
        finally:
            query.stop()
        return [p for p in query.recentProgress if p["numInputRows"]]

    def streamed(self, folder):
        """The values that `stream` wrote, sorted."""
        return sorted(int(bytes(row.value)) for row in self.spark.read.parquet(str(folder / "rows")).collect())


def encode(value):
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture
def topic(spark, broker):
    """Makes fresh topics: `topic(partitions)`."""
    return lambda partitions=2: Topic(spark, broker, partitions)


def rows(frame):
    """A DataFrame's rows in the log's order, comparable."""
    return sorted(tuple(row) for row in frame.collect())
