"""Tokens that the driver fetches: tasks get them, and nobody sees them."""

import os
import pickle
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

import ottla
from ottla._sasl._tokens import Token
from ottla.errors import AuthenticationError
from ottla.spark import read_kafka
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.shared import tokens
from ottla.spark.shared.ranges import Range
from ottla.spark.write.options import WriteOptions
from ottla.testing import Broker

from .conftest import run_stream
from .jobs.tokens import LIFETIME
from .starts import begun
from .test_read import sentence

pytestmark = pytest.mark.timeout(240)

FUNCTIONS = "tests.spark.jobs.tokens"


@pytest.fixture(autouse=True)
def forgotten():
    yield
    tokens._given.clear()
    tokens._fetched.clear()


@pytest.fixture(scope="module")
def kafka():
    listeners = ["PLAINTEXT", "SASL_PLAINTEXT mechanisms=OAUTHBEARER"]
    with Broker(topics={"t": 2, "copy": 2}, listeners=listeners) as broker:
        yield {name: broker.bootstrap_of(name) for name in ("PLAINTEXT", "SASL_PLAINTEXT")}


@pytest.fixture
def calls(spark):
    """The file with a line for each call of a function by Spark's Python."""
    file = Path(os.environ["OTTLA_TESTS"]) / "calls"
    file.write_text("")
    return file


def options(kafka, function=f"{FUNCTIONS}:token", **more):
    return {
        "kafka.bootstrap.servers": kafka["SASL_PLAINTEXT"],
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.allow.plaintext": "true",
        "kafka.sasl.token": function,
        **more,
    }


def fill(kafka, numbers):
    with ottla.Producer(kafka["PLAINTEXT"]) as producer:
        producer.send_many("t", [b"%d" % n for n in numbers]).result(30)


def numbers(frame):
    return sorted(int(bytes(row.value)) for row in frame.collect())


def test_batches_are_read_and_written_with_the_token_of_the_driver(spark, kafka, calls):
    fill(kafka, range(20))
    frame = spark.read.format("ottla").options(**options(kafka, subscribe="t")).load()
    assert numbers(frame) == list(range(20))
    assert numbers(read_kafka(spark, options(kafka, subscribe="t"))) == list(range(20))
    plan = frame._jdf.queryExecution().toString()
    assert "ottla" in plan
    assert FUNCTIONS not in plan
    writer = frame.selectExpr("value").write.format("ottla").mode("append")
    writer.options(**options(kafka, topic="copy")).save()
    once = {"exactlyOnce": "true", "appId": "tokens", "shards": "2", "version": "1"}
    frame.selectExpr("value").write.format("ottla").mode("append").options(
        **options(kafka, topic="copy", **once)
    ).save()
    plain = {"kafka.bootstrap.servers": kafka["PLAINTEXT"], "kafka.isolation.level": "read_committed"}
    assert numbers(spark.read.format("ottla").options(**plain, subscribe="copy").load()) == sorted([*range(20)] * 2)
    assert calls.read_text()


def test_a_stream_goes_on_when_its_first_token_has_expired(spark, kafka, calls, tmp_path):
    given = options(kafka, f"{FUNCTIONS}:short", subscribe="t", startingOffsets="earliest")
    frame = spark.readStream.format("ottla").options(**given).load().select("value")
    writer = frame.writeStream.format("ottla").options(**options(kafka, f"{FUNCTIONS}:short", topic="copy"))
    query = begun(writer.option("checkpointLocation", str(tmp_path)).start)
    try:
        end, sent = time.monotonic() + 1.3 * LIFETIME, 0
        while time.monotonic() < end or sent < 9:  # a batch may take all that time
            fill(kafka, range(1000 + sent, 1003 + sent))
            sent += 3
            query.processAllAvailable()
            time.sleep(0.2)
    finally:
        query.stop()
    assert query.exception() is None
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    assert len(batches) > 2
    assert len(calls.read_text().splitlines()) >= 3, "two of the source, and one of the sink"
    plain = {"kafka.bootstrap.servers": kafka["PLAINTEXT"]}
    copied = [n for n in numbers(spark.read.format("ottla").options(**plain, subscribe="copy").load()) if n >= 1000]
    assert copied == list(range(1000, 1000 + sent))


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (f"{FUNCTIONS}:broken", f"option kafka.sasl.token: {FUNCTIONS}:broken raised LookupError"),
        ("not_there.at_all:token", "option kafka.sasl.token names not_there.at_all:token, which Spark's Python"),
        ("eyJhbGciOi.hunter2.s3cret", "option kafka.sasl.token must name a function"),
    ],
)
def test_what_is_wrong_is_one_sentence(spark, kafka, calls, function, why, tmp_path):
    given = options(kafka, function, subscribe="t")
    with pytest.raises(PySparkException) as raised:
        spark.read.format("ottla").options(**given).load().collect()
    assert why in sentence(raised.value)
    assert "hunter2" not in str(raised.value)
    with pytest.raises(PySparkException) as raised:
        run_stream(spark, "ottla", tmp_path, given)
    assert why in sentence(raised.value)
    written = options(kafka, function, topic="copy")
    writer = spark.sql("select 'v' as value").write.format("ottla").options(**written).mode("append")
    with pytest.raises(PySparkException) as raised:
        writer.save()
    assert why in sentence(raised.value)


def test_a_token_is_in_no_repr_and_travels():
    token = Token("s3cret", time.time() + 60, {"trace": "7"})
    span = Range("t", 0, 1, 2, token=token)
    written = WriteOptions("h:1", "t", (), token=token)
    assert "s3cret" not in repr(span) + repr(written)
    assert pickle.loads(pickle.dumps(span)).token == token


def test_tasks_use_the_latest_token_and_refuse_one_that_is_over():
    properties = (("sasl.token", "nobody.has:it"),)
    current = tokens.resolved(dict(properties))["sasl.token"]
    late, early = (Token(name, time.time() + life) for name, life in (("late", 60), ("early", 30)))
    for token in (early, late, early, None):
        tokens.take(properties, token)
    assert current() == ("late", late.expires, {})
    tokens._given["nobody.has:it"] = Token("over", time.time() - 1)
    with pytest.raises(Exception, match=r"token that the driver fetched .* \(nobody.has:it\) has expired"):
        current()


def test_the_driver_keeps_a_token_for_half_its_life(monkeypatch):
    made = []

    def token():
        made.append(len(made))
        return f"token-{len(made)}", 100

    monkeypatch.setattr(tokens, "import_module", lambda _: type("M", (), {"token": staticmethod(token)}))
    properties = (("sasl.token", "m:token"),)
    assert [tokens.fetch(properties).value for _ in range(3)] == ["token-1"] * 3
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 51)
    assert tokens.fetch(properties).value == "token-2"
    assert tokens.fetch((("client.id", "c"),)) is None
    monkeypatch.setattr(tokens, "import_module", lambda _: type("M", (), {"other": staticmethod(lambda: 5)}))
    with pytest.raises(AuthenticationError, match=r"kafka\.sasl\.token: m:other returned int for a token"):
        tokens.fetch((("sasl.token", "m:other"),))


@pytest.mark.parametrize("mechanism", [None, "SCRAM-SHA-256", "AWS_MSK_IAM"])
def test_only_oauthbearer_has_tokens(mechanism):
    given = {"kafka.bootstrap.servers": "h:1", "kafka.sasl.token": "m:f", "kafka.sasl.mechanism": mechanism}
    given = {name: value for name, value in given.items() if value}
    for parse, more in ((ReadOptions.parse, {"subscribe": "t"}), (WriteOptions.parse, {"topic": "t"})):
        with pytest.raises(ValueError, match="option kafka.sasl.token belongs to kafka.sasl.mechanism=OAUTHBEARER"):
            parse({**given, **more})
