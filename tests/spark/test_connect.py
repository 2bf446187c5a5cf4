"""Writes through Spark Connect, whose client is another process than the driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark import ensure_java
from ottla.testing import Broker

from .test_cluster import counted

JOB = Path(__file__).parent / "jobs" / "connect.py"


@pytest.mark.needs("java", "grpc_status")
@pytest.mark.timeout(300)
def test_batch_and_stream(tmp_path):
    ensure_java()
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with Broker(topics={"batch": 2, "stream": 2}) as broker:
        command = [sys.executable, str(JOB), broker.bootstrap_servers, str(tmp_path)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert counted(broker, "batch") == dict.fromkeys(range(100), 1)
        assert counted(broker, "stream") == dict.fromkeys(range(100), 1)
