"""The measurements as plots: a bar for each way, and lines for how cost grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "ottla"}  # small files, the same for the same figures
import matplotlib.pyplot as plt  # noqa: E402
from report import main_figure  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from report import Row
    from scenarios import Figure

COLOURS = {"ours": "#c8553d", "peer": "#588b8b", "limit": "#999999"}
GROUPS = {
    "consume": "consuming, 100-byte and 1-KB values",
    "compressed": "consuming what is compressed",
    "produce": "producing",
    "latency": "latency of one record at a time, acks=1",
    "rebalance": "a rebalance of 10 members on 200 partitions",
    "spark": "Spark, local[2]: reads, micro-batches of a stream, and writes",
    "idle": "50 idle clients in one process",
}
# By the figure of a bar: its scale, its axis, and what a mark shows beside it.
BARS: dict[Figure, tuple[float, str, Figure | None]] = {
    "records per second": (1e-6, "million records/s", None),
    "p50": (1e6, "microseconds: median, and p99 as a mark", "p99"),
    "join": (1e3, "milliseconds: as one more joins, and as it leaves as a mark", "leave"),
    "wake-ups": (1, "wake-ups a second of each client", None),
}


def save(about: dict[str, Any], rows: list[Row], folder: Path) -> list[Path]:
    """One file a group of scenarios, and one for how cost grows."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        scenario = row.scenario
        compressed = scenario.codec != "none"
        group = "compressed" if compressed else "spark" if scenario.spark else scenario.kind
        group = "scaling" if scenario.point else group
        kinds.setdefault(group, []).append(row)
    caption = f"{about['broker']}, {about['cores']} cores shared with the broker, Python {about['python']}"
    out = []
    for group, its in kinds.items():
        path = folder / f"{group}.svg"
        figure = _scaling(its) if group == "scaling" else _bars(its)
        figure.suptitle(f"{GROUPS.get(group, 'how cost grows')}\n{caption}", fontsize=11)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        out.append(path)
    return out


def _bars(rows: list[Row]) -> Any:
    """Medians, with the range over the repeats."""
    scenarios = list(dict.fromkeys(r.scenario for r in rows))
    across = min(2, len(scenarios))
    down = -(-len(scenarios) // across)
    figure, axes = plt.subplots(down, across, figsize=(6.5 * across, 3.4 * down), squeeze=False, layout="constrained")
    for axis in axes.flat[len(scenarios) :]:
        axis.set_visible(False)
    for axis, scenario in zip(axes.flat, scenarios, strict=False):
        shown = [r for r in rows if r.scenario == scenario][::-1]
        _bar(axis, shown, main_figure(scenario))
        axis.set_title(scenario.name, fontsize=10)
    return figure


def _bar(axis: Any, shown: list[Row], figure: Figure) -> None:
    scale, unit, mark = BARS[figure]
    middle = [r.median(figure) * scale for r in shown]
    spread = [
        [m - min(r.values(figure)) * scale for m, r in zip(middle, shown, strict=True)],
        [max(r.values(figure)) * scale - m for m, r in zip(middle, shown, strict=True)],
    ]
    places = range(len(shown))
    axis.barh(places, middle, xerr=spread, color=[COLOURS[r.way.role] for r in shown], ecolor="#333333")
    axis.set_yticks(places, [r.way.name for r in shown], fontsize=8)
    if mark:
        axis.plot([r.median(mark) * scale for r in shown], places, "|", color="#333333", markersize=10)
    for i, r in enumerate(shown):
        axis.annotate(f" {middle[i]:.3g}", (max(r.values(figure)) * scale, i), va="center", fontsize=8)
    axis.set_xlabel(unit, fontsize=8)
    axis.margins(x=0.15)
    axis.spines[["top", "right"]].set_visible(False)


def _scaling(rows: list[Row]) -> Any:
    """A column for each thing that is changed: rates of consuming and of producing, and processor time below each."""
    axes_names = list(dict.fromkeys(r.scenario.point.axis for r in rows if r.scenario.point))
    kinds = list(dict.fromkeys(r.scenario.point.kind for r in rows if r.scenario.point))
    panels: list[tuple[str, Figure, str]] = [
        (kind, figure, unit)
        for kind in kinds
        for figure, unit in (("records per second", "values, MB/s"), ("CPU per record", "CPU, us per record"))
    ]
    figure, axes = plt.subplots(
        len(panels),
        len(axes_names),
        figsize=(3.4 * len(axes_names), 2.6 * len(panels)),
        squeeze=False,
        layout="constrained",
    )
    for line, (kind, what, unit) in zip(axes, panels, strict=True):
        for axis, changed in zip(line, axes_names, strict=True):
            its = [
                r
                for r in rows
                if r.scenario.point and (r.scenario.point.kind, r.scenario.point.axis) == (kind, changed)
            ]
            _lines(axis, its, what)
            axis.set_xlabel(changed, fontsize=8)
            if axis is line[0]:
                axis.set_ylabel(f"{kind}: {unit}", fontsize=8)
    axes[0][0].legend(fontsize=7)
    return figure


def _lines(axis: Any, rows: list[Row], figure: Figure) -> None:
    # A way is the same along the axis, also where a setting of it is what changes.
    for client in dict.fromkeys(r.way.client for r in rows):
        its = [r for r in rows if r.way.client == client]
        at = [r.scenario.point.x for r in its if r.scenario.point]
        heights = [r.median(figure) * (r.scenario.size / 1e6 if figure == "records per second" else 1) for r in its]
        axis.plot(at, heights, "o-", markersize=3, color=COLOURS[its[0].way.role], label=client)
        if not isinstance(at[0], str):
            axis.set_xscale("log")
    axis.set_yscale("log")
    axis.tick_params(labelsize=7)
    axis.grid(visible=True, alpha=0.3)
