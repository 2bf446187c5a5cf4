"""Records that cannot be read: a query fails and says what to do, or passes them over and says which they are."""

import logging

import pytest
from tests.damage import Segment
from tests.spark.conftest import close_clients, run_stream

import ottla
from ottla.errors import CorruptRecordError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read import kafka_log, range_reader
from ottla.spark.read.schema import layout, schema
from ottla.spark.shared.ranges import Range
from ottla.testing import Broker

pytestmark = pytest.mark.timeout(180)

# In batches of three: that at offset 3 is damaged, and at the offsets 7, 8 and 10 stand headers whose key is not UTF-8.
END = 12
READABLE = [0, 1, 2, 6, 9, 11]


@pytest.fixture
def kafka(tmp_path):
    """A broker whose topic `t` holds that."""
    folder = tmp_path / "log"
    with Broker(topics=["t"], data_dir=folder) as broker:
        segment = Segment(folder, "t")
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for first in range(0, END, 3):
                values = [b"%d" % offset for offset in range(first, first + 3)]
                headers = [[(f"é{offset}", b"")] if offset in (7, 8, 10) else [] for offset in range(first, first + 3)]
                producer.send_many("t", values, headers=headers).result(30)
        segment.flip(3)
        for batch, offset in ((6, 7), (6, 8), (9, 10)):
            segment.replace(batch, f"é{offset}".encode(), b"\xff\xfe%d" % offset)
        yield broker
        close_clients()


def options(broker, **given):
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", **given}


def read(broker, start, end, **given):
    parsed = ReadOptions.parse(options(broker, **given))
    batches = range_reader.read(parsed, Range("t", 0, start, end), layout(parsed, schema(parsed, {}), {}))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_range_fails_by_default_and_says_what_passes_it_over(kafka):
    assert read(kafka, 0, 3) == [0, 1, 2]
    with pytest.raises(CorruptRecordError, match="offset 3 .* CRC .*set option onCorrupt to skip"):
        read(kafka, 0, END)
    with pytest.raises(
        CorruptRecordError, match="the record at offset 7 cannot be shown.*set option onCorrupt to skip"
    ):
        read(kafka, 6, END, onCorrupt="fail")
    assert read(kafka, 11, END) == [11]


def test_a_range_passes_over_that_batch_and_those_records_alone(kafka, caplog):
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        assert read(kafka, 0, END, onCorrupt="skip") == READABLE
    told = [record.getMessage() for record in caplog.records if record.name == "ottla.spark"]
    assert [text.split(" are skipped")[0] for text in told] == [
        "t-0: offsets 3 to 5",
        "t-0: offsets 7 to 8",
        "t-0: offsets 10 to 10",
    ]
    assert "CRC" in told[0]
    # Of a batch at the end of a range, too.
    assert read(kafka, 1, 5, onCorrupt="Skip") == [1, 2]


def test_a_sample_goes_on_behind_what_cannot_be_read(kafka):
    starts, ends = {("t", 0): 3}, {("t", 0): END}
    skipping = kafka_log.KafkaLog(ReadOptions.parse(options(kafka, onCorrupt="skip")))
    assert 0 < skipping.record_bytes(starts, ends)["t", 0] <= 1
    with pytest.raises(CorruptRecordError, match="onCorrupt"):
        kafka_log.KafkaLog(ReadOptions.parse(options(kafka))).record_bytes(starts, ends)


def test_batches_and_streams_take_the_option(spark, kafka, tmp_path):
    given = options(kafka, startingOffsets="earliest", onCorrupt="skip")
    batch = spark.read.format("ottla").options(**given).load()
    assert sorted(row.offset for row in batch.select("offset").collect()) == READABLE
    run_stream(spark, "ottla", tmp_path, {**given, "maxOffsetsPerTrigger": "4", "maxBytesPerTrigger": "1000"})
    written = spark.read.parquet(str(tmp_path / "rows"))
    assert sorted(row.offset for row in written.collect()) == READABLE
    failing = spark.read.format("ottla").options(**options(kafka)).load()
    with pytest.raises(Exception, match="set option onCorrupt to skip"):
        failing.collect()
