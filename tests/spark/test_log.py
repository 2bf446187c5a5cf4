"""format("ottla-log"): folders of the embedded broker, read beside the broker itself."""

import json
import shutil
import sys

import pytest
from pyspark.errors import PySparkException
from tests.python.tiered_scenes import scenes, unpacked

import ottla
import ottla.testing
from ottla.spark import register
from ottla.spark.log.options import LogOptions
from ottla.spark.log.source import OttlaLogDataSource
from pyspark_ottla_log import DefaultSource

from .conftest import Topic, rows
from .starts import begun

SPARKS_SOCKETS = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings(SPARKS_SOCKETS)]
SECRET = "hunter2-s3cret"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("log")


@pytest.fixture(scope="module")
def orders(spark, folder):
    """A topic of a broker with its log in a folder, of two partitions with several segments."""
    with ottla.testing.Broker(data_dir=folder, config={"log.segment.bytes": 5000}) as broker:
        topic = Topic(spark, broker, 2, "orders")
        other = Topic(spark, broker, 1, "other")
        for first in range(0, 300, 30):
            values = [json.dumps({"n": n, "name": f"item {n}"}) for n in range(first, first + 30)]
            topic.produce([v.encode() for v in values], headers=[("h", b"x"), ("h", None)] if first % 20 else None)
        other.produce([b"not json", b'{"n": 1}'])
        yield topic


@pytest.fixture
def read(spark, folder, orders):
    """A read of the folder."""

    def read(path=folder, **options):
        return spark.read.format("ottla-log").options(**options).load(str(path))

    return read


def test_rows_are_those_of_the_broker(orders, read):
    wanted = rows(orders.read())
    assert len(wanted) == 300
    assert read().schema == orders.read().schema
    assert rows(read(subscribe="orders")) == wanted
    assert rows(read(subscribePattern="^ord", includeHeaders="true")) == rows(orders.read(includeHeaders="true"))
    assert rows(read(assign='{"orders": [1]}')) == [row for row in wanted if row[3] == 1]
    assert len(rows(read())) == 302
    ends = {"startingOffsets": '{"orders": {"0": 5, "1": -2}}', "endingOffsets": '{"orders": {"0": -1, "1": 44}}'}
    assert rows(read(subscribe="orders", **ends)) == rows(orders.read(**ends))
    assert read(subscribe="other", startingOffsets='{"other": {"0": 2}}').collect() == []


def test_projection_and_typed_columns(orders, read):
    wanted = rows(orders.read())
    assert sorted(map(tuple, read(subscribe="orders", columns="offset,partition").collect())) == sorted(
        (row[4], row[3]) for row in wanted
    )
    typed = {"value.format": "json", "value.schema": "n long, name string", "value.flatten": "true"}
    found = read(subscribe="orders", **typed).collect()
    assert sorted(row.n for row in found) == list(range(300))
    with pytest.raises(PySparkException, match="DecodeError.*other"):
        read(subscribe="other", **typed).collect()
    assert [row.n for row in read(subscribe="other", mode="DROPMALFORMED", **typed).collect()] == [1]


def test_each_segment_has_a_task(folder, read):
    segments = len(list(folder.glob("orders-*/*.log")))
    assert segments > 4

    def counts(**options):
        return read(subscribe="orders", **options).rdd.mapPartitions(lambda part: [sum(1 for _ in part)]).collect()

    assert len(counts()) == segments
    assert len(counts(maxBytesPerPartition="1")) >= segments
    assert sum(counts(maxBytesPerPartition="1")) == 300


def test_urls_through_fsspec(orders, read, folder):
    # Tasks have processes of their own, which a file system in memory would not reach.
    assert rows(read(f"local://{folder}", subscribe="orders", **{"fsspec.auto_mkdir": "false"})) == rows(orders.read())
    assert rows(read(f"file://{folder}/orders-*")) == rows(orders.read())


def test_damage_is_told_where_it_is(read, folder, tmp_path):
    shutil.copytree(folder / "orders-0", tmp_path / "orders-0")
    path = sorted((tmp_path / "orders-0").glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(PySparkException, match=rf"{path.name} is damaged at byte \d+ \(orders-0, offset \d+\).*CRC"):
        read(tmp_path).collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": ""}, "option path is missing"),
        ({"kafka.bootstrap.servers": "h:1"}, "option kafka.bootstrap.servers is not known to ottla"),
        ({"include": "true"}, "did you mean includeHeaders"),
        ({"deadLetterTopic": "t"}, "option deadLetterTopic is not known"),
        ({"startingOffsets": "group:g"}, "cannot name a consumer group"),
        ({"startingTimestamp": "1"}, "option startingTimestamp is not known"),
        ({"subscribe": "a", "assign": "{}"}, "exclude each other"),
        ({"kafka.isolation.level": "committed"}, "must be read_uncommitted or read_committed"),
        ({"maxBytesPerPartition": "0"}, "above 0"),
        ({"fsspec.secret": "{" + SECRET}, "option fsspec.secret begins like JSON"),
        ({"privateKeyFiles": SECRET}, "option privateKeyFiles is a JSON object"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said) as caught:
        LogOptions.parse({"path": "/x", **options})
    assert SECRET not in str(caught.value)


def test_options_of_a_file_system():
    given = {
        "fsspec.key": "12345",
        "FSSPEC.anon": "true",
        "fsspec.client_kwargs": '{"a": [1]}',
        "fsspec.secret": SECRET,
    }
    options = LogOptions.parse({"path": f"s3://u:{SECRET}@h/x", **given})
    assert dict(options.storage) == {"key": "12345", "anon": True, "client_kwargs": {"a": [1]}, "secret": SECRET}
    assert SECRET not in repr(options)


def test_what_is_not_there_is_said(read, tmp_path):
    for options, said in (
        ({"subscribe": "absent"}, "option subscribe names topic absent, of which there is no folder"),
        ({"assign": '{"orders": [7]}'}, "option assign names orders-7"),
        ({"subscribe": "other", "startingOffsets": '{"other": {"0": 99}}'}, "holds 0 to 2"),
        ({"startingOffsets": "latest"}, "would read nothing"),
    ):
        with pytest.raises(PySparkException, match=said):
            read(**options).collect()
    with pytest.raises(PySparkException, match="has no log of a partition"):
        read(tmp_path).collect()
    assert read(subscribe="other", startingOffsets='{"other": {"0": 99}}', failOnDataLoss="false").count() == 0


def test_no_streams_and_no_writes(spark, read, folder, tmp_path):
    stream = spark.readStream.format("ottla-log").load(str(folder))
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match="in batches"):
        begun(writer.start).awaitTermination(60)
    with pytest.raises(PySparkException, match="writes none"):
        read().write.format("ottla-log").mode("append").save(str(tmp_path))


def test_plans_and_errors_hide_the_options_of_a_file_system(spark, read):
    register(spark)
    frame = read(f"nosuch://user:{SECRET}@host/x", **{"fsspec.token": SECRET})
    with pytest.raises(PySparkException, match="Protocol not known") as caught:
        frame.collect()
    assert SECRET not in str(caught.value)
    stream = spark.readStream.format("ottla-log").option("fsspec.client_kwargs", SECRET).load("/x")
    assert SECRET not in stream._jdf.queryExecution().toString()
    for url in (f"s3://user:{SECRET}@host/x", f"https://host/x?sig={SECRET}"):
        stream = spark.readStream.format("ottla-log").option("path", url).load()
        assert SECRET not in stream._jdf.queryExecution().toString()


def test_spark_finds_it_by_the_name_of_its_package():
    assert DefaultSource is OttlaLogDataSource
    assert DefaultSource.name() == "ottla-log"
    assert "pyspark_ottla_log" in sys.modules


def test_tiered_segments(spark, tmp_path):
    """The store of real Kafka, joined with its broker's folder: librdkafka's rows. Tasks need no RSA key."""
    found = scenes()["encrypted-zstd"]
    for kind in ("store", "local"):
        unpacked(found[kind], tmp_path / kind)
    keys = {name: tmp_path / f"{name}.pem" for name in found["keys"]}
    for name, path in keys.items():
        path.write_text(found["keys"][name])
    options = {"privateKeyFiles": json.dumps({name: str(path) for name, path in keys.items()})}
    whole = spark.read.format("ottla-log").options(remotePath=str(tmp_path / "store" / "pre"), **options)
    for level in ("read_uncommitted", "read_committed"):
        rows = whole.option("kafka.isolation.level", level).load(str(tmp_path / "local"))
        assert sorted((r.partition, r.offset, bytes(r.value).decode()) for r in rows.collect()) == [
            (partition, offset, value) for partition, offset, _, _, value in found[level]
        ]
    alone = spark.read.format("ottla-log").options(**options).load(str(tmp_path / "store" / "pre"))
    assert 0 < alone.count() < len(found["read_uncommitted"])
    with pytest.raises(PySparkException, match="encrypted with the RSA key 'first'"):
        spark.read.format("ottla-log").load(str(tmp_path / "store" / "pre")).collect()
