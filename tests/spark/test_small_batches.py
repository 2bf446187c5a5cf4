"""Micro-batches that the driver reads while it plans them: what Spark gets of them, and when it is left to tasks."""

import io
import json
import struct
from importlib.util import find_spec

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

import ottla
from ottla.spark import offsets_behind_latest
from ottla.spark.read.columns import COLUMNS
from ottla.spark.source import OttlaDataSource

from .conftest import run_stream

if find_spec("pyspark.sql.streaming.datasource") is None:
    pytest.skip("streams of this Spark have no limits", allow_module_level=True)

from pyspark.sql.streaming import python_streaming_source_runner as runner

from ottla.spark.read import small_batches

SCHEMA = StructType(COLUMNS)
START = {"small": {"0": 0, "1": 0}}
END = {"small": {"0": 4, "1": 2}}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """The driver reads as long as it takes, on a busy machine too."""
    monkeypatch.setattr(small_batches, "PATIENCE", 20.0)


@pytest.fixture(scope="module")
def records(broker):
    """A topic of 4 records in one partition, 3 in the other."""
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("small", partitions=2)])
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send_many("small", [b"%d" % n for n in range(7)], partitions=[0] * 4 + [1] * 3).result(30)
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "small", "startingOffsets": "earliest"}


def reader_of(records, **options):
    return OttlaDataSource({**records, "minRecordsPerPartition": "10", **options}).streamReader(SCHEMA)


def planned(reader, start=START, end=END):
    """How many partitions Spark gets with a plan, and the rows beside it; None where it gets none."""
    texts = [json.dumps(told).encode() for told in (start, end)]
    infile = io.BytesIO(b"".join(struct.pack("!i", len(text)) + text for text in texts))
    outfile = io.BytesIO()
    runner.partitions_func(reader, OttlaDataSource({}), SCHEMA, 10_000, infile, outfile)
    outfile.seek(0)
    number = lambda: struct.unpack("!i", outfile.read(4))[0]  # noqa: E731
    partitions = number()
    for _ in range(partitions):
        outfile.read(number())
    status = number()
    if status == runner.PREFETCHED_RECORDS_NOT_FOUND:
        return partitions, None
    if status == runner.EMPTY_PYARROW_RECORD_BATCHES:
        return partitions, []
    number()  # the beginning of an Arrow stream
    return partitions, pa.ipc.open_stream(outfile).read_all()["value"].to_pylist()


def test_rows_of_a_small_batch_come_with_its_plan(records):
    reader = reader_of(records)
    assert planned(reader) == (1, [b"0", b"1", b"2", b"3", b"4", b"5"])
    assert planned(reader, END, {"small": {"0": 4, "1": 3}}) == (1, [b"6"])


def test_only_then_does_spark_see_another_class(records):
    reader = reader_of(records)
    assert not isinstance(reader, runner._SimpleStreamReaderWrapper)
    assert reader.partitions(START, END)
    assert isinstance(reader, runner._SimpleStreamReaderWrapper)
    assert sum(batch.num_rows for batch in reader.getCache(START, END)) == 6
    assert not isinstance(reader, runner._SimpleStreamReaderWrapper)


def test_a_spark_that_takes_no_rows_is_given_none(records):
    reader = reader_of(records)
    assert reader.partitions(START, END)
    # In place of `getCache`, the next plan.
    assert reader.partitions(END, {"small": {"0": 4, "1": 3}})
    assert not isinstance(reader, runner._SimpleStreamReaderWrapper)
    assert planned(reader) == (1, None)


def test_what_is_not_small_is_left_to_tasks(records, monkeypatch):
    assert planned(reader_of(records, minRecordsPerPartition="2")) == (2, None)
    monkeypatch.setattr(small_batches, "MOST_OFFSETS", 5)
    assert planned(reader_of(records)) == (1, None)
    monkeypatch.setattr(small_batches, "MOST_OFFSETS", 6)
    assert planned(reader_of(records))[1]
    monkeypatch.setattr(small_batches, "MOST_BYTES", 10)
    reader = reader_of(records)
    assert planned(reader) == (1, None)
    monkeypatch.undo()
    assert planned(reader) == (1, None), "records that were too large are not tried again"


def test_what_fails_is_left_to_the_task(records, monkeypatch):
    monkeypatch.setattr(small_batches, "PATIENCE", 0.5)
    reader = reader_of(records)
    beyond = {"small": {"0": 9, "1": 3}}
    assert planned(reader, END, beyond) == (1, None), "nothing comes at the end of the log"
    typed = {"value.format": "json", "value.schema": "x int", "mode": "FAILFAST"}
    source = OttlaDataSource({**records, "minRecordsPerPartition": "10", **typed})
    schema = StructType().add("value", StructType().add("x", IntegerType()))
    failing = source.streamReader(schema)
    assert len(failing.partitions(START, END)) == 1
    assert not isinstance(failing, runner._SimpleStreamReaderWrapper)


def test_what_a_task_does_beside_reading_is_left_to_it(records):
    assert isinstance(reader_of(records), small_batches.SmallBatchReader)
    options = {"value.format": "json", "value.schema": "x int", "deadLetterTopic": "d", "minRecordsPerPartition": "9"}
    schema = StructType().add("value", StructType().add("x", IntegerType()))
    assert type(OttlaDataSource({**records, **options}).streamReader(schema)) is not small_batches.SmallBatchReader
    reader = reader_of(records)
    [task] = reader.partitions(START, END)
    assert reader._is_small(task.value)
    assert not reader._is_small([replace_token(span) for span in task.value]), "its token is not the driver's"


def replace_token(span):
    return span._replace(token=object())


PLAIN = (
    "n long, text string, at timestamp, local timestamp_ntz, day date, price decimal(20, 3), data binary, flag boolean, "
    "tiny tinyint, little smallint, number int, f float, d double, inner struct<a: int, b: struct<c: string, d: date>>"
)


def plain(number):
    """Values of all types, some of them null."""
    if number == 3:
        return json.dumps({"n": number}).encode()
    some = {
        "n": number,
        "text": None if number % 3 else f"ä{number}" * number,
        "at": f"2026-11-26T12:00:{number:02}.123456Z",
        "local": "1950-01-01T00:00:00.000001",
        "day": "1969-12-31",
        "price": number / 8,
        "data": "AAEC",
        "flag": [None, True, False][number % 3],
        "inner": {"a": number, "b": {"c": "x", "d": "2026-11-26"} if number % 4 else None} if number % 2 else None,
    }
    return json.dumps(some | dict.fromkeys(["tiny", "little", "number", "f", "d"], -number)).encode()


@pytest.mark.parametrize("least", ["100", "1"], ids=["by the driver", "by tasks"])
def test_every_type_comes_as_a_batch_has_it(topic, spark, tmp_path, least):
    t = topic(3)
    for partition in range(3):
        t.produce([plain(n) for n in range(partition * 5, partition * 5 + 5)], partition=partition)
    options = t.options(**{"startingOffsets": "earliest", "value.format": "json", "value.schema": PLAIN})
    options["minRecordsPerPartition"] = least
    progress = run_stream(spark, "ottla", tmp_path, {**options, "maxOffsetsPerTrigger": "6"})
    assert sum(batch["numInputRows"] for batch in progress) == 15
    assert offsets_behind_latest(progress[0]["sources"][0])["maxOffsetsBehindLatest"] > 0
    want = sorted(spark.read.format("ottla").options(**options).load().collect(), key=lambda row: row.value.n)
    found = sorted(spark.read.parquet(str(tmp_path / "rows")).collect(), key=lambda row: row.value.n)
    assert len(want) == 15
    assert found == want


@pytest.mark.parametrize(
    "kind",
    [ArrayType(IntegerType()), MapType(StringType(), IntegerType()), StructType().add("y", ArrayType(LongType()))],
)
def test_arrays_and_maps_are_left_to_tasks(records, kind):
    options = {"value.format": "json", "minRecordsPerPartition": "9", "columns": "value"}
    source = OttlaDataSource({**records, **options})
    schema = StructType().add("value", StructType().add("x", kind))
    assert type(source.streamReader(schema)) is not small_batches.SmallBatchReader
