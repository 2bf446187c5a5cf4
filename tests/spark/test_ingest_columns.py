"""What a Parquet folder must have in common with the rows that are added to it. Without a Spark session."""

import pytest
from pyspark.sql.types import StructType

from ottla.spark.ingest.columns import changed, partitions


def schema(ddl):
    """By JSON, since DDL needs a session: `name type` pairs, or nested ones."""
    return StructType.fromJson({"type": "struct", "fields": [field(*one) for one in ddl]})


def field(name, of):
    return {"name": name, "type": of, "nullable": True, "metadata": {}}


def struct(*fields):
    return {"type": "struct", "fields": [field(*one) for one in fields]}


def array(of):
    return {"type": "array", "elementType": of, "containsNull": True}


def mapped(of):
    return {"type": "map", "keyType": "string", "valueType": of, "valueContainsNull": True}


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ("integer", "string", "n is int in the folder and string now"),
        ("integer", "long", "n is int in the folder and bigint now"),
        ("timestamp", "timestamp_ntz", "n is timestamp in the folder and timestamp_ntz now"),
        (struct(("a", "integer")), struct(("a", "string")), "n.a is int in the folder and string now"),
        (array(struct(("a", "integer"))), array(struct(("a", "string"))), "n[].a is int in the folder and string now"),
        (mapped("integer"), mapped("string"), "n{} is int in the folder and string now"),
        (struct(("a", "integer")), "string", "n is struct<a:int> in the folder and string now"),
    ],
)
def test_a_changed_type_is_named(before, now, told):
    assert list(changed(schema([("n", before)]), schema([("m", "string"), ("n", now)]))) == [told]


def test_columns_may_come_and_go():
    before, now = [("n", "integer"), ("old", "string")], [("new", "string"), ("n", "integer")]
    assert not list(changed(schema(before), schema(now)))
    assert not list(changed(schema([("s", struct(*before))]), schema([("s", struct(*now))])))


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        ("1.parquet", ()),
        ("day=d0/1.parquet", ("day",)),
        ("b=1/a=2/1.parquet", ("b", "a")),
        ("a%3Db=1/1.parquet", ("a=b",)),
        ("_day=d0/1.parquet", ("_day",)),
        ("_ottla/q/0-1/day=d0/1.parquet", None),
        (".hidden/1.parquet", None),
        ("day=d0/_temporary/1.parquet", None),
        ("day=d0/.1.parquet.crc", None),
        ("notes.txt", None),
    ],
)
def test_folders_of_partitions(file, columns):
    assert partitions(file) == columns
