"""What the benches on Spark share: a session, processor time, and the figures as a table, JSON and a plot."""

from __future__ import annotations

import json
import os
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker import Broker

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.spark.conftest import peer_jars  # noqa: E402


def session(*artifacts: str) -> Any:
    """A session of two cores, with Spark's own source and sink, and further Maven artifacts (group:name:version)."""
    from pyspark.sql import SparkSession

    from ottla.spark import ensure_java

    ensure_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    jars = peer_jars(*artifacts)
    if not jars:
        raise SystemExit("Spark's own source and sink come through Maven, which is not installed")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "2g")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    made = builder.config("spark.jars", ",".join(map(str, jars))).getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def processor_time(broker: Broker) -> float:
    """Seconds of this process and of all that it started, those that have ended too, but not of the broker."""
    parents, used = dict[int, int](), dict[int, float]()
    tick = os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in front, in parentheses, may hold anything.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = sum(map(int, fields[11:15])) / tick
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours - {broker.pid}:
        ours |= more
    return sum(used[process] for process in ours if process in used)


@dataclass
class Case:
    """One piece of work in several ways, ours first.

    Attributes:
        name: What is done.
        rows: How many rows each way moves.
        taken: Of each way the repeats: seconds on the clock, and of processor time.
        goals: Of a peer, how many times as long as ours it is to take, on the clock and of processor time; or None.
    """

    name: str
    rows: int
    taken: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    goals: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)

    def add(self, way: str, wall: float, cpu: float) -> None:
        self.taken.setdefault(way, []).append((wall, cpu))

    def times_ours(self, way: str, column: int) -> list[float]:
        """How many times as long as ours a way took, repeat by repeat; 0 is the clock, 1 processor time."""
        pairs = zip(next(iter(self.taken.values())), self.taken[way], strict=True)
        return [theirs[column] / ours[column] for ours, theirs in pairs]

    def lines(self) -> list[str]:
        repeats = len(next(iter(self.taken.values())))
        out = [
            f"{self.name}: {self.rows:,} rows, medians of {repeats} repeats; in pairs, how many times as long as ours"
        ]
        out.append(
            f"  {'':34}{'krows/s':>9}{'best':>8}{'CPU ns/row':>12}{'x time':>8}{'goal':>7}{'x CPU':>8}{'goal':>7}"
        )
        for way, taken in self.taken.items():
            wall, cpu = (statistics.median(column) for column in zip(*taken, strict=True))
            best = self.rows / min(w for w, _ in taken) / 1e3
            line = f"  {way:34}{self.rows / wall / 1e3:9,.0f}{best:8,.0f}{cpu / self.rows * 1e9:12,.0f}"
            for column in (0, 1):
                reached = statistics.median(self.times_ours(way, column))
                goal = self.goals.get(way, (None, None))[column]
                met = "" if goal is None else f"{goal:.2f}{'' if reached >= goal else '!'}"
                line += f"{reached:8.2f}{met:>7}"
            out.append(line)
        return out


def save(stem: str, cases: list[Case]) -> None:
    """Print the table, and write it, every measurement, and a plot to benches/out."""
    table = "\n\n".join("\n".join(case.lines()) for case in cases)
    print(f"{table}\n! a goal that was missed")
    out = ROOT / "benches" / "out"
    out.mkdir(exist_ok=True)
    figures = [{"case": case.name, "rows": case.rows, "seconds": case.taken} for case in cases]
    (out / f"{stem}.json").write_text(json.dumps(figures, indent=1))
    (out / f"{stem}.txt").write_text(f"{table}\n")
    plot(cases, out / f"{stem}.svg")
    print(*(out / f"{stem}.{kind}" for kind in ("json", "txt", "svg")), sep="\n")


def plot(cases: list[Case], path: Path) -> None:
    """A bar for each way: rows a second."""
    import plots

    figure, axes = plots.plt.subplots(len(cases), 1, figsize=(8, 2.2 * len(cases)), squeeze=False, layout="constrained")
    for axis, case in zip(axes.flat, cases, strict=True):
        ways = list(case.taken)[::-1]
        rates = [case.rows / statistics.median(wall for wall, _ in case.taken[way]) / 1e3 for way in ways]
        colours = [plots.COLOURS["ours" if way.startswith("ottla") else "peer"] for way in ways]
        axis.barh(ways, rates, color=colours)
        axis.set_title(case.name, fontsize=10)
        axis.set_xlabel("thousand rows a second")
    figure.savefig(path, metadata={"Date": None})
    plots.plt.close(figure)
