"""What tasks make of decoded columns, without Spark's JVM: values that Spark's types do not hold, and bad rows that nobody asks
for."""

import io
import json

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import types as sql_types

import ottla
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.dead_letters import failure
from ottla.spark.read.layout import Layout
from ottla.spark.read.schema import layout as layout_of
from ottla.spark.read.schema import schema as schema_of
from ottla.spark.shared import arrow_types

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
    return layout_of(options, schema_of(options, {}), {})


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


NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
INNER = {"type": "record", "name": "In", "fields": [{"name": "at", "type": NANOS}]}
FINE = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "at", "type": ["null", NANOS]},
        {"name": "all", "type": ["null", {"type": "array", "items": ["null", NANOS]}]},
        {"name": "by", "type": ["null", {"type": "map", "values": NANOS}]},
        {"name": "in", "type": ["null", INNER]},
    ],
}


def test_nanoseconds_are_rounded_down_before_1970_too(broker):
    counts = [-1_000_000_001, -1001, -1000, -999, -1, 0, 1, 999, 1000, 1001, None]
    plain = json.loads(json.dumps(FINE).replace(', "logicalType": "timestamp-nanos"', ""))
    values = []
    for count in counts:
        out = io.BytesIO()
        nested = {"all": [None, count], "by": {"a": count}, "in": {"at": count}} if count is not None else {}
        fastavro.schemaless_writer(out, plain, {"at": count, "all": None, "by": None, "in": None} | nested)
        values.append(out.getvalue())
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send_many("fine", values).result(30)
    with ottla.Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([ottla.TopicPartition("fine", 0, 0)])
        batch = consumer.poll(20, max_records=len(values))
        assert len(batch) == len(values)
    rows, bad = layout(**{"value.schema": json.dumps(FINE)}).decode(batch)
    assert bad == []
    columns = rows[0].column("value")
    wanted = [None if count is None else count // 1000 for count in counts]

    def microseconds(array):
        return array.cast(pa.int64()).to_pylist()

    assert microseconds(columns.field("at")) == wanted
    assert columns.field("all").null_count == columns.field("by").null_count == columns.field("in").null_count == 1
    assert microseconds(columns.field("all").flatten()) == [one for count in wanted[:-1] for one in (None, count)]
    assert microseconds(columns.field("by").items) == wanted[:-1]
    assert microseconds(columns.field("in").field("at"))[:-1] == wanted[:-1]


class VariantType(sql_types.DataType):
    """Named as Spark's own, which 3.5 does not have."""


VARIANT = getattr(sql_types, "VariantType", VariantType)()


@pytest.mark.parametrize(
    "kind",
    [
        VARIANT,
        sql_types.StructType().add("v", sql_types.ArrayType(VARIANT)),
        sql_types.MapType(sql_types.StringType(), VARIANT),
    ],
)
def test_a_variant_is_refused_by_name(kind):
    given = sql_types.StructType().add("a", sql_types.IntegerType()).add("v", kind)
    with pytest.raises(ValueError, match=r"column v has the type .*variant.*use string"):
        arrow_types.to_arrow(given)
