"""One Spark session for all tests, and topics on an embedded broker."""

import contextlib
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import confluent_kafka
import pyspark
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession
from tests.brokers import archives, tokens
from tests.brokers.brokers import QUICK
from tests.brokers.jars import maven
from tests.brokers.running import EMBEDDED_KEPT
from tests.rings.results import HUNG
from tests.waiting import wait_for_end

import ottla
import ottla.testing
from ottla.spark import ensure_java
from ottla.spark.read import client_pool

from . import hangs
from .starts import begun

ROOT = Path(__file__).parents[2]
PEER = [
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
]
# Every driver that a test starts takes them from here. What Spark compiles fills the room that one compiler has by default.
DRIVER = [*QUICK, "-XX:ReservedCodeCacheSize=240m"]
os.environ["SPARK_SUBMIT_OPTS"] = " ".join(DRIVER)


def peer_jars(*more):
    """The jars of Spark's own Kafka source, and of further artifacts (group:name:version), from Maven once; none without Maven."""
    folder = ROOT / "target" / "spark-peer"
    folder.mkdir(parents=True, exist_ok=True)
    jars = [ROOT / "tests" / "spark" / "peer" / "spark-token-provider-stub.jar"]
    for artifact in (*PEER, *more):
        _, name, version = artifact.split(":")
        jar = folder / f"{name}-{version}.jar"
        with maven() as run:
            if not jar.exists():
                if not shutil.which("mvn"):
                    return []
                copy = ["dependency:copy", f"-Dartifact={artifact}", "-Dmdep.useBaseVersion=true"]
                run(*copy, f"-DoutputDirectory={folder}", cwd=folder)
        jars.append(jar)
    return jars


@pytest.fixture(autouse=True)
def token(request):
    """Two for a test with a Spark session, which idles between tests."""
    with tokens.held(tokens.SPARK) if starts_spark(request.node) else contextlib.nullcontext():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item, settings):
    """A call of Spark's that hangs is ended a little before its test's time is over.

    A test without Spark leaves the session to the others, however long it takes.
    """
    if "spark" in item.fixturenames:
        item.stash[hangs.WATCH] = hangs.Watch(settings.timeout - hangs.EARLIER)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item):
    if watch := item.stash.get(hangs.WATCH, None):
        watch.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    watch = item.stash.get(hangs.WATCH, None)
    if report.failed and watch and watch.told:
        report.sections.append((HUNG, "\n".join(watch.told)))
    return report


def record(archive):
    """A driver that exits after it has done a little of everything, and then writes an archive of its classes."""
    options = " ".join([*DRIVER, *archives.recording(archive)])
    job = [sys.executable, ROOT / "tests" / "spark" / "jobs" / "classes.py"]
    try:
        environment = {"SPARK_SUBMIT_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        subprocess.run(job, check=True, capture_output=True, text=True, timeout=600, env=os.environ | environment)
    except subprocess.SubprocessError as why:
        raise SystemExit(f"{why}\n{(why.stderr or '')[-3000:]}") from why


@pytest.fixture(scope="session")
def archived():
    """Drivers start with the archive of Spark's classes. Spark's launcher makes the class path, so it is not ours to order."""
    ensure_java()
    home, jars = os.environ.get("JAVA_HOME"), Path(pyspark.__file__).parent / "jars"
    java = f"{home}/bin/java" if home else "java"
    archive = archives.archive(f"spark-{pyspark.__version__}", java, sorted(jars.glob("*.jar")), DRIVER, record)
    if archive:
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join([*DRIVER, *archives.using(archive)])


@pytest.fixture(autouse=True)
def drivers(request):
    """Every driver of a test that needs Java, whoever starts it, has the archive."""
    if starts_spark(request.node):
        request.getfixturevalue("archived")


def starts_spark(item):
    return "spark" in item.fixturenames or any("java" in mark.args for mark in item.iter_markers("needs"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory, archived):
    """A small local session, whose workers run this Python."""
    scratch = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Where Spark's Python processes leave what a test looks for.
    os.environ["OTTLA_TESTS"] = str(scratch)
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
    with ottla.testing.Broker(config=EMBEDDED_KEPT) as broker:
        yield broker


class Topic:
    """A fresh topic, and what reads it."""

    def __init__(self, spark, broker, partitions, name):
        self.spark = spark
        self.bootstrap = broker.bootstrap_servers
        self.name = name or f"t-{uuid.uuid4().hex[:8]}"
        with ottla.Admin(self.bootstrap) as admin:
            admin.create_topics([ottla.NewTopic(self.name, partitions=partitions)])

    def produce(self, values, *, partition=None, headers=None, timestamp=None):
        """Send values, keyed by themselves, each a second later than the last; returns when all are in the log.

        A reader finds all of a partition there, or none.
        """
        with ottla.Producer(self.bootstrap, linger_ms=60_000) as producer:
            sent = [
                producer.send(
                    self.name,
                    v,
                    key=b"k" + v,
                    partition=partition,
                    headers=headers,
                    timestamp=None if timestamp is None else timestamp + i * 1000,
                )
                for i, v in enumerate(map(encode, values))
            ]
            producer.flush(30)
            for delivery in sent:
                delivery.result(0)

    def add_partitions(self, count):
        """Have `count` partitions from now on."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        done(admin.create_partitions([NewPartitions(self.name, count)]))

    def delete_records(self, before):
        """Delete what stands before an offset of partition 0."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        done(admin.delete_records([confluent_kafka.TopicPartition(self.name, 0, before)]))

    def options(self, **options):
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.name, **options}
        return {name: value for name, value in given.items() if value is not None}

    def read(self, source="ottla", **options):
        """A batch DataFrame."""
        return self.spark.read.format(source).options(**self.options(**options)).load()

    def stream(self, folder, source="ottla", **options):
        """See `run_stream`."""
        return run_stream(self.spark, source, folder, self.options(**options))

    def streamed(self, folder):
        """The values that `stream` wrote, sorted."""
        return sorted(int(bytes(row.value)) for row in self.spark.read.parquet(str(folder / "rows")).collect())


def close_clients():
    """Close the clients that reads have left for the next ones."""
    client_pool._idle.close()


def run_stream(spark, source, folder, options, table=None):
    """Run a query until it has caught up, with its checkpoint in the folder.

    Rows go to Parquet in the folder, or to a table in memory. Returns the progress of the batches that held rows.
    """
    frame = spark.readStream.format(source).options(**options).load()
    writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)

    def start():
        if not table:
            return writer.format("parquet").option("path", str(folder / "rows")).start()
        # A table in memory goes on from no checkpoint, not even from one that a start has left which came to nothing.
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        return writer.format("memory").queryName(table).start()

    query = begun(start)
    try:
        wait_for_end(query)
    finally:
        query.stop()
    return [p for p in query.recentProgress if p["numInputRows"]]


def done(futures):
    for future in futures.values():
        future.result(30)


def encode(value):
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture
def topic(spark, broker):
    """Makes fresh topics: `topic(partitions)`, also under a given name."""
    return lambda partitions=2, name=None: Topic(spark, broker, partitions, name)


def rows(frame):
    """A DataFrame's rows in the log's order, comparable."""
    return sorted(map(tuple, frame.collect()), key=lambda row: row[2:5])
