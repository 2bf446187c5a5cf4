"""What tasks make of decoded columns, without Spark's JVM: values that Spark's types do not hold, and bad rows that nobody asks
for."""

import io
import json

import fastavro
import pyarrow as pa
import pytest

import ottla
from ottla.spark import frame
from ottla.spark.bad_records import failure
from ottla.spark.layout import Layout
from ottla.spark.options import ReadOptions

WHEN = {"type": "long", "logicalType": "timestamp-millis"}
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", WHEN]},
        {"name": "all", "type": {"type": "array", "items": WHEN}},
    ],
}
# Avro's milliseconds reach a thousand times further than Spark's microseconds.
LAST = (2**63 - 1) // 1000
FAR = LAST + 1


def value(number, at=0, others=()):
    out = io.BytesIO()
    plain = json.loads(json.dumps(AVRO).replace(', "logicalType": "timestamp-millis"', ""))
    fastavro.schemaless_writer(out, plain, {"id": number, "at": at, "all": list(others)})
    return out.getvalue()


VALUES = [value(0, LAST), value(1, FAR), value(2, None), None, value(4, 0, [1, -FAR]), b"\xff", value(6, 0, [LAST])]


@pytest.fixture(scope="module")
def topic(broker):
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("far", partitions=1)])
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for one in VALUES:
            # A record of its own batch each, so that there are several pieces of columns.
            producer.send("far", one).result(30)
    return ottla.TopicPartition("far", 0, 0)


@pytest.fixture(scope="module", params=[False, True], ids=["copied", "in place"])
def batch(request, broker, topic):
    """The records, as a consumer has its first ones, or as it has those that follow a table of views."""
    with ottla.Consumer(broker.bootstrap_servers) as consumer:
        for _ in range(1 + request.param):
            consumer.assign([topic])
            found = consumer.poll(20, max_records=len(VALUES))
            assert len(found) == len(VALUES)
            found.to_arrow(view=request.param)
    return found


def layout(**given) -> Layout:
    given = {"value.format": "avro", "value.schema": json.dumps(AVRO), **given}
    options = ReadOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given})
    return frame.layout(options, frame.schema(options, {}), {})


def test_times_that_spark_does_not_hold_are_bad(batch):
    _, bad = layout().decode(batch)
    assert [(one.record.offset, one.record.column) for one in bad] == [(1, "at"), (4, "all"), (5, "id")]
    assert all(one.record.value == VALUES[one.record.row] for one in bad)
    assert str(failure(bad[0])).startswith(
        "the value of the record at offset 1 of partition 0 of topic far does not decode: column at: "
    )
    assert str(FAR) in str(failure(bad[0]))


@pytest.mark.parametrize("flatten", ["true", "false"])
def test_they_are_kept_or_left_out_by_mode(batch, flatten):
    given = {"value.flatten": flatten, "columns": "value,offset"}
    made, bad = layout(mode="DROPMALFORMED", **given).decode(batch)
    assert pa.Table.from_batches(made)["offset"].to_pylist() == [0, 2, 3, 6]
    assert bad == [], "nobody asks for them"
    made, bad = layout(mode="PERMISSIVE", **{**given, "columns": "value,offset,_corrupt"}).decode(batch)
    found = pa.Table.from_batches(made)
    assert found["_corrupt"].to_pylist() == [None, VALUES[1], None, None, VALUES[4], VALUES[5], None]
    ids = found["id"] if flatten == "true" else pa.chunked_array([part.field("id") for part in found["value"].chunks])
    assert ids.to_pylist() == [0, None, 2, None, None, None, 6]
    if flatten == "false":
        assert found["value"].is_null().to_pylist() == [False, True, False, True, True, True, False]
    assert bad == []


def test_dead_letters_are_named_without_failfast(batch):
    _, bad = layout(deadLetterTopic="d").decode(batch)
    assert [one.record.offset for one in bad] == [1, 4, 5]
