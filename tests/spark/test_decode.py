"""`Batch.decode` beside Spark's own from_json, on the same values."""

import pyarrow as pa
from pyspark.sql import functions as f

import ottla

DDL = (
    "s string, i int, l long, d double, b boolean, t timestamp, y date, n decimal(10,2), a array<int>, o struct<x:string,z:long>, "
    "m map<string,double>, r binary, h tinyint"
)
SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
        ("y", pa.date32()),
        ("n", pa.decimal128(10, 2)),
        ("a", pa.list_(pa.int32())),
        ("o", pa.struct([("x", pa.string()), ("z", pa.int64())])),
        ("m", pa.map_(pa.string(), pa.float64())),
        ("r", pa.binary()),
        ("h", pa.int8()),
    ]
)
JSON = [
    '{"s":"x","i":1,"l":5000000000,"d":0.1,"b":true,"t":"2026-11-23T09:52:20.5Z","y":"2026-11-23","n":1.005,"a":[1,null]}',
    '{"o":{"x":"a","z":null,"extra":[{}]},"m":{"k":1,"j":2.5},"r":"AAEC","h":-128}',
    "{}",
    '{"s":null,"i":null}',
    # A token keeps its text in ours; Spark writes it anew, without white space and as the shortest number.
    '{"s":{"a":[1,2]},"d":"NaN"}',
    '{"s":12.25,"d":"-Infinity","i":-0}',
    '{"s":true,"d":1e3,"n":"12.345"}',
    '{"t":"2026-11-23 09:52:20+01:00"}',
    '{"t":"2026-11-23"}',
    '{"t":"2026-1-3T4:5:6.123456Z"}',
    '{"t":1795435200}',
    '{"y":"2026-11-23T10:00:00"}',
    '{"s":"\\u00e9\\ud83d\\ude00\\n"}',
    '{"i":1,"i":2}',
    ' { "i" : 3 } ',
    '{"n":-12.345}',
    '{"i":"5"}',
    '{"i":1.0}',
    '{"i":2147483648}',
    # Up to 255 Spark takes as a byte that wraps around, and ours as out of range.
    '{"h":256}',
    '{"b":"true"}',
    '{"b":1}',
    '{"d":"x"}',
    '{"t":"yesterday"}',
    '{"y":"2026-02-30"}',
    '{"i":1',
    '{"i":}',
    "{i:1}",
    '{"i":01}',
    '{"a":5}',
    '{"o":[]}',
    '{"m":[1]}',
    "[",
    "5",
    "not json",
    "{'s':'it\\'s','i':1}",
    '{"s":"a\\\'b"}',
    "{'s':'\"'}",
    '{"s":\'a"}',
    *(f'{{"s":"{text}"}}' for text in [r"\ud83d", r"\ude00", r"\ud83dA", r"\ud83d\ud83d\ude00", r"\x"]),
    *(b'{"s":"' + text + b'"}' for text in [b"a\xffb", b"\xe0\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf5\x80\x80"]),
    *(f'{{"n":{text}}}' for text in ['"1,234.50"', '",1"', '","', '"+5."', '" 5"', "-0", "-INF", '"NaN"', "1e-400"]),
    *(
        f'{{"d":{text}}}'
        for text in ["-INF", "+INF", "INF", '"INF"', '"-INF"', "+Infinity", "-0", "-0.0", "1e400", '""']
    ),
    *(
        f'{{"y":"{text}"}}'
        for text in [
            "2026",
            "2026-11",
            "2026-11-23 tea",
            "2026-11-23Ttea",
            "2026-11-23x",
            "2026-11 tea",
            r"\t2026-1-3\n",
        ]
    ),
    *(
        f'{{"t":"2026-11-23T{text}"}}'
        for text in ["10", "10:", "1:2:3.", "1:2:3.12345678901", "1:2:3UT-1", "1:2:3+1:3", "1:2:3+013015", "1:2:3+130"]
    ),
    *(f'{{"t":"2026-11-23T10:20:30{zone}"}}' for zone in ["+18:00", "+18:01", "+1:3:5", "z", " Z", "+-1", "+19"]),
    *(f'{{"r":"{text}"}}' for text in ["AB==", "AA==AA==", r"AAEC\n", "AA E=", "AAE", "-_-_"]),
]


def bytes_of(text):
    return text if isinstance(text, bytes) else text.encode()


def plain(row):
    return {name: dict(value) if name == "m" and value is not None else value for name, value in row.items()}


def test_json_is_what_from_json_makes_of_it(spark, topic):
    made = topic(1)
    made.produce([bytes_of(text) for text in JSON])
    with ottla.Consumer(made.bootstrap) as consumer:
        consumer.assign([ottla.TopicPartition(made.name, 0, 0)])
        batch = consumer.poll(20, max_records=len(JSON))
    assert len(batch) == len(JSON)
    ours = batch.decode(SCHEMA, mode="permissive").to_arrow().to_pylist()
    values = spark.createDataFrame(
        [(n, bytearray(bytes_of(text))) for n, text in enumerate(JSON)], "n int, value binary"
    )
    parsed = f.from_json(
        f.col("value").cast("string"), f"{DDL}, _corrupt string", {"columnNameOfCorruptRecord": "_corrupt"}
    )
    theirs = values.select("n", parsed.alias("v")).orderBy("n").select("v.*").toArrow().to_pylist()
    different = []
    for text, our, their in zip(JSON, ours, theirs, strict=True):
        is_bad, is_bad_there = our.pop("_corrupt") is not None, their.pop("_corrupt") is not None
        # Of a bad record Spark keeps the fields that are good, and we none.
        if is_bad != is_bad_there or (not is_bad and repr(plain(our)) != repr(plain(their))):
            different.append((text, our, their))
    assert different == []
