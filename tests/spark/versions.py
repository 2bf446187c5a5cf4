"""What ottla does on each release of PySpark, on real Kafka: one is examined, or the table of all is printed.

    python -m tests.spark.versions                  # every release of RELEASES, as Markdown
    python -m tests.spark.versions 3.5.8 connect    # these

Each release gets an environment of its own in target/pyspark, which takes 400 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from tests.brokers.running import running

import ottla

ROOT = Path(__file__).parents[2]
RELEASES = {"3.5.8": "pyspark==3.5.8", "4.0.2": "pyspark==4.0.2", "4.1.1": "pyspark==4.1.1", "4.2.0": "pyspark==4.2.0"}
RELEASES |= {"4.3.0": "pyspark==4.3.0", "connect": "pyspark[connect]==4.3.0"}
RECORDS, PARTITIONS = 3_000, 3
POINTS = {
    "batch": "Batch",
    "typed_batch": "Typed",
    "stream": "Stream",
    "sink": "Sink",
    "stream_sink": "Stream sink",
    "once": "Exactly once",
    "read_helper": "`read_kafka`",
    "stream_helper": "`stream_kafka`",
    "moved_checkpoint": "its checkpoint, by the source",
}


def environment(release: str) -> Path:
    """The Python of an environment that has this release."""
    folder = ROOT / "target" / "pyspark" / release
    python = folder / "bin" / "python"
    done = folder / "done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
        # Distributions of PySpark before 4 still import distutils, which setuptools has.
        needed = [RELEASES[release], "pyarrow", "pandas<3", "setuptools"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *needed], check=True, timeout=1200)
        done.touch()
    return python


def examine(release: str, bootstrap: str, source: str) -> dict[str, str]:
    """What is seen of each of POINTS."""
    target = f"target-{release}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for kind in ("batch", "stream", "once"):
        admin.create_topics([NewTopic(f"{target}-{kind}", PARTITIONS, 1)])[f"{target}-{kind}"].result(30)
    with tempfile.TemporaryDirectory() as folder:
        kind = "connect" if release == "connect" else "classic"
        command = [environment(release), ROOT / "tests/spark/jobs/reach.py", kind, bootstrap, source, target, folder]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{release}: the driver ended with {done.returncode}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(found: dict[str, dict[str, str]]) -> str:
    """The findings as Markdown, one line a release."""
    lines = [["PySpark", *POINTS.values()], ["---"] * (len(POINTS) + 1)]
    for release, seen in found.items():
        name = f"{seen['pyspark']}, Spark Connect" if release == "connect" else release
        lines.append([name, *(seen[point] for point in POINTS)])
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
                producer.send_many("source", values, partitions=partition).result(60)
        for release in sys.argv[1:] or RELEASES:
            found[release] = examine(release, bootstrap, "source")
            print(f"{release} is done", file=sys.stderr, flush=True)
    print(table(found), end="")


if __name__ == "__main__":
    main()
