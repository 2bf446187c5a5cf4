"""The measurements as text and as a plot: medians, the range over repeats, and ratios to ours."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Row:
    """All repeats of one way of one client at one size.

    Attributes:
        rates: Records per second, one a repeat.
        cpu: Median processor time per record in microseconds, user and system, all threads of the client's process.
        peak: Highest resident memory over the repeats, in bytes.
    """

    kind: str
    size: int
    client: str
    way: str
    rates: list[float]
    cpu: float
    peak: int

    @property
    def name(self) -> str:
        return f"{self.client} {self.way}"

    @property
    def rate(self) -> float:
        return median(self.rates)


def summarise(measurements: list[dict[str, Any]]) -> list[Row]:
    """One row per way, in the order in which they were first measured."""
    groups: dict[tuple[str, int, str, str], list[dict[str, Any]]] = {}
    for m in measurements:
        groups.setdefault((m["kind"], m["size"], m["client"], m["way"]), []).append(m)
    return [
        Row(
            *key,
            rates=[m["records"] / m["seconds"] for m in ms],
            cpu=median(m["cpu_seconds"] / m["records"] * 1e6 for m in ms),
            peak=max(m["peak_bytes"] for m in ms),
        )
        for key, ms in groups.items()
    ]


def _tables(rows: list[Row]) -> list[list[Row]]:
    tables: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        tables.setdefault((row.kind, row.size), []).append(row)
    return [tables[key] for key in sorted(tables)]


def text(about: dict[str, Any], rows: list[Row]) -> str:
    """The figures, and how many times as fast ours are as each of the others."""
    lines = [", ".join(f"{k} {v}" for k, v in about.items())]
    for table in _tables(rows):
        ours = [r for r in table if r.client == "ottla"]
        others = [r for r in table if r.client not in ("ottla", "socket")]
        lines += [
            "",
            f"{table[0].kind}, values of {table[0].size} bytes, {len(table[0].rates)} repeats",
            f"  {'':32}{'rec/s median':>14}{'min':>12}{'max':>12}{'MB/s':>8}{'CPU us/rec':>12}{'peak MB':>9}",
        ]
        lines += [
            f"  {r.name:32}{r.rate:14,.0f}{min(r.rates):12,.0f}{max(r.rates):12,.0f}{r.rate * r.size / 1e6:8.0f}"
            f"{r.cpu:12.2f}{r.peak / 1e6:9.0f}"
            for r in table
        ]
        lines += ["", f"  ours to theirs: median (at worst) {'':6}" + "".join(f"{r.way:>19}" for r in ours)]
        lines += [
            f"  {other.name:40}"
            + "".join(
                f"{our.rate / other.rate:10.2f} ({min(our.rates) / max(other.rates):5.2f})".rjust(19) for our in ours
            )
            for other in others
        ]
    return "\n".join(lines)


def plot(about: dict[str, Any], rows: list[Row], path: Path) -> None:
    """A bar per way, with the range over the repeats; one panel per kind and size."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    tables = _tables(rows)
    kinds, sizes = sorted({r.kind for r in rows}), sorted({r.size for r in rows})
    figure, axes = plt.subplots(
        len(kinds), len(sizes), figsize=(7 * len(sizes), 4.6 * len(kinds)), squeeze=False, layout="constrained"
    )
    colours = {"ottla": "#c8553d", "socket": "#999999"}
    for axis, table in zip(axes.flat, tables, strict=True):
        shown = table[::-1]
        rates = [r.rate for r in shown]
        spread = [[r.rate - min(r.rates) for r in shown], [max(r.rates) - r.rate for r in shown]]
        names = [r.name for r in shown]
        axis.barh(names, rates, xerr=spread, color=[colours.get(r.client, "#588b8b") for r in shown], ecolor="#333333")
        for i, r in enumerate(shown):
            axis.annotate(f" {r.rate / 1000:,.0f}k", (max(r.rates), i), va="center", fontsize=8)
        axis.set_title(f"{table[0].kind}, {table[0].size}-byte values")
        axis.set_xlabel("records per second")
        axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M")
        axis.margins(x=0.12)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{about['broker']}, {about['cores']} cores, Python {about['python']}; bars: median, lines: range")
    figure.savefig(path, dpi=130)
