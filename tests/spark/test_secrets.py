"""Options carry secrets to executors, and neither plans nor errors show them."""

import pytest
from pyspark.errors import PySparkException

from ottla.spark import register

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


def test_the_plan_of_a_stream_hides_what_spark_would_show(topic, spark):
    """Spark hides passwords, secrets and tokens by itself, and shows a key of PEM."""
    topic = topic()
    key = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"
    hidden = "spark.sql.redaction.options.regex"
    before = spark.conf.get(hidden)
    try:
        spark.conf.unset(hidden)
        options = topic.options(**{"kafka.security.protocol": "SSL", "kafka.ssl.keystore.key": key})
        frame = spark.readStream.format("ottla").options(**options).load()
        assert "hunter2" in frame._jdf.queryExecution().toString()
        register(spark)
        assert "hunter2" not in frame._jdf.queryExecution().toString()
        said = spark.conf.get(hidden)
        register(spark)
        assert spark.conf.get(hidden) == said
        assert said.startswith("(?i)url|")
    finally:
        spark.conf.set(hidden, before)
