"""A standalone cluster of Spark: a master and two workers with a core each."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
from tests.brokers.running import free_ports
from tests.waiting import check_time

from ottla.spark import ensure_java

# Seconds until both workers have registered.
START = 120


@contextlib.contextmanager
def standalone(folder: Path, **variables: str) -> Iterator[str]:
    """Start a cluster, which ends with the block.

    Args:
        folder: Where it keeps its logs, and in `work1` and `work2` the folders of its executors.
        **variables: What it has in the environment besides what the tests have. Executors inherit it, too.

    Yields:
        The address of the master.
    """
    ensure_java()
    home = Path(pyspark.__file__).parent
    own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with contextlib.ExitStack() as running:
        port = running.enter_context(free_ports())
        address = f"spark://127.0.0.1:{port}"

        def start(name: str, *arguments: str) -> None:
            log = running.enter_context((folder / f"{name}.log").open("w"))
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
            process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **own, **variables})
            running.callback(process.wait, 30)
            # The executors of a worker end with it.
            running.callback(process.terminate)

        start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        for number in (1, 2):
            where = ["--work-dir", str(folder / f"work{number}"), "--host", "127.0.0.1", "--webui-port", "0"]
            start(f"worker{number}", "worker.Worker", *where, "--cores", "1", "--memory", "600m", address)
        deadline = time.monotonic() + START
        while (folder / "master.log").read_text().count("Registering worker") < 2:
            check_time(deadline, (folder / "master.log").read_text())
            time.sleep(0.2)
        yield address
