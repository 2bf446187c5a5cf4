"""Options of typed columns, and the frames that they make, without Spark."""

import base64
import json
import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from tests.python.test_decode_protobuf import FILE, TIME, Whole

from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.schema import layout as layout_of
from ottla.spark.read.schema import look_up
from ottla.spark.read.schema import schema as schema_of
from ottla.spark.shared import formats
from ottla.spark.shared.formats import KNOWN

GOOD = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
ITEM = StructType([StructField("item", StringType()), StructField("price", DecimalType(8, 2))])
ITEM_JSON = {"value.format": "json", "value.schema": ITEM.json()}
AVRO = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "note", "type": "string", "default": "none"},
        ],
    }
)


def parse(**given):
    return ReadOptions.parse({**GOOD, **given})


def columns(given, user=None):
    """The frame's schema in Spark's words, and what tasks do for it."""
    options = ReadOptions.parse({**GOOD, **given})
    made = schema_of(options, {}) if user is None else user
    return made, layout_of(options, made, {})


@pytest.mark.parametrize("side", ["key", "value"])
def test_a_byte_order_mark_is_no_part_of_a_schema(tmp_path, side):
    file = tmp_path / "schema"
    file.write_text("\ufeffa int", encoding="utf-8")
    found = formats.parse({f"{side}.format": "json", f"{side}.schema.file": str(file)})
    assert getattr(found, side).schema == "a int"
    found = formats.parse({f"{side}.format": "json", f"{side}.schema": "\ufeffa int"})
    assert getattr(found, side).schema == "a int"


def test_nothing_is_typed_unless_an_option_says_so():
    assert parse().typed is None
    made, layout = columns({})
    assert made.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert layout.sides == ()


def test_a_typed_value_is_a_struct_beside_the_columns_of_the_record():
    made, layout = columns(ITEM_JSON)
    assert made.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert made["value"].dataType == ITEM
    (side,) = layout.sides
    assert (side.name, side.format, side.schema.names) == ("value", "json", ["item", "price"])
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert pickle.loads(pickle.dumps(layout)).sides[0].decoder() is side.decoder(), "one a process"


def test_fields_of_the_value_as_columns():
    made, _ = columns({**ITEM_JSON, "value.flatten": "true"})
    assert made.names == ["key", "item", "price", "topic", "partition", "offset", "timestamp", "timestampType"]
    made, layout = columns({**ITEM_JSON, "value.flatten": "true", "columns": "offset, value.price"})
    assert made.names == ["offset", "price"]
    assert layout.sides[0].schema.names == ["price"]
    assert layout.of_records == {"offset"}


def test_columns_choose_and_order():
    made, layout = columns({**ITEM_JSON, "columns": "value.price,offset,headers"})
    assert made.names == ["value", "offset", "headers"]
    assert made["value"].dataType.names == ["price"]
    made, layout = columns({"columns": "offset,value"})
    assert (made.names, layout.sides) == (["offset", "value"], ())
    made, layout = columns({**ITEM_JSON, "columns": "offset"})
    assert layout.sides == (), "what is not wanted is not decoded"


def test_a_permissive_frame_has_the_bytes_of_bad_records():
    given = {**ITEM_JSON, "mode": "permissive", "columnNameOfCorruptRecord": "_bad", "key.format": "string"}
    made, layout = columns(given)
    assert made.names[-2:] == ["_bad", "_bad_key"]
    assert made["_bad"].dataType == BinaryType()
    assert not layout.drop
    _, layout = columns({**ITEM_JSON, "mode": "DROPMALFORMED"})
    assert layout.drop
    assert parse(**ITEM_JSON, deadLetterTopic="dead").typed.mode == "DROPMALFORMED"


def test_a_text_in_sparks_sql_is_left_to_spark():
    text = "item string, price decimal(8,2)"
    given = {"value.format": "json", "value.schema": text}
    assert schema_of(parse(**given), {}).startswith(f"`key` binary, `value` struct<{text}>, `topic` string, ")
    flat = schema_of(parse(**given, **{"value.flatten": "true", "columns": "value,offset"}), {})
    assert flat == f"{text}, `offset` bigint"
    key = {"key.format": "json", "key.schema": StructType([StructField("a b", LongType())]).json()}
    assert "`key` struct<`a b` bigint>, " in schema_of(parse(**given, **key), {})


def test_a_schema_of_the_format_tells_its_fields():
    made, layout = columns({"value.format": "avro", "value.schema": AVRO})
    assert made["value"].dataType.simpleString() == "struct<id:bigint,clock:int,note:string>"
    assert dict(layout.sides[0].options) == {"framed": False, "select": ("id", "clock", "note")}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
    }
    made, _ = columns({"value.format": "json", "value.schema": json.dumps(schema)})
    assert made["value"].dataType.simpleString() == "struct<a:bigint,b:array<string>>"


def test_avro_in_other_types_than_its_schema_has():
    user = StructType([StructField("value", StructType([StructField("id", StringType())]))])
    with pytest.raises(ValueError, match="option value.schema: id: the writer's long does not become Utf8"):
        columns({"value.format": "avro", "value.schema": AVRO}, user)
    user = StructType([StructField("value", StructType([StructField("id", DecimalType(20, 0))]))])
    with pytest.raises(ValueError, match="does not become Decimal"):
        columns({"value.format": "avro", "value.schema": AVRO}, user)
    # A field that the schema does not have is null, as for any reader of Avro.
    user = StructType(
        [StructField("value", StructType([StructField("id", LongType()), StructField("new", LongType())]))]
    )
    _, layout = columns({"value.format": "avro", "value.schema": AVRO}, user)
    assert dict(layout.sides[0].options)["writer_schema"] == AVRO


@pytest.mark.parametrize("topics", [{"assign": '{"t":[0]}'}, {"subscribePattern": "t"}])
def test_dead_letters_into_a_topic_that_is_read(topics):
    """Under a pattern it is enough that the topic would match, whether it is there or not."""
    given = {"kafka.bootstrap.servers": "h:1", **topics, **ITEM_JSON}
    (option,) = topics
    with pytest.raises(ValueError, match=f"option deadLetterTopic is t, which option {option} reads"):
        ReadOptions.parse({**given, "deadLetterTopic": "t"})
    assert ReadOptions.parse({**given, "deadLetterTopic": "dead"}).typed.dead_letters == "dead"


def described(tmp_path):
    from google.protobuf import descriptor_pb2

    file = tmp_path / "shop.desc"
    file.write_bytes(descriptor_pb2.FileDescriptorSet(file=[TIME, FILE]).SerializeToString())
    return file


def test_protobuf_by_a_file_of_descriptors(tmp_path):
    file = described(tmp_path)
    given = {"value.format": "protobuf", "value.schema.file": str(file), "value.message": Whole.DESCRIPTOR.full_name}
    made, layout = columns({**given, "columns": "value.uint64,value.lines"})
    assert made["value"].dataType.simpleString() == "struct<uint64:decimal(20,0),lines:array<struct<sku:string>>>"
    assert dict(layout.sides[0].options)["select"] == ("uint64", "lines")
    in_base64 = {"value.format": "protobuf", "value.schema": base64.b64encode(file.read_bytes()).decode()}
    assert columns(in_base64)[0]["value"].dataType.names == ["sku"], "the first message"
    user = StructType([StructField("value", StructType([StructField("uint32", IntegerType())]))])
    with pytest.raises(ValueError, match="has field uint32 as bigint, and the frame's schema as int"):
        columns(given, user)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"value.format": "xml"}, "option value.format must be json or avro or"),
        ({"value.schema": "a int"}, "option value.schema is for json and avro and protobuf and csv"),
        ({"mode": "PERMISSIVE"}, "option mode has no meaning while keys and values are raw bytes"),
        ({"deadLetterTopic": "d"}, "option deadLetterTopic has no meaning while"),
        ({**ITEM_JSON, "mode": "ignore"}, "option mode must be failfast or permissive or dropmalformed, not 'ignore'"),
        (
            {**ITEM_JSON, "mode": "FAILFAST", "deadLetterTopic": "d"},
            "options mode=FAILFAST and deadLetterTopic exclude",
        ),
        ({**ITEM_JSON, "deadLetterTopic": " "}, "option deadLetterTopic is empty"),
        ({**ITEM_JSON, "deadLetterTopic": " t "}, "option deadLetterTopic is t, which option subscribe reads"),
        ({**ITEM_JSON, "columnNameOfCorruptRecord": ""}, "option columnNameOfCorruptRecord is empty"),
        ({**ITEM_JSON, "value.delimiter": ";"}, "option value.delimiter is for csv, and option value.format is json"),
        ({**ITEM_JSON, "value.schema.file": "f"}, "options value.schema and value.schema.file exclude each other"),
        ({"value.format": "json", "value.schema.file": "/absent"}, "option value.schema.file cannot be read where the"),
        (
            {"value.format": "protobuf", "value.schema": "syntax"},
            "option value.schema is a FileDescriptorSet in base64",
        ),
        (
            {"value.format": "string", "value.flatten": "true"},
            "option value.flatten wants fields, and option value.format is",
        ),
        (
            {"value.format": "avro", "value.schema.registry.subject": "s"},
            "needs a registry: set option schema.registry.url",
        ),
        (
            {"value.format": "avro", "schema.registry.url": "http://h", "schema.registry.basic.auth.user.info": "u"},
            "basic.auth.user.info must be a user and a password with a colon",
        ),
        (
            {"value.format": "avro", "schema.registry.url": "http://h", "value.schema.registry.version": "0"},
            "option value.schema.registry.version must be a whole number above 0",
        ),
        ({**ITEM_JSON, "columns": ","}, "option columns names none"),
        ({**ITEM_JSON, "columns": "offset,offset"}, "option columns names offset twice"),
    ],
)
def test_options_that_cannot_be(given, why):
    with pytest.raises(ValueError, match="option") as raised:
        parse(**given)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"value.format": "json"}, "option value.format is json, which does not contain its fields: give .schema(...)"),
        (
            {"key.format": "csv"},
            "option key.format is csv, which does not contain its fields: give .schema(...), option key.",
        ),
        ({"value.format": "avro", "value.schema": '{"type":"rec"}'}, "option value.schema: "),
        ({"value.format": "json", "value.schema": '{"type":"struct"}'}, "is not the JSON of a schema of Spark"),
        ({**ITEM_JSON, "columns": "item"}, "option columns names item, and there are key, value,"),
        ({**ITEM_JSON, "columns": "key.item"}, "option columns names key.item"),
        ({**ITEM_JSON, "columns": "value,value.item"}, "option columns names value as a whole and fields of it"),
        ({**ITEM_JSON, "columns": "value.Item"}, "names value.Item, and the fields of the value are item, price"),
        ({**ITEM_JSON, "columns": "_corrupt,value"}, "option columns names _corrupt, and there are"),
        ({**ITEM_JSON, "columns": "_corrupt,offset", "mode": "PERMISSIVE"}, "take a column of the value, too"),
        (
            {"value.format": "json", "value.schema": "a int", "columns": "value.a"},
            "cannot choose fields of option value.schema",
        ),
        (
            {
                "value.format": "json",
                "value.schema": StructType([StructField("Offset", LongType())]).json(),
                "value.flatten": "true",
            },
            "two columns would be named offset: option columns names those that are wanted",
        ),
    ],
)
def test_frames_that_cannot_be(given, why):
    with pytest.raises(ValueError) as raised:
        columns(given)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("columns_", "given", "why"),
    [
        ([("item", StringType())], ITEM_JSON, "declare the fields of a typed value as value struct<item:string>, or set"),
        ([("offset", StringType()), ("value", ITEM)], ITEM_JSON, "column offset has type string in the schema, and is bigint"),
        ([("value", StringType())], ITEM_JSON, "column value has type string, and option value.format=json makes a struct"),
        ([("value", ITEM)], {"value.format": "string"}, "column value has type struct<item:string,price:decimal(8,2)>"),
        ([("value", ITEM)], {"value.format": "csv", "value.schema": StructType([StructField("x", LongType())]).json()}, "option value.schema has no field item; its fields are x"),
        ([("value", ITEM)], {"value.format": "avro"}, "Avro data does not contain its schema"),
        ([("value", ITEM)], {"value.format": "protobuf"}, "option value.format is protobuf, which does not contain its fields"),
    ],
)  # fmt: skip
def test_schemas_of_users_that_cannot_be(columns_, given, why):
    user = StructType([StructField(name, kind) for name, kind in columns_])
    with pytest.raises(ValueError) as raised:
        columns(given, user)
    assert why in str(raised.value)


def test_a_column_that_may_have_to_be_null():
    user = StructType([StructField("value", ITEM, nullable=False)])
    with pytest.raises(ValueError, match="column value is NOT NULL, and has nulls where a record has none"):
        columns(ITEM_JSON, user)
    columns(ITEM_JSON, StructType([StructField("offset", LongType(), nullable=False)]))


def test_csv_fields_keep_their_places():
    three = StructType([StructField(name, LongType()) for name in "abc"])
    _, layout = columns({"value.format": "csv", "value.schema": three.json(), "columns": "value.c"})
    (side,) = layout.sides
    assert (side.schema.names, dict(side.options)["select"]) == (["a", "b", "c"], ("c",))


# Colons are for what stands in struct<...>, as the text of the option does unless value.flatten is set.
SQL = "a bigint COMMENT 'x, y', `b,``c` decimal(8,2) NOT NULL /* z, */, d: string -- no, d2 int"
IN_SQL = ["a", "b,`c", "d"]


def test_csv_fields_in_sparks_sql_keep_their_places_beside_a_schema():
    """Only Spark reads the text, and with `.schema(...)` it does not, so that fields would be taken from other places."""
    given = {"value.format": "csv", "value.schema": SQL}
    user = StructType([StructField(name, StringType()) for name in IN_SQL])
    whole = StructType([StructField("offset", LongType()), StructField("value", user)])
    assert columns(given, whole)[1].sides[0].schema.names == IN_SQL
    flat = StructType([user[0], StructField("offset", LongType()), *user.fields[1:]])
    assert columns({**given, "value.flatten": "true"}, flat)[1].sides[0].schema.names == IN_SQL
    for names in (IN_SQL[::-1], IN_SQL[:2], [*IN_SQL, "e"]):
        other = StructType([StructField("value", StructType([StructField(name, StringType()) for name in names]))])
        with pytest.raises(ValueError, match=r"option value.schema has the fields a, b,`c, d, and .schema\(...\) has"):
            columns(given, other)


def never_null(name, kind=None):
    return StructType([StructField("value", StructType([StructField(name, kind or LongType(), nullable=False)]))])


def test_avro_that_is_never_null_is_read_as_the_schema_of_the_user():
    """The format's own schema would let nulls through."""
    given = {"value.format": "avro", "value.schema": AVRO}
    side = columns(given, never_null("id"))[1].sides[0]
    assert (side.schema.field("id").nullable, dict(side.options)["writer_schema"]) == (False, AVRO)
    of_longs = {"type": "record", "name": "R", "fields": [{"name": "of", "type": {"type": "array", "items": "long"}}]}
    given["value.schema"] = json.dumps(of_longs)
    for contains_null in (True, False):
        user = StructType([StructField("value", StructType([StructField("of", ArrayType(LongType(), contains_null))]))])
        options = dict(columns(given, user)[1].sides[0].options)
        assert ("writer_schema" in options, "select" in options) == (not contains_null, contains_null)


def test_protobuf_that_is_never_null_is_refused(tmp_path):
    given = {"value.format": "protobuf", "value.schema.file": str(described(tmp_path)), "value.message": "Whole"}
    with pytest.raises(ValueError, match=r"option value.schema allows null for int64, .* NOT NULL"):
        columns(given, never_null("int64"))
    lines = ArrayType(StructType([StructField("sku", StringType(), nullable=False)]))
    user = StructType([StructField("value", StructType([StructField("lines", lines)]))])
    with pytest.raises(ValueError, match="allows null for lines"):
        columns(given, user)
    user = StructType([StructField("value", StructType([StructField("many_int64", ArrayType(LongType(), False))]))])
    columns(given, user)


def test_csv_that_is_never_null_by_either_schema():
    three = StructType([StructField(name, LongType(), nullable=name != "a") for name in "abc"])
    user = StructType(
        [StructField("value", StructType([StructField("b", LongType(), nullable=False), StructField("a", LongType())]))]
    )
    side = columns({"value.format": "csv", "value.schema": three.json()}, user)[1].sides[0]
    assert [(field.name, field.nullable) for field in side.schema] == [("a", False), ("b", False), ("c", True)]


def test_a_registry_by_its_options():
    given = {
        "value.format": "avro",
        "schema.registry.url": "http://a:1, http://b:2",
        "schema.registry.basic.auth.user.info": "alice:s3:cret",
        "value.schema.registry.url": "http://c:3",
        "value.schema.registry.subject": "s",
        "value.schema.registry.version": "7",
    }
    value = parse(**given).typed.value
    assert (value.registry.url, value.registry.subject, value.registry.version) == ("http://c:3", "s", 7)
    assert value.registry.user_info == "alice:s3:cret"
    assert value.has_ids
    assert "s3" not in repr(parse(**given))
    assert not parse(**given, **{"value.framed": "false"}).typed.value.has_ids
    with pytest.raises(
        ValueError, match=r"options schema.registry.\*: the URL of a schema registry must begin with http"
    ):
        parse(**{**given, "value.schema.registry.url": "c:3"}).typed.value.registry.client()


def test_no_one_topic_names_the_subject():
    options = ReadOptions.parse(
        {**GOOD, "subscribe": "a,b", "value.format": "avro", "schema.registry.url": "http://127.0.0.1:9"}
    )
    with pytest.raises(
        ValueError, match="option subscribe does not name one topic.*option value.schema.registry.subject"
    ):
        look_up(options)


def test_every_option_is_known_to_a_read():
    assert len(set(map(str.lower, KNOWN))) == len(KNOWN)
    assert "value.schema.registry.basic.auth.user.info" in KNOWN
