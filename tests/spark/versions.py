"""What ottla does on each release of PySpark, on real Kafka: one is examined, or the table of all is printed.

    python -m tests.spark.versions                  # every release of RELEASES, as Markdown
    python -m tests.spark.versions 3.5.8 connect    # these

Each release gets an environment of its own in target/platforms, which takes 400 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from tests.brokers.jars import resolve
from tests.brokers.running import running
from tests.spark.environments import environment

import ottla

ROOT = Path(__file__).parents[2]
RELEASES = {"3.5.8": "pyspark==3.5.8", "4.0.2": "pyspark==4.0.2", "4.1.1": "pyspark==4.1.1", "4.2.0": "pyspark==4.2.0"}
RELEASES |= {"4.3.0": "pyspark==4.3.0", "connect": "pyspark[connect]==4.3.0"}
# What writes tables, where there is a release for this one of Spark: the artifact in Maven.
TABLES = {
    "4.0.2": {
        "delta": "io.delta:delta-spark_4.0_2.13:4.4.0",
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    },
    "4.1.1": {
        "delta": "io.delta:delta-spark_4.1_2.13:4.2.0",
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
    "4.2.0": {"delta": "io.delta:delta-spark_4.2_2.13:4.4.0"},
}
POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>tests</groupId><artifactId>tables</artifactId><version>1</version><dependencies><dependency>"
    "<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "</dependency></dependencies></project>\n"
)
RECORDS, PARTITIONS = 3_000, 3
POINTS = {
    "batch": "Batch",
    "headers": "Headers",
    "filters": "Filters, pushed down",
    "typed_batch": "Typed columns",
    "dead_letters": "Dead letters",
    "stream": "Stream",
    "limits": "Limits of a trigger",
    "available_now": "`availableNow` with limits",
    "lag": "Lag in the progress",
    "group": "Lag of a consumer group",
    "sink": "Sink",
    "stream_sink": "Sink of a stream",
    "once": "Sink, exactly once",
    "errors": "Errors end with a sentence",
    "read_helper": "`read_kafka`",
    "write_helper": "`write_kafka`",
    "stream_helper": "`stream_kafka`",
    "stream_write_helper": "`write_kafka` in `stream_kafka`, exactly once",
    "moved_checkpoint": "Its checkpoint, by the source",
    "delta_ingest": "`ottla ingest` into Delta",
    "delta_stream": "A stream into Delta",
    "iceberg_ingest": "`ottla ingest` into Iceberg",
    "iceberg_stream": "A stream into Iceberg",
}


def python_of(release: str) -> Path:
    """The Python of an environment that has this release."""
    # Distributions of PySpark before 4 still import distutils, which setuptools has.
    return environment(f"pyspark-{release}", RELEASES[release], "pyarrow", "pandas<3", "setuptools")


def examine(release: str, bootstrap: str, source: str) -> dict[str, str]:
    """What is seen of POINTS; of those that are not there, this release has no way to have them."""
    target = f"target-{release}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for kind in ("batch", "stream", "once", "dead", "helper", "helper-stream"):
        admin.create_topics([NewTopic(f"{target}-{kind}", PARTITIONS, 1)])[f"{target}-{kind}"].result(30)
    kind = "connect" if release == "connect" else "classic"
    with tempfile.TemporaryDirectory() as folder:
        seen = told(release, "reach.py", kind, bootstrap, source, target, folder)
    for form, artifact in TABLES.get(release, {}).items():
        with tempfile.TemporaryDirectory() as folder:
            found = told(release, "tables.py", form, bootstrap, source, folder, ",".join(map(str, jars(artifact))))
        version = artifact.rpartition(":")[2]
        seen |= {point: f"{said}, {version}" if said == "yes" else said for point, said in found.items()}
    return seen


def told(release: str, driver: str, *arguments: str) -> dict[str, str]:
    """What a driver prints that runs in the environment of a release."""
    done = subprocess.run(
        [python_of(release), ROOT / "tests/spark/jobs" / driver, *arguments],
        # Options of tests for a JVM may name an archive of another release's classes.
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}", "SPARK_SUBMIT_OPTS": ""},
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{release}: {driver} ended with {done.returncode}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def jars(artifact: str) -> list[Path]:
    """The files of an artifact and of what it needs beside Spark."""
    group, name, version = artifact.split(":")
    folder = resolve(ROOT / "target" / "pyspark" / f"{name}-{version}", POM.format(group, name, version))
    return sorted(folder.glob("*.jar"))


def table(found: dict[str, dict[str, str]]) -> str:
    """The findings as Markdown, one column a release."""
    names = [f"{seen['pyspark']}, Connect" if release == "connect" else release for release, seen in found.items()]
    lines = [["PySpark", *names], ["---"] * (len(found) + 1)]
    lines += [[title, *(seen.get(point, "-") for seen in found.values())] for point, title in POINTS.items()]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "kafka") as cluster:
        bootstrap = cluster.st["bootstrap"]["PLAINTEXT"]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("source", PARTITIONS, 1)])["source"].result(30)
        with ottla.Producer(bootstrap) as producer:
            for partition in range(PARTITIONS):
                values = [b'{"a":%d}' % number for number in range(partition, RECORDS, PARTITIONS)]
                producer.send_many("source", values, partitions=partition, headers=[("h", b"x")]).result(60)
        for release in sys.argv[1:] or RELEASES:
            found[release] = examine(release, bootstrap, "source")
            print(f"{release} is done", file=sys.stderr, flush=True)
    print(table(found), end="")


if __name__ == "__main__":
    main()
