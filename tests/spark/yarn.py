"""A cluster of YARN with one node, by Hadoop's own MiniYARNCluster, which Maven brings."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.brokers.brokers import java_program
from tests.brokers.jars import resolve
from tests.waiting import check_time

HADOOP = "3.5.0"
ROOT = Path(__file__).parents[2]
# With what its jar leaves to others.
NEEDED = {
    "org.apache.hadoop:hadoop-client-minicluster": HADOOP,
    "org.junit.jupiter:junit-jupiter-api": "5.12.2",
    "ch.qos.reload4j:reload4j": "1.2.26",
    "org.bouncycastle:bcprov-jdk18on": "1.82",
    "org.bouncycastle:bcpkix-jdk18on": "1.82",
}
POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>tests</groupId><artifactId>yarn</artifactId><version>1</version><dependencies>{}</dependencies></project>\n"
).format(
    "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *name.split(":"), version
        )
        for name, version in NEEDED.items()
    )
)
# Seconds until the node has registered.
START = 200


@contextlib.contextmanager
def yarn(folder: Path) -> Iterator[Path]:
    """Start a cluster, which ends with the block.

    Args:
        folder: Where its node keeps what it has, in `target`, and `yarn.log`.

    Yields:
        The folder with the settings of its clients, for HADOOP_CONF_DIR.
    """
    jars = resolve(ROOT / "target" / "yarn" / HADOOP, POM)
    settings = folder / "settings"
    settings.mkdir()
    command = [java_program(), "-Xmx512m", "-cp", f"{jars}/*", Path(__file__).parent / "Yarn.java", settings]
    with (folder / "yarn.log").open("w") as log:
        process = subprocess.Popen(
            list(map(str, command)), cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log, env=dict(os.environ)
        )
        try:
            deadline = time.monotonic() + START
            while "ready" not in (text := (folder / "yarn.log").read_text()).splitlines():
                assert process.poll() is None, text[-3000:]
                check_time(deadline, text[-3000:])
                time.sleep(0.2)
            yield settings
        finally:
            # It stops its containers, and ends.
            process.stdin.close()
            try:
                process.wait(60)
            finally:
                process.kill()
                process.wait(30)
