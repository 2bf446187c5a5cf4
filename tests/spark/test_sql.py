"""Columns in Spark's SQL, which options say and only Spark's JVM parses: what ours refuses, Spark refuses."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ottla.spark.shared.sql_columns import SqlError, check, names_in

GOOD = [
    "a int",
    "a: int, b: string",
    "`a b` int, `c``d` string",
    "a int not null, b string comment 'x, y', c date",
    'a string comment "it\'s"',
    "a struct<b: int, c: array<map<string, double>>> not null",
    "a struct<>",
    "a struct<b int not null comment 'z'>",
    "a array<struct<b: decimal(10, 2), c: char(3)>>",
    "a decimal, b decimal(5), c dec(5, 1), d numeric(3)",
    "a varchar(10), b character(2)",
    "a timestamp_ntz, b timestamp_ltz, c timestamp, d date",
    "a tinyint, b byte, c smallint, d short, e integer, f bigint, g long, h real, i float, j double",
    "a binary, b boolean, c void, d variant",
    "a interval year to month, b interval day to second, c interval hour, d interval",
    "A INT, B STRING COLLATE UNICODE",
    "date date, timestamp timestamp, int int, array array<int>",
    "a int -- a comment\n, b int /* another */",
    "a time, b time(3)",
    "_a1 int, 2b int",
]
BAD = [
    "",
    "a",
    "a int,",
    "a int b int",
    ", a int",
    "a intt",
    "a int4",
    "struct<a: int>",
    "a struct",
    "a struct<b>",
    "a struct<b int",
    "a struct<b: int>>",
    "a array",
    "a array<>",
    "a map<string>",
    "a map<string, string",
    "a decimal(10, 2",
    "a-b int",
    "a.b int",
    "a int)",
    "'a' int",
    "a: b: int",
    "a int 'b'",
    "name",
    "a text",
    "a uuid",
    "a dict<string>",
    "a array<int> b",
    '{"type": "record"',
    "a int; b int",
]


@pytest.mark.parametrize("columns", GOOD)
def test_columns_of_all_kinds_are_let_through(columns):
    check(columns)


@pytest.mark.parametrize("columns", BAD)
def test_what_is_refused_says_where(columns):
    with pytest.raises(SqlError):
        check(columns)


def test_spark_agrees(spark):
    """Ours lets through what only Spark can judge, and refuses nothing that Spark takes."""

    def reads(columns):
        try:
            # As a read has them: alone, Spark would take a type of a struct too.
            StructType.fromDDL(f"value struct<{columns}>")
        except PySparkException:
            return False
        return True

    assert [columns for columns in BAD if columns and reads(columns)] == []
    assert [columns for columns in GOOD if not reads(columns)] == []


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("id itn", "column id has the type itn, which Spark does not have; did you mean int?"),
        ("id int name string", "a comma is missing between column id and 'name'"),
        ("order-id int", "the name order-id needs backquotes: `order-id`"),
        ("id int, tags array", "column tags has the type array without what it holds, as in array<string>"),
        ("struct<id: int>", "the fields are wanted alone: leave out struct< and its >"),
        ("id", "column id has no type where the end of the text stands: write it as in `id string`"),
    ],
)
def test_errors_name_the_column(columns, told):
    with pytest.raises(SqlError) as caught:
        check(columns)
    assert str(caught.value) == told


def test_names():
    assert names_in("a int, `b ``c` struct<d: int, e: int>, f decimal(1, 2) comment 'g, h'") == ["a", "b `c", "f"]


@pytest.mark.parametrize("flatten", ["true", "false"])
def test_a_read_names_the_option_and_its_text(spark, flatten):
    """Spark showed a text that the user never wrote: `value` struct<...> among the columns of the record."""
    reader = spark.read.format("ottla").options(
        **{
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "subscribe": "t",
            "value.format": "json",
            "value.schema": "id itn",
            "value.flatten": flatten,
        }
    )
    with pytest.raises(PySparkException) as caught:
        reader.load()
    told = "option value.schema is 'id itn', which is not columns in Spark's SQL: column id has the type itn"
    assert told in str(caught.value)
    assert "struct<" not in str(caught.value)
