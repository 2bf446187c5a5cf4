"""Writes on a standalone cluster of two worker processes, where a failed task is repeated."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyspark
import pytest

import ottla
from ottla.spark import ensure_java
from ottla.testing import Broker

pytestmark = [pytest.mark.needs("java"), pytest.mark.timeout(380)]

JOB = Path(__file__).parent / "jobs" / "cluster.py"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def master(tmp_path):
    """The address of a cluster of two workers with a core each."""
    ensure_java()
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as running:

        def start(name, *arguments):
            log = running.enter_context((tmp_path / f"{name}.log").open("w"))
            command = [str(home / "bin" / "spark-class"), *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            running.callback(process.wait, 30)
            # Its executors end with it.
            running.callback(process.terminate)

        deploy = "org.apache.spark.deploy"
        start("master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        for number in (1, 2):
            where = ["--work-dir", str(tmp_path / f"work{number}"), "--host", "127.0.0.1", "--webui-port", "0"]
            start(f"worker{number}", f"{deploy}.worker.Worker", *where, "--cores", "1", "--memory", "600m", address)
        deadline = time.monotonic() + 120
        while (tmp_path / "master.log").read_text().count("Registering worker") < 2:
            assert time.monotonic() < deadline, (tmp_path / "master.log").read_text()
            time.sleep(0.2)
        yield address, environment


def counted(broker, topic):
    """How often each value is in a topic."""
    with ottla.Consumer(broker.bootstrap_servers, topics=[topic], auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets([ottla.TopicPartition(topic, p) for p in consumer.partitions_for(topic)])
        values = []
        while len(values) < sum(ends.values()):
            values += [int(record.value) for record in consumer.poll(timeout=10)]
    return Counter(values)


def test_a_repeated_task_loses_nothing(master):
    address, environment = master
    with Broker(topics={"batch": 3}) as broker:
        command = [sys.executable, str(JOB), address, broker.bootstrap_servers]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert ran.stdout.splitlines()[-1] == "2", "executors"
        batch = counted(broker, "batch")
        assert set(batch) == set(range(2000))
        # What the failed attempt sent is there twice; its task alone was repeated.
        assert set(batch.values()) == {1, 2}
        assert {value for value, times in batch.items() if times == 2} <= set(range(450))
