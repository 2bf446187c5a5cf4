"""Options carry secrets to executors, and neither plans nor errors show them."""

import pytest
from pyspark.errors import PySparkException

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
