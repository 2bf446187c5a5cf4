#!/usr/bin/env python3
"""Compare ottla with confluent-kafka, aiokafka and kafka-python on one broker, and its codec with others' without one.

    .venv/bin/python benches/python/run.py [--only WORDS] [--broker real|embedded] [--quick]

Each measurement is a process of its own; repeats are interleaved, so that a busy moment of the machine hurts all alike.
The figures go to benches/out/ as JSON and as a plot. See benches/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

import codec  # noqa: E402
import report  # noqa: E402
from scenarios import BUDGET, PARTITIONS, SIZES, VARIANTS, Variant  # noqa: E402
from tests.brokers.brokers import Cluster, listens  # noqa: E402
from tqdm import tqdm  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

KAFKA = "4.4.0"
FIRST_PORT = 31000
MEASUREMENT_TIMEOUT = 60.0


@contextlib.contextmanager
def real_broker() -> Iterator[str]:
    """Kafka with its defaults, but that it frees the space of deleted topics at once."""
    port = next(p for p in range(FIRST_PORT, 32000, 100) if not any(listens(p + i) for i in range(100)))
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as folder:
        quick_delete = {"log.segment.delete.delay.ms": "100"}
        cluster = Cluster.start(folder, version=KAFKA, port=port, config=quick_delete, heap="1g")
        try:
            yield cluster.st["bootstrap"]["PLAINTEXT"]
        finally:
            cluster.stop(grace=2.0)


@contextlib.contextmanager
def embedded_broker() -> Iterator[str]:
    """Our own, in memory, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "ottla", "broker", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 20
        while not listens(port):
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit(f"the embedded broker did not start: {_errors(process)}")
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _errors(process: subprocess.Popen[bytes]) -> str:
    if process.stderr and select.select([process.stderr], [], [], 1)[0]:
        return os.read(process.stderr.fileno(), 4000).decode()
    return "it says nothing"


def measure(bootstrap: str, variant: Variant, topic: str, size: int, total: int, budget: float) -> dict[str, Any]:
    """The figures of one process; raises with its errors if it fails."""
    job = {
        "bootstrap": bootstrap,
        "topic": topic,
        "partitions": PARTITIONS,
        "total": total,
        "size": size,
        "budget": budget,
        "properties": dict(variant.properties),
    }
    order = json.dumps({"function": variant.function, "job": job})
    done = subprocess.run(
        [sys.executable, HERE / "worker.py", order],
        capture_output=True,
        text=True,
        timeout=MEASUREMENT_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{variant.name} with {size}-byte values: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def fill(bootstrap: str, size: int, total: int) -> str:
    """A topic of `total` records for consumers, in batches of up to 128 KiB, as a steady producer leaves them."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient

    topic = new_topic(AdminClient({"bootstrap.servers": bootstrap, "log_level": 3}), f"consume-{size}")
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 128 << 10,
            "queue.buffering.max.messages": 500_000,
        }
    )
    value = (b"%d " % 2_654_435_761 * size)[:size]
    for i in tqdm(range(total), f"fill {size} B", unit="rec", mininterval=0.5, leave=False):
        while True:
            try:
                producer.produce(topic, value, key=b"%08d" % i, partition=i * PARTITIONS // total)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(60):
        raise SystemExit(f"could not fill {topic}")
    return topic


def new_topic(admin: Any, name: str) -> str:
    from confluent_kafka.admin import NewTopic

    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(20)
    return name


def run(
    bootstrap: str, variants: list[Variant], sizes: dict[int, int], budget: float, repeats: int
) -> list[dict[str, Any]]:
    """Every variant at every size, `repeats` times, interleaved."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    filled = {s: fill(bootstrap, s, n) for s, n in sizes.items() if any(v.kind == "consume" for v in variants)}
    out = []
    rounds = [(r, s, v) for r in range(repeats) for s in sizes for v in variants]
    with tqdm(rounds, "measure") as progress:
        for repeat, size, variant in progress:
            progress.set_postfix_str(f"{variant.name}, {size} B")
            if variant.kind == "consume":
                figures = measure(bootstrap, variant, filled[size], size, sizes[size], budget)
            else:
                topic = new_topic(admin, f"produce-{size}-{repeat}-{VARIANTS.index(variant)}")
                figures = measure(bootstrap, variant, topic, size, 0, budget)
                admin.delete_topics([topic])[topic].result(20)
            out.append({**dataclasses.asdict(variant), "size": size, "repeat": repeat, **figures})
    return out


def environment(broker: str) -> dict[str, Any]:
    """What the figures were made with and on."""
    import ottla

    def first(pattern: str, text: str) -> str:
        found = re.search(pattern, text)
        return found[1] if found else "unknown"

    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    libraries = ("confluent-kafka", "aiokafka", "kafka-python", "pyarrow")
    return {
        "broker": broker,
        "cpu": first(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "ottla": ottla.__version__,
        "commit": commit.stdout.strip(),
        **{name: importlib.metadata.version(name) for name in libraries},
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", default="", help="what holds this: codec, consume, produce, aiokafka, metadata/decode"
    )
    parser.add_argument("--broker", choices=["real", "embedded"], help="default: real Kafka where Java and Maven are")
    parser.add_argument("--quick", action="store_true", help="one short repeat: to see that it runs, not for figures")
    parser.add_argument("--repeats", type=int, help="of each measurement; 3, and 5 for codecs")
    parser.add_argument("--out", type=Path, default=ROOT / "benches" / "out")
    args = parser.parse_args()
    rows = [r for r in codec.ROWS if args.only in f"codec {r}"]
    variants = [v for v in VARIANTS if args.only in f"{v.kind} {v.name}"]
    if not rows and not variants:
        parser.error(f"nothing holds {args.only!r}")
    args.out.mkdir(parents=True, exist_ok=True)
    if rows:
        run_codecs(rows, args)
    if variants:
        run_clients(variants, args)


def run_codecs(rows: list[str], args: argparse.Namespace) -> None:
    """The codecs: JSON, table and plot."""
    about = environment("none")
    figures = codec.run(rows, 1, 20) if args.quick else codec.run(rows, args.repeats or 5)
    stem = args.out / "codec"
    measurements = [dataclasses.asdict(f) for f in figures]
    stem.with_suffix(".json").write_text(json.dumps({"environment": about, "measurements": measurements}, indent=1))
    table = codec.lines(figures)
    print(codec.text(about, table))
    codec.plot(about, table, stem.with_suffix(".png"))
    print(f"\n{stem}.json\n{stem}.png\n")


def run_clients(variants: list[Variant], args: argparse.Namespace) -> None:
    """The clients on a broker: JSON, tables and plot."""
    can_be_real = bool(shutil.which("java") and shutil.which("mvn"))
    broker = args.broker or ("real" if can_be_real else "embedded")
    sizes, budget, repeats = SIZES, BUDGET, args.repeats or 3
    if args.quick:
        sizes, budget, repeats = {s: n // 10 for s, n in SIZES.items()}, BUDGET / 10, 1

    about = environment(f"Apache Kafka {KAFKA}" if broker == "real" else "embedded")
    with real_broker() if broker == "real" else embedded_broker() as bootstrap:
        figures = run(bootstrap, variants, sizes, budget, repeats)

    stem = args.out / f"python-{broker}"
    stem.with_suffix(".json").write_text(json.dumps({"environment": about, "measurements": figures}, indent=1))
    summary = report.summarise(figures)
    print(report.text(about, summary))
    report.plot(about, summary, stem.with_suffix(".png"))
    print(f"\n{stem}.json\n{stem}.png")


if __name__ == "__main__":
    main()
