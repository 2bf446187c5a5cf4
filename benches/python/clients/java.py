"""Kafka's own performance tools, which use its Java client.

Their rates count from the end of a warm-up on, so that neither the start of the JVM nor its compiler is in them.
Release 4.4.0 was published without its tools: those of the release before drive its client.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from measurement import TRANSACTION, memory
from rebalance import Program, measure
from tests.brokers.brokers import BORROWED, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measurement import Job, Stopwatch

KAFKA = "4.4.0"
PROGRAMS = Path(__file__).resolve().parents[2] / "java"
REPORT_MS = 50
# Now and then a coordinator of 4.4 refuses an end by INVALID_TXN_STATE, with which Java's producer ends.
TRIALS = 5


def libraries() -> str:
    """The class path: the client of the release, and a tools jar; fetched where they are not there."""
    tools = BORROWED.get(KAFKA, KAFKA)
    return f"{fetch(KAFKA)}/*:{fetch(tools)}/kafka-tools-{tools}.jar"


def transactions(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Transactions of one record after the other, after as many that do not count; the time of `commitTransaction`."""
    command = _command("TransactionBench", job.bootstrap, job.topic, job.records, TRANSACTION, job.size)
    for _ in range(TRIALS):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if "InvalidTxnStateException" not in done.stderr:
            break
    if done.returncode:
        raise RuntimeError(done.stderr)
    seconds, *commits = (float(line) for line in done.stdout.splitlines())
    watch.reported(seconds, 0.0, 0)
    watch.laps += commits
    count = job.records * TRANSACTION
    return count, count * job.size


def rebalance(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Members in a thread each, one of which comes and goes."""
    settings = {"bootstrap.servers": job.bootstrap, "group.id": job.group, **job.properties}
    command = _command("RebalanceBench", job.topic, *(f"{name}={value}" for name, value in settings.items()))
    return measure(Program(command), job, watch)


def _command(program: str, *arguments: object) -> list[str]:
    """How to run a program of `benches/java`."""
    java = os.environ.get("KAFKA_BROKERS_JAVA") or "java"
    return [java, "-Xmx1g", "-cp", libraries(), str(PROGRAMS / f"{program}.java"), *map(str, arguments)]


@dataclass(frozen=True)
class _Line:
    """A line that the tool printed, and what its process had used by then."""

    text: str
    cpu: float
    peak: int


def _lines(tool: str, job: Job, *arguments: str) -> Iterator[_Line]:
    java = os.environ.get("KAFKA_BROKERS_JAVA") or "java"
    settings = [x for k, v in job.properties.items() for x in ("--command-property", f"{k}={v}")]
    command = [java, "-Xmx1g", "-cp", libraries(), f"org.apache.kafka.tools.{tool}"]
    common = ["--bootstrap-server", job.bootstrap, "--topic", job.topic, "--reporting-interval", str(REPORT_MS)]
    with subprocess.Popen(
        [*command, *common, *arguments, *settings], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        text = ""
        try:
            for line in process.stdout:
                text += line
                yield _Line(line, _processor_time(process.pid), memory("VmHWM", process.pid))
        except BaseException:
            process.kill()
            raise
        if process.wait(30):
            raise RuntimeError(text)


def _processor_time(pid: int) -> float:
    """Seconds of user and system time of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def consume(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`kafka-consumer-perf-test`, between the first of its reports after a quarter of all records and the last."""
    seen = list[tuple[float, int, _Line]]()
    for line in _lines("ConsumerPerformance", job, "--num-records", str(job.records), "--show-detailed-stats"):
        fields = [f.strip() for f in line.text.split(",")]
        if len(fields) == 10 and fields[4].isdigit() and int(fields[4]) > 1:
            hours, minutes, seconds, milliseconds = map(int, fields[0].split()[1].split(":"))
            clock = hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
            seen.append((clock, int(fields[4]), line))
    seen = [s for s in seen if s[1] >= job.records // 4]
    if len(seen) < 2:
        raise RuntimeError("too few records for a steady rate")
    (begin, before, first), (end, after, last) = seen[0], seen[-1]
    watch.reported((end - begin) % 86_400, last.cpu - first.cpu, last.peak)
    return after - before, (after - before) * job.size


def produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`kafka-producer-perf-test`: its steady state, after a warm-up of a third of two million records."""
    records = min(job.records, 2_000_000)
    warm_up = records // 3
    steady, before, peak = None, None, 0
    for line in _lines(
        "ProducerPerformance",
        job,
        *("--num-records", str(records), "--warmup-records", str(warm_up)),
        *("--record-size", str(job.size), "--throughput", "-1", "--command-property", "acks=all"),
    ):
        peak = max(peak, line.peak)
        if line.text.startswith("In steady state"):
            before = line.cpu
        if found := re.match(r"(\d+) steady state records sent, ([\d.]+) records/sec", line.text):
            steady = int(found[1]), float(found[2]), line.cpu
    if not steady or before is None:
        raise RuntimeError("it reported no steady state")
    count, rate, after = steady
    watch.reported(count / rate, after - before, peak)
    return count, count * job.size
