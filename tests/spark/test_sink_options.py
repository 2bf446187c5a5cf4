"""The options and columns of a write, without Spark's JVM."""

import pickle

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from ottla.spark.write.options import COLUMNS, KNOWN, WriteOptions
from ottla.spark.write.producers import check

GOOD = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
HEADERS = COLUMNS["headers"][0]


def value():
    return StructType().add("value", StringType())


def test_names_in_any_case_as_spark_takes_them():
    options = WriteOptions.parse(
        {
            "KAFKA.Bootstrap.Servers": " h:1,i:2 ",
            "TOPIC": " orders ",
            "includeHeaders": "True",
            # As Spark adds it for a query with a name, and the place of its checkpoint.
            "queryname": "orders",
            "checkpointlocation": "/tmp/c",
            "kafka.compression.type": "zstd",
        }
    )
    assert options == WriteOptions("h:1,i:2", "orders", (("compression.type", "zstd"),))
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"topic": " "}, "option topic is empty"),
        ({"topics": "t"}, "option topics is not known to ottla; did you mean topic?"),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false, not 'yes'"),
        ({"kafka.key.serializer": "x"}, "kafka.key.serializer cannot be set"),
        ({"kafka.value.serializer": "x"}, "kafka.value.serializer cannot be set"),
        (
            {"kafka.transactional.id": "x"},
            "kafka.transactional.id cannot be set: with exactlyOnce=true each task has one",
        ),
    ],
)
def test_errors_name_the_option(change, why):
    with pytest.raises(ValueError, match="option") as raised:
        WriteOptions.parse({**GOOD, **change})
    assert why in str(raised.value)


def test_unknown_option_lists_the_known_ones():
    with pytest.raises(ValueError, match="option startingOffsets is not known") as raised:
        WriteOptions.parse({**GOOD, "startingOffsets": "earliest"})
    assert all(name in str(raised.value) for name in KNOWN)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kafka.linger": "5"}, "option kafka.linger: is not a property of the producer; did you mean linger.ms?"),
        ({"kafka.acks": "most"}, "option kafka.acks: must be one of all, -1, 0, 1"),
        ({"kafka.partitioner.class": "x.Y"}, "option kafka.partitioner.class: names a Java class"),
    ],
)
def test_bad_properties_are_refused_before_tasks_run(change, why):
    with pytest.raises(ValueError, match="option kafka") as raised:
        check(WriteOptions.parse({**GOOD, **change}))
    assert why in str(raised.value)


def test_files_of_the_tasks_are_not_looked_for_in_the_driver():
    secured = {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.location": "/only/on/executors.p12"}
    check(WriteOptions.parse({**GOOD, **secured, "kafka.ssl.keystore.password": "x"}))


def test_a_repr_leaves_out_properties_since_some_are_secret():
    options = WriteOptions.parse({**GOOD, "kafka.sasl.password": "hunter2"})
    assert dict(options.properties) == {"sasl.password": "hunter2"}
    assert "hunter2" not in repr(options)


def test_columns_are_found_by_name_and_others_left_out():
    schema = (
        StructType()
        .add("timestamp", LongType())
        .add("partition", IntegerType())
        .add("value", BinaryType(), nullable=False)
        .add("topic", LongType())
        .add("headers", HEADERS)
        .add("key", StringType())
        .add("value", LongType())
    )
    found = WriteOptions.parse(GOOD).columns(schema)
    assert found == (("key", 5), ("value", 2), ("headers", 4), ("partition", 1))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (StructType().add("Value", StringType()), "column value is missing, .* the columns are: Value"),
        (value(), "no topic is given: set option topic for all rows, or give the rows a column topic"),
        (value().add("topic", BinaryType()), "column topic has type binary and must be of type string: cast it"),
    ],
)
def test_columns_that_make_no_record_are_refused(schema, why):
    options = WriteOptions.parse({"kafka.bootstrap.servers": "h:1"})
    with pytest.raises(ValueError, match=why):
        options.columns(schema)


@pytest.mark.parametrize(
    ("name", "wrong", "why"),
    [
        ("value", IntegerType(), "value has type int and must be of type string or binary"),
        ("key", LongType(), "key has type bigint and must be of type string or binary"),
        ("partition", LongType(), "partition has type bigint and must be of type int"),
        (
            "headers",
            StringType(),
            "headers has type string and must be of type array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_wrong_types_are_refused(name, wrong, why):
    schema = StructType().add(name, wrong).add("key", StringType()).add("value", StringType())
    with pytest.raises(ValueError, match="must be of type") as raised:
        WriteOptions.parse(GOOD).columns(schema)
    assert why in str(raised.value)
