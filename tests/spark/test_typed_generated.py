"""Random schemas and values of JSON and CSV: `Batch.decode` beside Spark's own from_json and from_csv.

`OTTLA_CASES=20000 pytest tests/spark/test_typed_generated.py` takes that many values of each format.
"""

import json
import random

import pyarrow as pa
import pytest
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from tests.property import typed

from ottla.spark.shared.arrow_types import to_arrow

# Values of one schema, which is one query of Spark's.
TOGETHER = 500

SCALARS = [
    "string",
    "boolean",
    "int",
    "bigint",
    "smallint",
    "float",
    "double",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal(12,3)",
    "decimal(38,10)",
    "binary",
]
NUMBERS = ["0", "-0", "1", "-1", "127", "-128", "32768", "2147483648", "-9223372036854775808", "9223372036854775808"]
NUMBERS += [
    "1.5",
    "-0.0",
    "1e3",
    "1E-3",
    "1e400",
    "1e39",
    "-1.25e-7",
    "0.1",
    "123456789.0005",
    "12345678901234567890123",
]
NUMBERS += ["NaN", "Infinity", "-Infinity", "+INF", "-INF"]
DATES = ["2026-11-23", "1500-1-3", "2026", "2026-11", "2026-02-30", "-0044-03-15", "10000-01-01", "2026-11-23 tea"]
TIMES = ["T10:20:30", " 1:2:3.5", "T10:20", "T10", "T10:20:30.1234567", "T24:00:00", "T10:20:30.", " 23:59:59.999999"]
ZONES = ["Z", "+01:00", "-0530", " UTC", "+18:00", "+1", "UT+1:30", "+18:01", "z"]
TEXTS = [
    "",
    "a",
    "é😀",
    "a,b",
    " a ",
    "true",
    "1",
    '"',
    "'",
    "\\",
    "\n",
    "\u007f",
    "1,234.50",
    "+5",
    ".5",
    "5.",
    "-INF",
    "AAEC",
    "AB==",
]


def nested(rng, depth):
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind < 5:
        return rng.choice(SCALARS)
    if kind == 5:
        return f"array<{nested(rng, depth + 1)}>"
    if kind == 6:
        return f"map<string,{nested(rng, depth + 1)}>"
    fields = ",".join(f"f{number}:{nested(rng, depth + 1)}" for number in range(rng.randrange(1, 4)))
    return f"struct<{fields}>"


def moment(rng):
    text = rng.choice(DATES) if rng.random() < 0.3 else "2026-11-23"
    if rng.random() < 0.5:
        text = text[:10] + rng.choice(TIMES)
        # A zone behind minutes is read by ours alone, which docs/guides/decoding.md says.
        if text.count(":") == 2 and rng.random() < 0.5:
            text += rng.choice(ZONES)
    return text


def quoted(rng, text):
    """A text as a token of JSON, with escapes or single quotes now and then."""
    token = json.dumps(text, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        token = "'" + token[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    if rng.random() < 0.05:
        token = token[:1] + rng.choice([r"\ud83d", r"\/", r"\'", r"\b"]) + token[1:]
    return token


def odd_token(rng, kind):
    """A token of any type, but for what docs/guides/decoding.md lists as different."""
    others = ["true", "{}", "[]", '""', "nul", "1.", "01", "'", "[1,]", '{"a":1}']
    if kind != "binary":
        others.append('"\t"')
    if kind == "string":
        return rng.choice(others)
    numbers = [number for number in NUMBERS if kind != "timestamp" or len(number) < 19]
    return rng.choice([*others, *numbers])


def token(rng, kind):
    """A token that fits a type, mostly."""
    if rng.random() < 0.02:
        return "null"
    if rng.random() < 0.02:
        return odd_token(rng, kind)
    if kind == "string":
        return quoted(rng, "".join(rng.choice(TEXTS) for _ in range(rng.randrange(4))))
    if kind == "boolean":
        return rng.choice(["true", "false"])
    if kind in {"date", "timestamp", "timestamp_ntz"}:
        return rng.choice([quoted(rng, moment(rng)), "1795435200"])
    if kind == "binary":
        return quoted(rng, rng.choice(["AAEC", "AB==", "AA==AAEC", "AAEC\n", "AA E=", "A", ""]))
    if kind.startswith("decimal") and rng.random() < 0.3:
        return quoted(rng, rng.choice([*NUMBERS[:20], *TEXTS]))
    if kind.endswith(">"):
        return nested_token(rng, kind)
    return rng.choice(NUMBERS if rng.random() < 0.3 else [str(rng.randrange(-100, 100))])


def nested_token(rng, kind):
    if kind.startswith("array<"):
        return "[" + ",".join(token(rng, kind[6:-1]) for _ in range(rng.randrange(4))) + "]"
    if kind.startswith("map<"):
        inner = kind[11:-1]
        names = rng.sample(["a", "b", "c d", "é"], rng.randrange(4))
        return "{" + ",".join(f"{quoted(rng, name)}:{token(rng, inner)}" for name in names) + "}"
    return object_of(rng, fields_of(kind[7:-1]))


def fields_of(text):
    """The names and types of a struct's text."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text + ","):
        depth += letter in "<("
        depth -= letter in ">)"
        if letter == "," and not depth:
            name, _, kind = text[start:at].partition(":")
            found.append((name, kind))
            start = at + 1
    return found


def object_of(rng, fields):
    parts = []
    for name, kind in fields:
        if rng.random() < 0.9:
            parts.append(f"{quoted(rng, name)}:{token(rng, kind)}")
        if rng.random() < 0.03:
            parts.append(f"{quoted(rng, rng.choice(['x', name]))}:{token(rng, kind)}")
    if rng.random() < 0.2:
        rng.shuffle(parts)
    space = rng.choice(["", "", " ", "\n\t"])
    return "{" + space + f",{space}".join(parts) + "}"


def json_value(rng, fields):
    data = object_of(rng, fields).encode()
    if rng.random() < 0.02:
        data = data[: rng.randrange(1, len(data))]
    if rng.random() < 0.02:
        at = data.find(b'"')
        data = data[: at + 1] + rng.choice([b"\xff", b"\xed\xa0\x80", b"\xe2\x82"]) + data[at + 1 :]
    return data


def csv_field(rng, kind):
    if rng.random() < 0.05:
        return rng.choice(["", '""', "", '""', "?", " ", "-"])
    if kind == "string":
        # What the two quote differently, docs/guides/decoding.md has: a backslash and a quote in a field.
        text = "".join(rng.choice(TEXTS) for _ in range(rng.randrange(3)))
        text = text.replace("\\", "").replace('"', "").replace("\n", "")
        return f'"{text}"' if "," in text or rng.random() < 0.3 else text
    if kind == "boolean":
        return rng.choice(["t", " true"] if rng.random() < 0.05 else ["true", "FALSE", "True"])
    if kind in {"date", "timestamp", "timestamp_ntz"}:
        return moment(rng)
    if kind.startswith("decimal") and rng.random() < 0.2:
        return '"1,234.50"'
    if kind in {"float", "double"} and rng.random() < 0.2:
        odd = ["inf", "INF", "nan", ".", "1_0", "1e"] if rng.random() < 0.1 else []
        return rng.choice(odd or ["Inf", "-Inf", "1d", "1F", " 1 ", "+1", ".5", "5."])
    return rng.choice([*NUMBERS[:20], "NaN", "Infinity"] if rng.random() < 0.1 else [str(rng.randrange(-100, 100))])


def csv_value(rng, fields):
    parts = [csv_field(rng, kind) for _, kind in fields]
    if rng.random() < 0.02:
        parts = parts[1:] if rng.random() < 0.5 else [*parts, "1"]
    line = ",".join(parts)
    # No field at all is a line of its own to Spark.
    return (line or '""').encode()


def generated(rng, kind):
    """A schema and its values."""
    if kind == "json":
        fields = [(f"c{number}", nested(rng, 0)) for number in range(rng.randrange(1, 7))]
        return fields, [json_value(rng, fields) for _ in range(TOGETHER)]
    flat = [scalar for scalar in SCALARS if scalar != "binary"]
    # A line of nothing is null to Spark, and one field to ours.
    fields = [(f"c{number}", rng.choice(flat)) for number in range(rng.randrange(2, 9))]
    return fields, [csv_value(rng, fields) for _ in range(TOGETHER)]


def counted(kind):
    """A type with counts in place of times, which Python cannot hold all."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(counted(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), counted(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(counted(kind.value_type))
    return kind


def rows(table):
    """Rows by text: NaN is not itself."""
    columns = [column.cast(counted(column.type)).to_pylist() for column in table.columns]
    return [repr(row) for row in zip(*columns, strict=True)]


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_random_schemas_are_read_as_by_sparks_own_function(spark, kind):
    rng = typed.rng(kind)
    schemas = [generated(rng, kind) for _ in range(max(1, typed.CASES // TOGETHER))]
    batch = typed.batch_of([value for _, values in schemas for value in values])
    cases, good = [], 0
    for number, (fields, values) in enumerate(schemas):
        ddl = ", ".join(f"{name} {of}" for name, of in fields)
        schema = to_arrow(StructType.fromDDL(ddl))
        part = batch[number * TOGETHER : (number + 1) * TOGETHER]
        ours = part.decode(schema, kind, mode="permissive").to_arrow()
        frame = spark.createDataFrame([(bytearray(value),) for value in values], "value binary").coalesce(1)
        parse = f.from_json if kind == "json" else f.from_csv
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
        parsed = parse(f.col("value").cast("string"), f"{ddl}, _corrupt string", options)
        is_bad = f.col("v._corrupt").isNotNull().alias("_corrupt")
        theirs = frame.select(parsed.alias("v")).select(*(f"v.{name}" for name, _ in fields), is_bad).toArrow()
        bad = ours["_corrupt"].is_valid().to_pylist()
        names = [name for name, _ in fields]
        for row in zip(
            values,
            rows(ours.select(names)),
            bad,
            rows(theirs.select(names)),
            theirs["_corrupt"].to_pylist(),
            strict=True,
        ):
            cases.append((ddl, *row))
        good += bad.count(False)

    def check(_, case):
        ddl, value, our, bad, their, bad_there = case
        # Of a bad record Spark keeps the fields that are good, and ours none.
        if bad == bad_there and (bad or our == their):
            return None
        return f"\n{ddl}\n{value!r}\nours {'bad' if bad else our}\ntheirs {'bad' if bad_there else their}"

    assert len(cases) / 10 < good < len(cases), "there are both"
    typed.differences(cases, check)


def test_chance_is_the_same_in_every_run():
    assert generated(random.Random(1), "json") == generated(random.Random(1), "json")
