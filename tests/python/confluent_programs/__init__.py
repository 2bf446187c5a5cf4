"""Programs for confluent-kafka, which `test_compat_confluent.py` runs on librdkafka and on ottla. They print what they see."""
