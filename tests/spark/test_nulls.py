"""Keys and values that are null as a whole, by the root of their Avro schema: `value IS NULL`, as after Spark's from_avro."""

import io
import json
import uuid

import fastavro
import pytest
from tests.python.decoding import FakeRegistry

import ottla
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.schema import layout as layout_of
from ottla.spark.read.schema import look_up
from ottla.spark.read.schema import schema as schema_of

FIELDS = [{"name": name, "type": ["null", "long"], "default": None} for name in ("a", "b")]
PLAIN = {"type": "record", "name": "R", "fields": FIELDS}
FIRST, LAST = ["null", PLAIN], [PLAIN, "null"]
EMPTY, FULL = {"a": None, "b": None}, {"a": 1, "b": None}


@pytest.fixture
def registry():
    made = FakeRegistry()
    yield made
    made.close()


def written(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def framed(number, data):
    return b"\0" + number.to_bytes(4, "big") + data


@pytest.fixture
def batch_of(broker):
    """The records of some values or keys, each in a batch of its own, as a consumer has them."""

    def made(values, side="value", headers=()):
        name = f"nulls-{uuid.uuid4().hex[:8]}"
        with ottla.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic(name, partitions=1)])
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for row, one in enumerate(values):
                own = headers[row] if headers else ()
                producer.send(
                    name, one if side == "value" else b"", key=one if side == "key" else b"", headers=own
                ).result(30)
        return ottla.read(broker.bootstrap_servers, name)

    return made


def decoded(batch, side="value", schema=None, **given):
    """The column of a side, and how many are bad."""
    given = {f"{side}.format": "avro", **({f"{side}.schema": json.dumps(schema)} if schema else {}), **given}
    options = ReadOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "mode": "PERMISSIVE", **given})
    known = look_up(options)
    rows, _ = layout_of(options, schema_of(options, known), known).decode(batch)
    corrupt = "_corrupt" if side == "value" else "_corrupt_key"
    found = [value for part in rows for value in part.column(side).to_pylist()]
    return found, sum(part.column(corrupt).is_valid().true_count for part in rows)


@pytest.mark.parametrize("side", ["key", "value"])
@pytest.mark.parametrize("root", [FIRST, LAST], ids=["first", "last"])
def test_null_and_a_record_of_nulls_are_told_apart(batch_of, side, root):
    values = [written(root, one) for one in (None, EMPTY, FULL, None)]
    batch = batch_of([*values, b"\xff\xff", None], side)
    assert decoded(batch, side, root) == ([None, EMPTY, FULL, None, None, None], 1)


def test_a_root_that_is_no_union_has_no_null(batch_of):
    assert decoded(batch_of([written(PLAIN, EMPTY)]), schema=PLAIN) == ([EMPTY], 0)


def test_chosen_fields_keep_it(batch_of):
    batch = batch_of([written(FIRST, one) for one in (None, EMPTY, FULL)])
    found, _ = decoded(batch, schema=FIRST, columns="value.b,_corrupt")
    assert found == [None, {"b": None}, {"b": None}]


def test_each_record_has_the_null_of_its_own_schema(batch_of, registry):
    """One and the same byte is null by one schema, and the fields of a record by another."""
    one = {"type": "record", "name": "R", "fields": [PLAIN["fields"][0]]}
    numbers = {
        name: registry.add("of-all", json.dumps(schema))
        for name, schema in (("one", one), ("last", LAST), ("first", FIRST))
    }
    values = [
        framed(numbers["first"], written(FIRST, None)),
        framed(numbers["one"], written(one, {"a": None})),
        framed(numbers["last"], written(LAST, None)),
        framed(numbers["last"], written(LAST, EMPTY)),
        framed(numbers["first"], written(FIRST, FULL)),
        written(FIRST, None),
        written(one, {"a": None}),
        b"\x01" + uuid.UUID(int=numbers["first"]).bytes + written(FIRST, None),
    ]
    assert values[0][5:] == values[1][5:]

    def guid(name):
        return [("__value_schema_id", b"\x01" + uuid.UUID(int=numbers[name]).bytes)]

    batch = batch_of(values, headers=[()] * 5 + [guid("first"), guid("one"), ()])
    given = {"schema.registry.url": registry.url, "value.schema.registry.subject": "of-all"}
    wanted = [None, EMPTY, None, EMPTY, FULL, None, EMPTY, None]
    assert decoded(batch, **given) == (wanted, 0)


def test_spark_finds_it(topic):
    made = topic(1)
    with ottla.Producer(made.bootstrap) as producer:
        for one in (None, EMPTY, FULL):
            producer.send(made.name, written(FIRST, one)).result(30)
    rows = made.read(**{"value.format": "avro", "value.schema": json.dumps(FIRST)})
    assert [row.offset for row in rows.where("value IS NULL").select("offset").collect()] == [0]
