"""Airflow's triggers, in an environment of their own."""

from __future__ import annotations

import pytest

from ottla.testing import Broker
from tests.libraries.environments import report

# Airflow alone takes a minute to import on two cores.
pytestmark = pytest.mark.nightly


def test_500_triggers_on_one_loop(tmp_path):
    environment = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "false"}
    # A group has at most 200 members unless brokers allow more.
    with Broker(topics=["records"], config={"group.share.max.size": 1000}) as broker:
        found = report(
            "airflow", "with_airflow.py", broker.bootstrap_servers, "records", 500, timeout=290, env=environment
        )
    # A thread for each trigger would be 500 more; ottla's own threads do not grow with clients.
    assert found["threads"] < 20, found
