"""Options carry secrets to executors, and neither plans nor errors show them."""

import pytest
from pyspark.errors import PySparkException

from ottla.spark import register
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.shared import redaction

LOGIN = "x.PlainLoginModule required username=alice password='hunter2-s3cret';"
SECRETS = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.allow.plaintext": "true",
    "kafka.sasl.jaas.config": LOGIN,
}


def test_no_plan_and_no_error_shows_a_secret(topic):
    topic = topic()
    frame = topic.read(**SECRETS)
    execution = frame._jdf.queryExecution()  # what the web interface shows comes from there
    plans = [execution.toString(), execution.executedPlan().toString(), execution.simpleString(), str(frame)]
    assert any("ottla" in plan for plan in plans)
    with pytest.raises(PySparkException) as caught:
        # The broker of these tests takes no authentication.
        frame.collect()
    said = f"{caught.value} {caught.value!r} {caught.value.getMessageParameters()}"
    assert "AuthenticationError" in said
    for text in [*plans, said]:
        assert "hunter2" not in text


# What Spark does not hide by itself.
SHOWN = {
    "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
    "kafka.proxy.url": "socks5://alice:hunter2@127.0.0.1:1080",
    "value.schema.registry.basic.auth.user.info": "alice:hunter2",
}


@pytest.mark.parametrize("login", ["alice:hunter2", ":hunter2", "alice:hun/ter2", "alice:hun@ter2"])
def test_a_login_is_found_whatever_is_in_it(login):
    options = {"kafka.proxy.url": f"socks5://{login}@127.0.0.1:1080"}
    with pytest.raises(ValueError, match="name it secret.kafka.proxy.url"):
        redaction.check(options)
    assert redaction.hide(options) == {f"secret.{name}": value for name, value in options.items()}
    redaction.check({"kafka.proxy.url": "socks5://127.0.0.1:1080", "schema.registry.url": "http://registry:8081/a?b=c"})


@pytest.mark.parametrize("name", SHOWN)
def test_a_secret_that_spark_would_show_is_refused(topic, spark, name):
    options = topic().options(**{name: SHOWN[name]})
    rows = spark.range(1).selectExpr("'x' AS value").write.format("ottla").mode("append")
    writes = {key: value for key, value in options.items() if key != "subscribe"}
    for use in (
        spark.read.format("ottla").options(**options).load,
        spark.readStream.format("ottla").options(**options).load,
        rows.options(topic="t", **writes).save,
    ):
        with pytest.raises(PySparkException) as caught:
            use()
        assert f"name it secret.{name}" in str(caught.value)
        assert "hunter2" not in f"{caught.value} {caught.value!r}"


def test_no_plan_shows_an_option_with_a_hidden_name(topic, spark):
    # tests/spark/test_typed.py has a registry.
    hidden = {f"secret.{name}": value for name, value in SHOWN.items() if name.startswith("kafka.")}
    options = topic().options(**{"kafka.security.protocol": "SSL", **hidden})
    stream = spark.readStream.format("ottla").options(**options).load()
    batch = spark.read.format("ottla").options(**options).load()
    for frame in (stream, batch):
        plan = frame._jdf.queryExecution().toString()
        assert "ottla" in plan
        assert "hunter2" not in plan


def test_an_option_is_known_by_its_hidden_name():
    shown = {
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "t",
        "kafka.SSL.keystore.key": SHOWN["kafka.ssl.keystore.key"],
    }
    hidden = redaction.hide(shown)
    assert [name for name in hidden if name not in shown] == ["secret.kafka.SSL.keystore.key"]
    redaction.check(hidden)
    assert ReadOptions.parse(hidden) == ReadOptions.parse(shown)
    with pytest.raises(ValueError, match="option subscribe is given twice, hidden as secret.subscribe too"):
        ReadOptions.parse({**shown, "secret.subscribe": "t"})


def test_plans_hide_what_file_systems_take(topic, spark):
    """`register` tells Spark, once."""
    hidden = "spark.sql.redaction.options.regex"
    before = spark.conf.get(hidden)
    try:
        spark.conf.unset(hidden)
        register(spark)
        said = spark.conf.get(hidden)
        register(spark)
        assert spark.conf.get(hidden) == said
        assert said.startswith("(?i)url|")
    finally:
        spark.conf.set(hidden, before)
