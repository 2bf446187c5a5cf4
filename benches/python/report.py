"""The measurements as text: a table for each scenario, and the goals with what was reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenarios import Figure, Goal, Scenario, Way

Measured = dict[str, Any]
"""What a worker printed."""


@dataclass
class Row:
    """All repeats of one way in one scenario, in the order in which they were taken, unless one failed."""

    scenario: Scenario
    way: Way
    repeats: list[Measured] = field(default_factory=list)
    failure: str | None = None

    def values(self, figure: Figure) -> list[float]:
        """One of each repeat: per second, microseconds of processor time, seconds of a latency or rebalance, bytes."""
        of = {
            "records per second": lambda m: m["records"] / m["seconds"],
            "CPU per record": lambda m: m["cpu_seconds"] / m["records"] * 1e6,
            "p50": lambda m: m["p50"],
            "p99": lambda m: m["p99"],
            "join": lambda m: m["join"],
            "leave": lambda m: m["leave"],
            "memory": lambda m: m["peak_bytes"],
            "wake-ups": lambda m: m["wakeups"],
            "connections": lambda m: m["connections"],
        }[figure]
        return [float(of(m)) for m in self.repeats]

    def median(self, figure: Figure) -> float:
        return median(self.values(figure))


def main_figure(scenario: Scenario) -> Figure:
    """What is plotted of a scenario, and compared between builds."""
    figures: dict[str, Figure] = {"latency": "p50", "rebalance": "join", "idle": "wake-ups"}
    return figures.get(scenario.kind, "records per second")


def text(about: dict[str, Any], rows: list[Row]) -> str:
    """A table for each scenario."""
    lines = [", ".join(f"{k} {v}" for k, v in about.items())]
    for scenario in dict.fromkeys(r.scenario for r in rows):
        table = [r for r in rows if r.scenario == scenario]
        stolen = max((m["stolen"] for r in table for m in r.repeats), default=0)
        about_it = f"{len(table[0].repeats)} repeats, of which other machines took up to {stolen:.0%}"
        lines += ["", f"{scenario.name}: {scenario.size} bytes a value, {about_it}"]
        shown = {"latency": _latencies, "rebalance": _rebalances, "idle": _idle}.get(scenario.kind, _rates)
        lines += shown(table)
    return "\n".join(lines)


def _rates(table: list[Row]) -> list[str]:
    head = (
        f"  {'':38}{'CPU ns/rec':>11}{'least':>8}{'krec/s median':>15}{'min':>9}{'max':>9}{'MB/s':>8}{'memory MB':>11}"
        "  settings"
    )
    return [head] + [
        f"  {r.way.name:38}{r.median('CPU per record') * 1e3:11,.0f}{min(r.values('CPU per record')) * 1e3:8,.0f}"
        f"{r.median('records per second') / 1e3:15,.0f}"
        f"{min(r.values('records per second')) / 1e3:9,.0f}{max(r.values('records per second')) / 1e3:9,.0f}"
        f"{r.median('records per second') * r.scenario.size / 1e6:8,.0f}{_memory(r):>11}  {settings(r)}"
        for r in table
    ]


def _memory(row: Row) -> str:
    """The most of all repeats; a dash for Spark, whose processes outlive a measurement."""
    return "-" if row.scenario.spark else f"{max(row.values('memory')) / 1e6:,.0f}"


def _latencies(table: list[Row]) -> list[str]:
    head = (
        f"  {'microseconds':38}{'p50 median':>11}{'min':>8}{'max':>8}{'p99 median':>12}{'min':>8}{'max':>8}{'CPU':>7}"
    )
    return [head] + [
        f"  {r.way.name:38}"
        + "".join(
            f"{median(v) * 1e6:{width}.0f}{min(v) * 1e6:8.0f}{max(v) * 1e6:8.0f}"
            for v, width in ((r.values("p50"), 11), (r.values("p99"), 12))
        )
        + f"{r.median('CPU per record'):7.0f}"
        for r in table
    ]


def _rebalances(table: list[Row]) -> list[str]:
    head = f"  {'milliseconds':38}{'join median':>12}{'min':>8}{'max':>8}{'leave median':>14}{'min':>8}{'max':>8}"
    return [head] + [
        f"  {r.way.name:38}"
        + "".join(
            f"{median(v) * 1e3:{width}.0f}{min(v) * 1e3:8.0f}{max(v) * 1e3:8.0f}"
            for v, width in ((r.values("join"), 12), (r.values("leave"), 14))
        )
        for r in table
    ]


def _idle(table: list[Row]) -> list[str]:
    columns = f"{'wake-ups/s':>11}{'CPU us/s':>10}{'memory KB':>11}{'connections':>13}{'all threads':>13}"
    return [f"  {'of each client':38}{columns}"] + [
        f"  {r.way.name:38}{r.median('wake-ups'):11.1f}{r.median('CPU per record'):10.0f}"
        f"{r.median('memory') / 1e3:11,.0f}{r.median('connections'):13.1f}"
        f"{median(m['threads'] for m in r.repeats):13.0f}"
        for r in table
    ]


@dataclass(frozen=True)
class Result:
    """How a goal was met.

    Attributes:
        ours, other: Medians; no other for a bound on our figure itself.
        reached: The median over the repeats of the ratio or difference, each of neighbours in time, or of our figure.
        worst: The repeat that is farthest from the goal.
    """

    goal: Goal
    ours: float
    other: float | None
    reached: float
    worst: float

    @property
    def met(self) -> bool:
        if self.goal.figure == "records per second":
            return self.reached >= self.goal.bound
        return self.reached <= self.goal.bound


def results(goals: tuple[Goal, ...] | list[Goal], rows: list[Row]) -> list[Result]:
    """Every goal of which both sides were measured."""
    found = {(r.scenario.name, r.way.name): r for r in rows}
    out = []
    for goal in goals:
        ours = found.get((goal.scenario, f"ottla {goal.ours}"))
        other = found.get((goal.scenario, goal.other)) if goal.other else None
        if not ours or (goal.other and not other):
            continue
        figures = ours.values(goal.figure)
        if other:
            pairs = zip(figures, other.values(goal.figure), strict=True)
            figures = [a - b if goal.difference else a / b for a, b in pairs]
        worst = min(figures) if goal.figure == "records per second" else max(figures)
        out.append(Result(goal, ours.median(goal.figure), other and other.median(goal.figure), median(figures), worst))
    return out


def settings(row: Row) -> str:
    """What a row's client is set up with, beyond its library's defaults."""
    given = [f"{name}={value}" for name, value in row.way.properties]
    scenario = row.scenario
    if scenario.kind == "produce" and scenario.codec != "none":
        given.append(f"compression={scenario.codec}")
    if scenario.protocol:
        given.append(f"security.protocol={scenario.protocol}")
    return ", ".join(given) or "defaults"


def plain(result: Result) -> dict[str, Any]:
    """A result for JSON."""
    goal = result.goal
    return {
        "scenario": goal.scenario,
        "ours": goal.ours,
        "goal": goal.text,
        "figure": goal.figure,
        "reached": _reached(result, result.reached),
        "worst": _reached(result, result.worst),
        "met": result.met,
    }


def goals_text(results: list[Result]) -> str:
    """The goals as a Markdown table."""
    lines = [
        "| scenario | ours | goal | ours | theirs | reached: median | worst | met |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.goal.scenario} | {r.goal.ours} | {r.goal.text} | "
        f"{_shown(r.goal.figure, r.ours)} | {'' if r.other is None else _shown(r.goal.figure, r.other)} | "
        f"{_reached(r, r.reached)} | {_reached(r, r.worst)} | {'yes' if r.met else '**no**'} |"
        for r in results
    ]
    return "\n".join(lines)


def comparison(rows: list[Row]) -> str:
    """This build against another as a Markdown table; empty where no other was measured.

    Speed is records per second, or one divided by the median latency, or by the time in which one more member joins.
    This build is faster where its ratio is above 1, and takes less processor time where that ratio is below 1.
    """
    other = {(r.scenario.name, r.way.label): r for r in rows if r.way.client == "other"}
    pairs = [
        (r, other[key])
        for r in rows
        if r.way.role == "ours" and r.way.client != "other" and (key := (r.scenario.name, r.way.label)) in other
    ]
    if not pairs:
        return ""
    columns = ["this build / other", "pairs", "speed: median", "worst pair", "of the fastest"]
    columns += ["CPU per record: median", "of the least", "this build", "other"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join(lines + [_compared(*pair) for pair in pairs])


def _compared(ours: Row, other: Row) -> str:
    figure = main_figure(ours.scenario)
    power = 1 if figure == "records per second" else -1
    mine, theirs = ([v**power for v in row.values(figure)] for row in (ours, other))
    speed = [a / b for a, b in zip(mine, theirs, strict=True)]
    used, their_used = ours.values("CPU per record"), other.values("CPU per record")
    cpu = median(a / b for a, b in zip(used, their_used, strict=True))
    shown = " | ".join(_shown(figure, row.median(figure)) for row in (ours, other))
    return (
        f"| {ours.scenario.name}: {ours.way.label} | {len(speed)} | {median(speed):.3f} | {min(speed):.2f} | "
        f"{max(mine) / max(theirs):.3f} | {cpu:.3f} | {min(used) / min(their_used):.3f} | {shown} |"
    )


def _shown(figure: Figure, value: float) -> str:
    if figure == "records per second":
        return f"{value / 1e3:,.0f} k/s"
    if figure == "CPU per record":
        return f"{value * 1e3:,.0f} ns"
    if figure == "memory":
        return f"{value / 1e6:.0f} MB"
    if figure in ("join", "leave"):
        return f"{value * 1e3:.0f} ms"
    if figure in ("wake-ups", "connections"):
        return f"{value:.1f}{'/s' if figure == 'wake-ups' else ''}"
    return f"{value * 1e6:.0f} us"


def _reached(result: Result, value: float) -> str:
    is_ratio = result.other is not None and not result.goal.difference
    return f"{value:.2f}" if is_ratio else _shown(result.goal.figure, value)
