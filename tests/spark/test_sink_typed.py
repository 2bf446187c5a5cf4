"""Typed columns to keys and values by format("ottla"), on an embedded broker: what Spark, fastavro and others make of them."""

import base64
import io
import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import fastavro
import pytest
from google.protobuf import descriptor_pb2
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql import functions as f
from tests.python.decoding import FakeRegistry
from tests.python.test_decode_protobuf import FILE, TIME, Whole
from tests.waiting import wait_for_end

from ottla.spark.write.options import WriteOptions
from ottla.spark.write.writers import RowStreamWriter, batches

from .starts import begun
from .test_sink import SPARKS_SOCKETS, write, written
from .test_typed import sentence

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings(SPARKS_SOCKETS)]

# Spark's own texts of what its columns hold at the edges.
EDGES = """
    named_struct(
        'i8', 127Y, 'i64', -9223372036854775808L, 'f', float(1.4e-45), 'd', 1.5e-3D, 'big', 1e7D, 'nan', double('NaN'),
        'infinite', float('-Infinity'), 'zero', -0.0D, 'dec', cast(0 as decimal(38,18)),
        'small', cast(-0.0000001 as decimal(20,10)), 'whole', cast(123 as decimal(5,0)), 'day', date'0001-01-01',
        'far', date_add(date'9999-12-31', 1), 'early', date_sub(date'0001-01-01', 400), 'at', timestamp_micros(-1),
        'long_ago', timestamp_micros(-62135596800000001), 'local', timestamp_ntz'2026-11-23 09:52:20.1239',
        'text', concat('q"b\\\\s/', char(0), char(9), char(10), char(31), char(127), 'é€😀'), 'bytes', X'00ff10',
        'no', cast(null as int), 'list', array(1, null), 'map', map('a"', 1, 'b', null), 'by_number', map(1, true),
        'of', named_struct('x', cast(null as int), 'q"x', array(named_struct('y', 1)))
    ) AS value
"""
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": [{"type": "int", "logicalType": "date"}, "null"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
        {"name": "later", "type": ["null", "boolean"], "default": None},
    ],
}
COLUMNS = (
    "id bigint, note string, price decimal(10,2), at timestamp, day date, tags array<string>, sizes map<string,int>"
)
AT = datetime(2026, 11, 23, 9, 52, 20, 123000, tzinfo=UTC)


@pytest.fixture
def registry():
    made = FakeRegistry()
    yield made
    made.close()


def orders(spark, *changes):
    """A DataFrame of the columns of ORDER."""
    row = {"id": 1, "note": "n", "price": Decimal("1.25"), "at": AT, "day": date(2026, 11, 23), "tags": ["x", None]}
    row |= {"sizes": {"s": 1}}
    return spark.createDataFrame([tuple({**row, **change}.values()) for change in changes], COLUMNS).coalesce(1)


def avro(value, schema=ORDER):
    return fastavro.schemaless_reader(io.BytesIO(value), schema, None)


def test_json_has_the_text_of_to_json(topic, spark):
    t = topic(1)
    frame = spark.sql(f"SELECT {EDGES}").coalesce(1)
    write(frame, t, **{"value.format": "json"})
    wanted = frame.select(f.to_json("value")).collect()[0][0]
    [record] = written(t)
    assert record.value.decode() == wanted


def test_random_rows_have_the_text_of_to_json(topic, spark):
    chance = random.Random(16)

    def maybe(value):
        return None if chance.random() < 0.2 else value

    rows = [
        (
            str(n),
            chance.choice(
                [
                    None,
                    Row(
                        a=maybe(chance.randint(-(2**63), 2**63 - 1)),
                        # Java before 19 writes some of 21 digits and more with others than tell them apart.
                        b=maybe(chance.randint(-999_999, 999_999) * 10.0 ** chance.randint(-15, 12)),
                        c=maybe(Decimal(chance.randint(-(10**20), 10**20)).scaleb(-chance.randint(0, 12))),
                        d=maybe(datetime(1, 1, 2, tzinfo=UTC) + timedelta(chance.random() * 3_650_000)),
                        e=maybe("".join(chr(chance.randint(0, 0x2FFF)) for _ in range(chance.randint(0, 20)))),
                        f=maybe([maybe(chance.randbytes(n % 5)) for _ in range(chance.randint(0, 3))]),
                        g=maybe(
                            {chr(at): maybe(date(1, 1, 1) + timedelta(chance.randint(0, 3_000_000))) for at in b"ab"}
                        ),
                    ),
                ]
            ),
        )
        for n in range(200)
    ]
    kinds = "a bigint, b double, c decimal(38,12), d timestamp, e string, f array<binary>, g map<string,date>"
    frame = spark.createDataFrame(rows, f"key string, value struct<{kinds}>").coalesce(1)
    wanted = {row.key: row.value for row in frame.select("key", f.to_json("value").alias("value")).collect()}
    t = topic(1)
    write(frame, t, **{"value.format": "json"})
    found = {record.key.decode(): record.value and record.value.decode() for record in written(t)}
    assert found == wanted
    assert None in wanted.values(), "no row without a value was tried"


def test_columns_are_fields_but_those_of_a_record(topic, spark):
    t = topic(1)
    frame = spark.sql(
        f"SELECT struct(7 AS id) AS key, '{t.name}' AS topic, 0 AS partition, 'x' AS item, "
        "array(struct('h' AS key, X'01' AS value)) AS headers, cast(null AS string) AS note"
    )
    write(frame, t, topic=None, **{"value.format": "json", "key.format": "json"})
    [record] = written(t)
    assert (record.key, record.value, record.headers) == (b'{"id":7}', b'{"item":"x"}', [("h", b"\x01")])
    with pytest.raises(PySparkException, match="column timestamp is that of a record"):
        write(frame.selectExpr("*", "now() AS timestamp"), t, topic=None, **{"value.format": "json"})


def test_fastavro_reads_what_was_written(topic, spark):
    t = topic(1)
    frame = orders(spark, {}, {"note": None, "day": None, "tags": [], "sizes": {}, "price": Decimal("-99999999.99")})
    write(frame, t, **{"value.format": "avro", "value.schema": json.dumps(ORDER)})
    first, second = (avro(record.value) for record in written(t))
    assert first == {
        "id": 1,
        "note": "n",
        "price": Decimal("1.250"),
        "at": AT,
        "day": date(2026, 11, 23),
        "tags": ["x", None],
        "sizes": {"s": 1},
        "later": None,
    }
    assert (second["note"], second["day"], second["tags"], second["price"]) == (
        None,
        None,
        [],
        Decimal("-99999999.990"),
    )


def test_googles_library_reads_what_was_written(topic, spark, registry):
    t = topic(1)
    # uint64 is a decimal in Spark, and an enum a name.
    frame = spark.sql(
        "SELECT 1 AS int32, cast('18446744073709551615' AS decimal(20,0)) AS uint64, array(1, 2) AS many_sint64, "
        "'SOME' AS kind, timestamp'2026-11-23 09:52:20.5' AS at, map('a', 1L) AS counts, named_struct('sku', 'x') AS b"
    )
    files = descriptor_pb2.FileDescriptorSet(file=[TIME, FILE])
    given = {"value.format": "protobuf", "value.message": "Whole"}
    given |= {"value.schema": base64.b64encode(files.SerializeToString()).decode()}
    write(frame, t, **given)
    write(frame, t, **given, **{"schema.registry.url": registry.url})
    bare, framed = (record.value for record in written(t))
    wanted = Whole(int32=1, uint64=2**64 - 1, many_sint64=[1, 2], kind="SOME", counts={"a": 1}, b={"sku": "x"})
    wanted.at.FromJsonString("2026-11-23T09:52:20.5Z")
    assert Whole.FromString(bare) == wanted
    assert framed == b"\0\0\0\0\x01\x02\x02" + bare
    with pytest.raises(PySparkException, match="column uint64: -1 does not fit 64 bits without a sign"):
        write(frame.withColumn("uint64", f.lit(-1)), t, **given)


def test_what_does_not_fit_is_named(topic, spark):
    t = topic(1)
    given = {"value.format": "avro", "value.schema": json.dumps(ORDER)}
    with pytest.raises(PySparkException) as raised:
        write(orders(spark, {}, {"sizes": {"s": None}}).withColumn("key", f.lit("k1")), t, **given)
    assert sentence(raised.value) == (
        "ottla.errors.EncodeError: the value of the row with the key 'k1' does not fit its schema: column sizes[0]: it is "
        "null, and its Avro type is not"
    )
    for frame, why in [
        (orders(spark, {}).withColumn("more", f.lit(1)), 'the Avro schema has no field for column "more"'),
        (orders(spark, {}).withColumn("id", f.lit("x")), "id: string does not become Avro's long"),
        (
            spark.sql("SELECT 1.5D AS value"),
            "column value has type double, and option value.format=avro writes a struct",
        ),
        (orders(spark, {}).drop("id"), 'there is no column "id"'),
    ]:
        with pytest.raises(PySparkException, match="option value.format|column value") as raised:
            write(frame, t, **given)
        assert why in str(raised.value)
    with pytest.raises(PySparkException, match="column key is missing, and option key.format=json"):
        write(orders(spark, {}), t, **given, **{"key.format": "json"})
    assert written(t) == []


def test_a_registry_has_the_schema_of_the_topic(topic, spark, registry):
    t = topic(1)
    given = {"value.format": "avro", "schema.registry.url": registry.url}
    text = {"value.schema": json.dumps(ORDER)}
    with pytest.raises(PySparkException, match="does not have this schema, and automatic registration is off"):
        write(orders(spark, {}), t, **given, **text, **{"schema.registry.auto.register.schemas": "false"})
    write(orders(spark, {}), t, **given, **text)
    # It is there now, also as the latest of the subject.
    write(orders(spark, {"id": 2}), t, **given, **text, **{"value.schema.registry.auto.register.schemas": "false"})
    write(orders(spark, {"id": 3}), t, **given)
    write(orders(spark, {"id": 4}), t, **given, **{"value.schema.registry.version": "1"})
    values = [record.value for record in written(t)]
    assert {value[:5] for value in values} == {b"\0\0\0\0\x01"}
    assert [avro(value[5:])["id"] for value in values] == [1, 2, 3, 4]
    assert {path for path in registry.requests if "subjects" in path} == {
        f"/subjects/{t.name}-value",
        f"/subjects/{t.name}-value/versions",
        f"/subjects/{t.name}-value/versions/latest",
        f"/subjects/{t.name}-value/versions/1",
    }
    # The source reads it back.
    frame = t.read(**{"value.format": "avro", "schema.registry.url": registry.url})
    assert sorted(row.id for row in frame.select("value.id").collect()) == [1, 2, 3, 4]
    with pytest.raises(PySparkException, match="set option value.schema.registry.subject"):
        write(orders(spark, {}).withColumn("topic", f.lit(t.name)), t, topic=None, **given)


def test_columns_that_do_not_fit_register_no_schema(topic, spark, registry):
    t = topic(1)
    given = {"value.format": "avro", "schema.registry.url": registry.url, "value.schema": json.dumps(ORDER)}
    with pytest.raises(PySparkException, match='no field for column "more"') as raised:
        write(orders(spark, {}).withColumn("more", f.lit(1)), t, **given)
    assert sentence(raised.value).startswith("ValueError: option value.format=avro: ")
    assert registry.requests == []
    write(orders(spark, {}), t, **given)
    assert registry.requests == [f"/subjects/{t.name}-value/versions"]


def test_a_union_has_the_type_of_the_column(topic, spark):
    """The first branch that takes the column would refuse some of its values."""
    t = topic(1)
    fields = [
        {"name": "long", "type": ["null", "int", "long"]},
        {"name": "text", "type": ["null", {"type": "enum", "name": "E", "symbols": ["a"]}, "string"]},
        {"name": "real", "type": ["null", "double", "float"]},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    frame = spark.sql("SELECT 3000000000L AS long, 'b' AS text, float(0.5) AS real")
    write(frame, t, **{"value.format": "avro", "value.schema": json.dumps(schema)})
    [record] = written(t)
    assert avro(record.value, schema) == {"long": 3_000_000_000, "text": "b", "real": 0.5}
    assert record.value.startswith(b"\x04"), "the third branch"


@pytest.mark.parametrize("once", [{}, {"exactlyOnce": "true", "appId": "typed", "shards": "1"}])
def test_streams_take_the_same_way(topic, spark, tmp_path, once):
    source, target = topic(1), topic(1)
    source.produce(range(10))
    frame = spark.readStream.format("ottla").options(**source.options(startingOffsets="earliest")).load()
    typed = frame.select("key", f.struct(f.col("value").cast("string").cast("int").alias("n")).alias("value"))
    once = {name: value.replace("typed", target.name) for name, value in once.items()}
    given = {"kafka.bootstrap.servers": target.bootstrap, "topic": target.name, "value.format": "json", **once}
    writer = (
        typed.writeStream.format("ottla")
        .options(**given)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    query = begun(writer.start)
    try:
        wait_for_end(query, 120)
    finally:
        query.stop()
    with_values = [record.value for record in written_rows(target, 10)]
    assert with_values == [b'{"n":%d}' % n for n in range(10)]


def written_rows(topic, count):
    """The first rows of a topic, whose log may have markers of transactions as well."""
    import ottla

    with ottla.Consumer(topic.bootstrap, topics=[topic.name], auto_offset_reset="earliest") as consumer:
        records = []
        while len(records) < count:
            found = list(consumer.poll(timeout=20))
            assert found, f"{len(records)} of {count} rows came"
            records += found
    return records


def test_rows_of_spark_4_0_become_the_same_columns(spark):
    """Spark 4.0 hands over a stream's rows one by one, with times of the machine's zone."""
    frame = orders(spark, {}, {"note": None, "tags": None}).withColumn("key", f.lit("k"))
    options = WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t", "value.format": "json"})
    flat = options.columns(frame.schema)
    nested = frame.select("key", f.struct(*frame.drop("key").columns).alias("value"))
    whole = options.columns(nested.schema)
    wanted = [row[0] for row in nested.select(f.to_json("value")).collect()]
    for columns, rows in [(flat, frame.collect()), (whole, nested.collect())]:
        writer = RowStreamWriter(options, columns)
        [batch] = batches(columns, iter(rows))
        [found] = [place.at(at) for at, (_, place) in enumerate(columns) if not isinstance(place, int)]
        assert found.of_batch(batch, found.schema.encoder()).to_pylist() == [text.encode() for text in wanted]
        assert writer._columns == columns


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"value.format": "csv"}, "option value.format must be json or avro or protobuf or string or raw, not 'csv'"),
        ({"value.format": "avro"}, "option value.format=avro needs option value.schema"),
        (
            {"value.format": "json", "value.schema": "{}"},
            "option value.schema has no meaning for json without a registry",
        ),
        ({"value.schema": "{}"}, "option value.schema is for"),
        (
            {"schema.registry.url": "http://r"},
            "option schema.registry.url has no meaning while keys and values are bytes",
        ),
        ({"value.framed": "true"}, "option value.framed is not known"),
        ({"value.schema.registry.auto.register.schemas": "true"}, "set option value.format"),
        (
            {
                "value.format": "avro",
                "value.schema": '"int"',
                "schema.registry.url": "http://r",
                "value.schema.registry.version": "1",
            },
            "exclude each other",
        ),
    ],
)
def test_options_that_have_no_meaning(given, why):
    with pytest.raises(ValueError, match="option") as raised:
        WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t", **given})
    assert why in str(raised.value)
