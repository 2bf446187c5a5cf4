"""Typed columns beside what Spark's own functions make of the same records: from_json and from_csv, in each mode."""

import json
import random
from datetime import date, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

import ottla

pytestmark = pytest.mark.timeout(240)

SEED = 20_261_123
NESTED = (
    "s string, i int, l long, h smallint, d double, b boolean, t timestamp, y date, n decimal(12,3), a array<int>, "
    "o struct<x:string,z:long,in:array<struct<k:string,v:double>>>, m map<string,decimal(6,2)>, r binary"
)
FLAT = "s string, i int, l long, d double, b boolean, t timestamp, y date, n decimal(12,3)"


def text(rng):
    return "".join(rng.choice('ab é"\\\n\t😀,;:{}[]') for _ in range(rng.randrange(12)))


def moment(rng):
    day = date(1970, 1, 1) + timedelta(days=rng.randrange(-20_000, 40_000))
    clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
    fraction = rng.choice(["", ".5", ".123", ".123456"])
    return f"{day}{rng.choice('T ')}{clock}{fraction}{rng.choice(['', 'Z', '+01:00', '-0530'])}"


def scalar(rng, name):
    return {
        "s": lambda: text(rng),
        "i": lambda: rng.randrange(-(2**31), 2**31),
        "l": lambda: rng.randrange(-(2**63), 2**63),
        "h": lambda: rng.randrange(-(2**15), 2**15),
        "d": lambda: rng.choice([rng.random(), rng.uniform(-1e300, 1e300), 0.0, rng.randrange(1000)]),
        "b": lambda: rng.random() < 0.5,
        "t": lambda: moment(rng),
        "y": lambda: str(date(1970, 1, 1) + timedelta(days=rng.randrange(-20_000, 40_000))),
        "n": lambda: f"{rng.randrange(-(10**8), 10**8)}.{rng.randrange(10_000):04}",
    }[name]()


def nested(rng, name):
    return {
        "a": lambda: [rng.choice([None, rng.randrange(-5, 5)]) for _ in range(rng.randrange(4))],
        "o": lambda: {
            "x": rng.choice([None, text(rng)]),
            "more": [{}],
            "in": [{"k": text(rng), "v": rng.random()} for _ in range(rng.randrange(3))],
        },
        "m": lambda: {text(rng): rng.randrange(-999, 999) / 100 for _ in range(rng.randrange(3))},
        "r": lambda: rng.choice(["", "AAEC", "/+8="]),
    }[name]()


# What takes the place of a good value now and then, and is bad of every type that it is put into.
BAD = {
    "i": "x",
    "l": 0.5,
    "h": 70_000,
    "d": {},
    "b": 7,
    "t": "soon",
    "y": "2026-02-30",
    "n": "1e",
    "a": {},
    "o": [],
    "m": 5,
}


def json_records(rng, count):
    found = []
    for _ in range(count):
        record = {}
        for name in "silhdbtynaomr":
            if rng.random() < 0.15:
                continue
            if rng.random() < 0.1:
                record[name] = None
            elif name in BAD and rng.random() < 0.01:
                record[name] = BAD[name]
            else:
                record[name] = nested(rng, name) if name in "aomr" else scalar(rng, name)
        words = json.dumps(record, ensure_ascii=rng.random() < 0.5)
        found.append(words[: rng.randrange(len(words))] if rng.random() < 0.01 else words)
    return found


def csv_records(rng, count):
    found = []
    for _ in range(count):
        fields = []
        for name in "sildbtyn":
            value = "" if rng.random() < 0.1 else str(scalar(rng, name))
            if name == "s":
                # What the two quote differently: Spark takes a backslash for an escape, RFC 4180 does not.
                value = value.replace("\\", "").replace('"', "").replace("\n", "").replace("\t", "").strip()
                value = f'"{value}"' if value else ""
            elif name != "s" and rng.random() < 0.005:
                value = "?"
            fields.append(value)
        found.append(",".join(fields))
    return found


def written(topic, values):
    made = topic(1)
    with ottla.Producer(made.bootstrap) as producer:
        producer.send_many(made.name, [value.encode() for value in values]).result(30)
    return made


def plain(value):
    """Comparable, by text: NaN is not itself."""
    if hasattr(value, "asDict"):
        return {name: plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return repr(value)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_rows_are_those_of_spark_s_own_function(topic, kind):
    rng = random.Random(SEED)
    values = json_records(rng, 2000) if kind == "json" else csv_records(rng, 2000)
    ddl, parse = (NESTED, f.from_json) if kind == "json" else (FLAT, f.from_csv)
    made = written(topic, values)
    ours = made.read(**{"value.format": kind, "value.schema": ddl, "mode": "PERMISSIVE"}).orderBy("offset")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    parsed = parse(f.col("value").cast("string"), f"{ddl}, _corrupt string", options)
    theirs = made.read().select("offset", parsed.alias("value")).orderBy("offset")
    bad, different = 0, []
    for line, our, their in zip(values, ours.collect(), theirs.collect(), strict=True):
        is_bad, is_bad_there = our._corrupt is not None, their.value._corrupt is not None
        bad += is_bad
        if is_bad:
            assert our.value is None
            assert bytes(our._corrupt) == line.encode()
        wanted = {name: value for name, value in plain(their.value).items() if name != "_corrupt"}
        # Of a bad record Spark keeps the fields that are good, and we none.
        if is_bad != is_bad_there or (not is_bad and plain(our.value) != wanted):
            different.append((line, our, their))
    assert different == [], len(different)
    assert 20 < bad < 1000, "both kinds are there"

    good = [n for n, row in enumerate(ours.collect()) if row._corrupt is None]
    dropped = made.read(**{"value.format": kind, "value.schema": ddl, "mode": "DROPMALFORMED"})
    assert [row.offset for row in dropped.select("offset").orderBy("offset").collect()] == good
    first = min(set(range(len(values))) - set(good))
    with pytest.raises(PySparkException, match=f"the record at offset {first} of partition 0"):
        made.read(**{"value.format": kind, "value.schema": ddl}).collect()
