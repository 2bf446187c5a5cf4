"""Checkpoints that an earlier version of ottla wrote are taken up: stored files, of Spark 4.3 and ottla at commit 2fe795d.

Each query had read 10 of 20 records when its driver died in the second batch; that of `ottla ingest` had added the batch to the table.
"""

import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from tests.waiting import wait_for_end

import ottla
from ottla.spark import ingest, stream_kafka
from ottla.spark.ingest.settings import parse
from ottla.testing import Broker

from .starts import begun

pytestmark = pytest.mark.timeout(240)

STORED = Path(__file__).parent / "checkpoints"
TOPIC = "stored"
# In the place of the id, which each broker makes for itself.
ID = "TOPIC_ID"


@pytest.fixture
def bootstrap():
    """A broker whose topic has 30 records, of which the queries know 20."""
    with Broker(topics={TOPIC: 2}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            values = [b'{"n":%d}' % n for n in range(30)]
            producer.send_many(TOPIC, values, partitions=[n % 2 for n in range(30)]).result(30)
        yield broker.bootstrap_servers


@pytest.fixture
def stored(bootstrap, tmp_path):
    """Copies the stored files of a query, with the id of the topic."""
    with ottla.Admin(bootstrap) as admin:
        (known,) = admin.describe_topics([TOPIC]).values()

    def copy(query):
        folder = tmp_path / query
        shutil.copytree(STORED / query, folder)
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix != ".parquet":
                path.write_text(path.read_text().replace(ID, str(known.id)))
        return folder

    return copy


def options(bootstrap, **more):
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return {**given, "maxOffsetsPerTrigger": "10", **more}


def numbers(rows):
    return sorted(row.n for row in rows.selectExpr("get_json_object(string(value), '$.n')::int AS n").collect())


REST = [(1, list(range(10, 20))), (2, list(range(20, 30)))]


def test_a_stream_of_the_source(spark, bootstrap, stored):
    folder, taken = stored("source"), []
    given = options(bootstrap, rememberTopicsIn=str(folder / "remembered"))
    frame = spark.readStream.format("ottla").options(**given).load()
    writer = frame.writeStream.foreachBatch(lambda rows, number: taken.append((number, numbers(rows))))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    wait_for_end(begun(writer.start))
    assert taken == REST


def test_a_stream_of_stream_kafka(spark, bootstrap, stored):
    folder, taken = stored("function"), []

    def take(rows, number):
        taken.append((number, numbers(rows)))

    wait_for_end(stream_kafka(spark, options(bootstrap), take, str(folder / "checkpoint"), available_now=True))
    assert taken == REST


def test_a_job_of_ingest(spark, bootstrap, stored):
    folder = stored("ingest")
    job = f"""
        name = "job"
        [source]
        kafka.bootstrap.servers = "{bootstrap}"
        subscribe = "{TOPIC}"
        value.format = "json"
        "value.schema" = "n int"
        maxOffsetsPerTrigger = 10
        [table]
        path = "{folder}/table"
        select = ["value.*"]
        [run]
        checkpoint = "{folder}/checkpoint"
    """
    ingest.run(parse(job.encode(), "job.toml", {}), spark)
    files = list((folder / "table").glob("*.parquet"))
    table = ds.dataset(files, format="parquet").to_table()
    assert sorted(table.column("n").to_pylist()) == list(range(30))


@pytest.mark.parametrize("query", ["source", "function"])
def test_a_topic_that_was_recreated_since_is_noticed(spark, bootstrap, stored, tmp_path, query):
    folder = stored(query)
    with ottla.Admin(bootstrap) as admin:
        admin.delete_topics([TOPIC])
        admin.create_topics([ottla.NewTopic(TOPIC, partitions=2)])
    with ottla.Producer(bootstrap) as producer:
        producer.send_many(TOPIC, [b"{}"] * 30, partitions=[n % 2 for n in range(30)]).result(30)
    if query == "function":
        started = stream_kafka(spark, options(bootstrap), print, str(folder / "checkpoint"), available_now=True)
    else:
        frame = (
            spark.readStream.format("ottla")
            .options(**options(bootstrap, rememberTopicsIn=str(folder / "remembered")))
            .load()
        )
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        started = begun(writer.trigger(availableNow=True).start)
    with pytest.raises(Exception, match=f"topic {TOPIC} was deleted and recreated"):
        wait_for_end(started)
