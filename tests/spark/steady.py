"""A stream from three nodes of real Kafka to Parquet, under a steady load, while the nodes are hurt all the time.

    python -m tests.spark.steady                            # ten minutes
    python -m tests.spark.steady --minutes 1 --fault killed

Each record that a producer was told of must be in Parquet once, at its offset, and the memory of Spark's Python workers
must stay flat: what they hold in the last quarter of the run is compared with what they held in the second.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from tests.integration.controls import Controls
from tests.integration.fault_runs import FAULTS, PARTITIONS, RELEASES, Trouble, three_nodes
from tests.integration.stamps import read_stamp, stamp
from tests.spark.starts import begun
from tqdm import tqdm

import ottla
from ottla.spark import ensure_java
from ottla.spark.read.progress import offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from tests.brokers.brokers import Cluster

TOPIC, RUN = "steady", "steady"
# Records a second, and how many of them are sent at a time.
PACE, AT_A_TIME = 2_000, 200
DEADLINE = 180.0
# How many times the memory of the second quarter counts as the same; workers come and go with their tasks.
FLAT = 1.2


def places(turn: int) -> list[tuple[int, int]]:
    """Partition and sequence of what is sent in one turn."""
    numbers = range(turn * AT_A_TIME, (turn + 1) * AT_A_TIME)
    return [(number % PARTITIONS, number // PARTITIONS) for number in numbers]


@dataclass
class Load:
    """Sends at an even pace from a thread of its own, until it is stopped; each send is awaited at the end."""

    bootstrap: str
    stop: threading.Event = field(default_factory=threading.Event)
    sent: list[ottla.Deliveries] = field(default_factory=list)
    failure: BaseException | None = None

    def run(self) -> None:
        try:
            # No fault lasts for as long, so that each record is acknowledged in the end.
            with ottla.Producer(self.bootstrap, delivery_timeout_ms=180_000, request_timeout_ms=5_000) as producer:
                begin = time.monotonic()
                for turn in itertools.count():
                    if self.stop.is_set():
                        break
                    values = [stamp(RUN, TOPIC, *place) for place in places(turn)]
                    partitions = [partition for partition, _ in places(turn)]
                    self.sent.append(producer.send_many(TOPIC, values, partitions=partitions))
                    self.stop.wait(max(0.0, begin + (turn + 1) * AT_A_TIME / PACE - time.monotonic()))
                for deliveries in self.sent:
                    deliveries.result(DEADLINE)
        except BaseException as error:
            self.failure = error


@dataclass
class Memory:
    """What the Python workers below this process hold, in bytes, second by second; the JVM is between them and it."""

    held: list[int] = field(default_factory=list)

    def take(self) -> None:
        parents, sizes = dict[int, int](), dict[int, int]()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                # `python -m pyspark.daemon` and its like; the JVM's own line names PySpark, too.
                if b"\0-m\0pyspark." in (folder / "cmdline").read_bytes():
                    rows = (folder / "smaps_rollup").read_text().splitlines()
                    # What forks share counts in parts.
                    sizes[int(folder.name)] = next(int(r.split()[1]) << 10 for r in rows if r.startswith("Pss:"))
            except OSError:
                continue  # it has ended
        ours, found = {os.getpid()}, set[int]()
        while found != ours:
            found, ours = ours, ours | {child for child, parent in parents.items() if parent in ours}
        self.held.append(sum(size for process, size in sizes.items() if process in ours))

    def growth(self) -> float:
        """The median of the last quarter over that of the second."""
        quarter = len(self.held) // 4
        return statistics.median(self.held[-quarter:]) / statistics.median(self.held[quarter : 2 * quarter])


def steady(
    spark: SparkSession, cluster: Cluster, folder: Path, seconds: float, faults: Sequence[str]
) -> tuple[str, float]:
    """Stream while the faults follow each other; returns what is to be said of it, and how much the workers' memory grew."""
    controls, memory = Controls(cluster), Memory()
    controls.create(TOPIC, PARTITIONS)
    load = Load(str(cluster.st["bootstrap"]["PROXIED"]))
    options = {"kafka.bootstrap.servers": load.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
    frame = spark.readStream.format("ottla").options(**options).load().select("value", "partition", "offset")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = begun(writer.option("path", str(folder / "rows")).trigger(processingTime="2 seconds").start)
    sender = threading.Thread(target=load.run, daemon=True)
    struck = 0
    try:
        sender.start()
        # Workers that are not there yet are no measure.
        wait_for_progress(query, lambda batch: bool(batch["numInputRows"]), "the stream does not begin")
        with tqdm(total=round(seconds), desc="stream", unit="s", disable=None) as progress:
            for fault in faults:
                with Trouble(cluster, fault) as trouble:
                    end = time.monotonic() + seconds / len(faults)
                    while time.monotonic() < end and query.isActive and not load.failure:
                        time.sleep(1)
                        memory.take()
                        progress.update(1)
                struck += trouble.struck
        load.stop.set()
        sender.join(DEADLINE)
        assert not sender.is_alive(), "the producer does not come to its end"
        if load.failure:
            raise load.failure
        sent = sum(map(len, load.sent))
        wait_for_progress(query, lambda batch: read_so_far(batch) == sent, "the stream does not come to the end")
    finally:
        load.stop.set()
        query.stop()
    judge(spark, load, folder)
    batches = query.lastProgress["batchId"] + 1
    said = (
        f"{sum(map(len, load.sent)):,} records, each once in Parquet; {batches} batches, {struck} faults; "
        f"memory of the workers {max(memory.held) >> 20} MiB at most, "
        f"{memory.growth():.2f} times in the last quarter what it was in the second"
    )
    return said, memory.growth()


def wait_for_progress(query: StreamingQuery, happened: Callable[[StreamingQueryProgress], bool], what: str) -> None:
    """Wait until the progress of a batch that ended says so; an error of the stream is raised."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if error := query.exception():
            raise error
        if any(map(happened, query.recentProgress)):
            return
        time.sleep(0.2)
    raise AssertionError(f"{what}: {query.lastProgress or query.status}")


def read_so_far(progress: StreamingQueryProgress) -> int:
    """How many records lie before the end of this batch."""
    return sum(offsets_of(progress["sources"][0], "endOffset").values())


def judge(spark: SparkSession, load: Load, folder: Path) -> None:
    """Hold what is in Parquet against what the producer was told."""
    told = dict[tuple[int, int], tuple[int, int]]()
    for turn, deliveries in enumerate(load.sent):
        for place, *at in zip(places(turn), *deliveries.result(0), strict=True):
            told[at[0], at[1]] = place
    found = spark.read.parquet(str(folder / "rows")).toArrow()
    assert found.num_rows == len(told), f"{found.num_rows:,} rows of {len(told):,} records"
    columns = (found.column(name).to_pylist() for name in ("partition", "offset", "value"))
    for partition, offset, value in zip(*columns, strict=True):
        # Whatever is there twice is not found the second time.
        assert read_stamp(value) == (RUN, TOPIC, *told.pop((partition, offset)))
    assert not told


# --- the command


def main() -> None:
    description, _, epilog = (__doc__ or "").partition("\n\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="steady", description=description, epilog=epilog, formatter_class=form)
    parser.add_argument("--minutes", type=float, default=10, help="how long records come (default: %(default)g)")
    parser.add_argument("--fault", choices=FAULTS, help="what happens to the nodes; without it, one after the other")
    parser.add_argument(
        "--version", choices=RELEASES, default=RELEASES[0], help="Kafka's release (default: %(default)s)"
    )
    given = parser.parse_args()
    ensure_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    faults = [given.fault] if given.fault else list(FAULTS)
    with tempfile.TemporaryDirectory() as folder, three_nodes(Path(folder) / "kafka", given.version) as cluster:
        said, growth = steady(spark, cluster, Path(folder), given.minutes * 60, faults)
        print(f"{given.version} stream, nodes {', '.join(faults)}: {said}", flush=True)
    spark.stop()
    if growth > FLAT:
        raise SystemExit("the memory of Spark's Python workers grows")


if __name__ == "__main__":
    main()
