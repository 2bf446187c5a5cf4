"""Drivers of Spark in processes of their own, which read a topic as a batch and copy it as a stream."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pyspark

import ottla
from ottla.spark import ensure_java
from ottla.testing import Broker

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
HOME = Path(pyspark.__file__).parent
SUBMIT = HOME / "bin" / "spark-submit"
# What a Python without ottla in its environment needs to find it, and the tests.
PATHS = f"{ROOT / 'python'}{os.pathsep}{ROOT}"
RECORDS = 1000
# Seconds of a driver, which takes a tenth of them on a machine that does nothing else.
LIMIT = 400


def numbers(broker: Broker) -> str:
    """Make a topic with a thousand numbers as values, in two partitions, and return its name."""
    name = new_topic(broker, 2)
    with ottla.Producer(broker.bootstrap_servers) as producer:
        values = [b"%d" % number for number in range(RECORDS)]
        producer.send_many(name, values, partitions=[n % 2 for n in range(RECORDS)]).result(60)
    return name


def new_topic(broker: Broker, partitions: int) -> str:
    """Make a topic, and return its name."""
    name = f"platform-{uuid.uuid4().hex[:8]}"
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=partitions)])
    return name


def printed(*command: object, cwd: Path, **variables: str) -> str:
    """Return what a command prints. All processes that it has started end with it.

    Args:
        *command: The program and its arguments.
        cwd: Where it runs.
        **variables: What it has in the environment besides what the tests have.
    """
    ensure_java()
    process = subprocess.Popen(
        list(map(str, command)),
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **variables},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # To be killed with all that it has started.
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{command[0]} did not end within {LIMIT} s\n{out[-3000:]}\n{err[-6000:]}") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, f"{out[-3000:]}\n{err[-6000:]}"
    return out


class Copies:
    """Runs `jobs/places.py` on a topic with numbers."""

    def __init__(self, broker: Broker, source: str, folder: Path) -> None:
        self._broker, self._source, self._folder = broker, source, folder

    def run(
        self,
        *command: object,
        master: str = "local[2]",
        cwd: Path | None = None,
        **variables: str,
    ) -> list[str]:
        """Run the driver, and compare the copy with the topic.

        Args:
            *command: What runs the driver; its arguments are added.
            master: Spark's master, or "-" where spark-submit names it.
            cwd: Where it runs; a folder of the test's by default.
            **variables: What it has in the environment besides what the tests have.

        Returns:
            Of a worker that ran a function of the job: the version of Python, the folder of ottla, the limits of its
            descriptors and of its memory.
        """
        target, checkpoint = new_topic(self._broker, 2), self._folder / f"checkpoint-{uuid.uuid4().hex[:8]}"
        variables = {"PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable, **variables}
        arguments = [master, self._broker.bootstrap_servers, self._source, target, checkpoint]
        out = printed(*command, *arguments, cwd=cwd or self._folder, **variables)
        found = json.loads(out.strip().splitlines()[-1])
        assert (found["batch"], found["ended"]) == (sum(range(RECORDS)), True)
        values = sorted(int(record.value) for record in ottla.read(self._broker.bootstrap_servers, target))
        assert values == list(range(RECORDS))
        return found["worker"]
