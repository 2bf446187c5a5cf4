"""Feast's stores, in an environment of their own, which has no Spark."""

from __future__ import annotations

import pytest

import ottla
from tests.libraries.environments import report

# Its environment takes minutes, as those of Ray and Airflow.
pytestmark = pytest.mark.nightly


def test_features_of_a_topic(address, topic, tmp_path):
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(f"{topic}-avro", partitions=1)])
    assert report("feast", "with_feast.py", address, topic, f"{topic}-avro", tmp_path, timeout=280)["done"]
