"""Queries of Spark's over an unclean election of real Kafka: one says what is lost and ends, the other says it and goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.conftest import REAL
from tests.integration.unclean import KEPT, LOST, READ, Log, three_nodes

from .once import FAULTY_PATH

HERE = Path(__file__).parent
JOB = HERE / "jobs" / "unclean.py"
LATER = 60


class Driver:
    """The job in a process of its own, whose output for errors is kept: Spark's Python workers warn there."""

    def __init__(self, bootstrap, topic, folder):
        self.errors = folder / "stderr"
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": FAULTY_PATH,
            "OTTLA_LOOKING": "30",
        }
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, JOB, bootstrap, topic, folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                env=environment,
            )

    def stream(self, strict):
        """What the query has read in all, and the error that ended it."""
        self.process.stdin.write(f"{strict}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        told = json.loads(line)
        return told["values"], told["error"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait(30)
            self.process.stdout.close()


@REAL
@pytest.mark.timeout(240)
def test_no_record_is_skipped_in_silence(tmp_path):
    read = [f"kept {n}" for n in range(KEPT)] + [f"lost {n}" for n in range(LOST)]
    cut = rf"offset {READ} was read"
    with three_nodes(tmp_path / "three", "4.4.0") as cluster:
        log = Log(cluster, "truncated")
        log.fill()
        with Driver(log.controls.bootstrap, log.topic, tmp_path) as driver:
            for strict in ("true", "false"):
                assert driver.stream(strict) == (read, None)
            log.lose()
            # The new log grows past what both have read.
            log.write("later", LATER)
            for _ in range(2):
                values, error = driver.stream("true")
                assert values == read
                assert cut in error
                assert f"from offset {KEPT} on" in error
            told = driver.errors.read_text()
            assert "DataLossWarning" not in told
            values, error = driver.stream("false")
            assert error is None
            assert values == read + [f"later {n}" for n in range(READ - KEPT, LATER)]
            (told,) = {line for line in driver.errors.read_text().splitlines() if "DataLossWarning" in line}
            assert cut in told
            assert f"from offset {KEPT} on" in told
            log.write("last", 1)
            values, error = driver.stream("false")
            assert (values[-1], error) == ("last 0", None)
