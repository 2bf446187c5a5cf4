"""The codecs alone, without a broker: messages and record batches, decoded and encoded, by ottla and by others.

Each codec is a process that is asked row by row, so that repeats of all are interleaved.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KAFKA = "4.4.0"
ANSWER_TIMEOUT = 60.0
MILLISECONDS = 150
WARM_UP = 600
"""How long a row is tried before it counts: enough for Java's compiler."""

RUST = ("ottla", "kafka-protocol", "krafka", "rskafka", "limit")
PYTHON = ("ottla (Python)", "kafka-python")
PEERS = ("kafka-protocol", "krafka", "rskafka", "Kafka's Java")
MESSAGES = ("metadata", "fetch", "produce", "api_versions", "join_group")
ROWS = tuple(
    [f"{m}/{way}" for m in MESSAGES for way in ("decode", "encode")]
    + [
        f"records-{size}-{codec}/{way}"
        for size in (100, 1000)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        for way in ("read", "write")
    ]
)


class Worker:
    """A process that measures one codec."""

    def __init__(self, name: str, command: Sequence[str | Path]) -> None:
        self.name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def ask(self, line: str) -> float | None:
        """The number that answers a line; None if the codec does not have the row."""
        process = self._process
        assert process.stdin
        assert process.stdout
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        if not answer:
            raise SystemExit(f"{self.name} did not answer {line!r}; its errors are above")
        return None if answer == "none" else float(answer)

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


@dataclass
class Figure:
    """What one codec took for one row: nanoseconds, one per repeat, and what it says it did."""

    row: str
    codec: str
    work: float
    nanoseconds: list[float] = field(default_factory=list)


def _workers(folder: Path) -> list[Worker]:
    from tests.brokers.brokers import fetch

    crate = ROOT / "benches" / "codec"
    target = ROOT / "target" / "codec"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=crate, env=environment, check=True)
    binary = target / "release" / "ottla-codec-bench"
    subprocess.run([binary, "make", folder], check=True)
    java = [
        "java",
        "-Xmx1g",
        "-cp",
        f"{fetch(KAFKA)}/*",
        str(ROOT / "benches" / "java" / "CodecBench.java"),
        str(folder),
    ]
    python = [sys.executable, str(HERE / "codec_worker.py")]
    return [
        *(Worker(name, [binary, name, folder]) for name in RUST),
        Worker("Kafka's Java", java),
        Worker(PYTHON[0], [*python, "ottla", str(folder)]),
        Worker(PYTHON[1], [*python, "kafka-python", str(folder)]),
    ]


def run(rows: Sequence[str], repeats: int, milliseconds: int = MILLISECONDS) -> list[Figure]:
    """Every row by every codec that has it, `repeats` times, interleaved.

    Raises:
        SystemExit: A codec read or wrote something else than ottla did.
    """
    with tempfile.TemporaryDirectory(prefix="codec-bench-") as folder:
        workers = _workers(Path(folder))
        try:
            figures: dict[tuple[str, str], Figure] = {}
            for row in tqdm(rows, "check and warm up", leave=False):
                for worker in workers:
                    work = worker.ask(f"check {row}")
                    if work is not None:
                        figures[row, worker.name] = Figure(row, worker.name, work)
                        if worker.name == "Kafka's Java":
                            worker.ask(f"time {row} {WARM_UP}")
            _compare(rows, figures)
            for _ in tqdm(range(repeats), "measure", leave=False):
                for row in rows:
                    for worker in workers:
                        if figure := figures.get((row, worker.name)):
                            taken = worker.ask(f"time {row} {milliseconds}")
                            assert taken is not None
                            figure.nanoseconds.append(taken)
        finally:
            for worker in workers:
                worker.stop()
    return list(figures.values())


def _compare(rows: Sequence[str], figures: dict[tuple[str, str], Figure]) -> None:
    """Everyone reads the same and, but for what a compressor does, writes as many bytes."""
    for row in rows:
        what, way = row.split("/")
        if way == "write" and not what.endswith("-none"):
            continue
        ours = figures[row, "ottla"].work
        for name in PEERS:
            theirs = figures.get((row, name))
            if theirs and theirs.work != ours:
                raise SystemExit(f"{row}: {name} says {theirs.work:.0f}, ottla {ours:.0f}")


@dataclass(frozen=True)
class Line:
    """A row of the table: medians in nanoseconds, and how many times as fast ours is as the fastest other."""

    row: str
    medians: dict[str, float]
    least: dict[str, float]

    def _ratio(self, ours: str, others: Sequence[str]) -> float | None:
        theirs = [self.medians[name] for name in others if name in self.medians]
        return min(theirs) / self.medians[ours] if theirs and ours in self.medians else None

    @property
    def ratio(self) -> float | None:
        return self._ratio("ottla", PEERS)

    @property
    def python(self) -> float | None:
        return self._ratio(*(PYTHON[0], PYTHON[1:]))

    @property
    def of_limit(self) -> float | None:
        """How much of our time the limit takes: 1.0 is as fast as it."""
        limit = self.medians.get("limit")
        return limit / self.medians["ottla"] if limit else None


def lines(figures: Sequence[Figure]) -> list[Line]:
    """The figures by rows."""
    out = []
    for row in dict.fromkeys(f.row for f in figures):
        of_row = [f for f in figures if f.row == row]
        out.append(
            Line(
                row,
                {f.codec: statistics.median(f.nanoseconds) for f in of_row},
                {f.codec: min(f.nanoseconds) for f in of_row},
            )
        )
    return out


def text(about: dict[str, Any], table: Sequence[Line]) -> str:
    """Microseconds, median and in brackets the least, and ratios of medians."""
    names = ("ottla", *PEERS, "limit", *PYTHON)
    head = f"{'microseconds: median (least)':26}" + "".join(f"{n:>19}" for n in names)
    out = [", ".join(f"{k} {v}" for k, v in about.items()), "", head + f"{'x fastest':>11}{'x Python':>10}{'limit':>8}"]
    for line in table:
        cells = [
            f"{line.medians[n] / 1e3:,.2f} ({line.least[n] / 1e3:,.2f})" if n in line.medians else "-" for n in names
        ]
        ratios = (f"{r:.2f}" if r else "-" for r in (line.ratio, line.python, line.of_limit))
        out.append(
            f"{line.row:26}"
            + "".join(f"{c:>19}" for c in cells)
            + "".join(f"{r:>{w}}" for r, w in zip(ratios, (11, 10, 8), strict=True))
        )
    return "\n".join(out)


def plot(about: dict[str, Any], table: Sequence[Line], path: Path) -> None:
    """How many times as long as ours each peer takes, row by row, on a logarithmic scale."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(9, 0.42 * len(table) + 1.5), layout="constrained")
    colours = dict(
        zip(
            (*PEERS, "kafka-python", "limit"),
            ("#588b8b", "#7a6c9d", "#4a7ba6", "#c08a3e", "#8c8c3c", "#aaaaaa"),
            strict=True,
        )
    )
    for name, colour in colours.items():
        base = PYTHON[0] if name == "kafka-python" else "ottla"
        points = [
            (line.medians[name] / line.medians[base], i)
            for i, line in enumerate(table)
            if name in line.medians and base in line.medians
        ]
        if points:
            label = f"{name} to ottla's Python" if name == "kafka-python" else name
            axis.scatter(*zip(*points, strict=True), color=colour, label=label, s=26, zorder=3)
    axis.axvline(1, color="#c8553d", label="ottla")
    axis.axvline(2, color="#c8553d", linestyle=":", label="goal: 2 x")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axis.set_yticks(range(len(table)), [line.row for line in table])
    axis.invert_yaxis()
    axis.set_xlabel("time as a multiple of ottla's (medians)")
    axis.grid(axis="y", color="#eeeeee")
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    figure.suptitle(f"codecs, {about['cores']} cores, {about['cpu']}")
    figure.savefig(path, dpi=130)
