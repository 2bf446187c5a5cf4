#!/usr/bin/env python3
"""Put the figures of the last runs into docs/results/speed.md.

    .venv/bin/python benches/python/page.py [FOLDER]

The folder (benches/out without it) holds the JSON files of `run.py`. The page is its own template: its prose stays, and
what is between `<!-- figures: SCENARIO -->` and `<!-- end -->` becomes the table of that scenario. Tables of which the
folder has no figures stay as they are.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "results" / "speed.md"
PLACE = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
Run = dict[str, Any]
"""The JSON of a run."""


def filled(page: str, runs: list[Run]) -> str:
    """The page with the figures of these runs, of which the last one that has a scenario counts."""

    def table(place: re.Match[str]) -> str:
        scenario = place[2]
        having = [run for run in runs if any(row["scenario"] == scenario for row in run["measurements"])]
        return f"{place[1]}{_table_of(having[-1], scenario)}{place[3]}" if having else place[0]

    return PLACE.sub(table, page)


def _source(about: dict[str, Any], repeats: int) -> str:
    date = about["started"].split("T")[0]
    load = f"load average {about['load']:.1f} at the start and {about['load at the end']:.1f} at the end"
    machine = f"{about['cpu']}, {about['cores']} cores, {load}"
    clients = f"confluent-kafka {about['confluent-kafka']}, Python {about['python']}"
    return (
        f"{date}, commit `{about['commit']}`. {machine}. {about['broker']}, {clients}.\n"
        f"`{about['command']}`, {repeats} repeats."
    )


def _table_of(run: Run, scenario: str) -> str:
    rows = [row for row in run["measurements"] if row["scenario"] == scenario and row["repeats"]]
    source = _source(run["environment"], max(len(row["repeats"]) for row in rows))
    lines = {"idle": _idle, "latency": _latencies}.get(rows[0]["kind"], _rates)(rows)
    goals = [goal for goal in run.get("goals", ()) if goal["scenario"] == scenario]
    return f"**{scenario}**\n\n{source}\n\n" + "\n".join(lines + _goals(goals)) + "\n"


def _rates(rows: list[Run]) -> list[str]:
    """Processor time first; `x first row` is the median of the ratios to the first row, each of the same repeat."""
    lines = [
        "| way | settings | CPU, ns a record | least | x first row | records/s | x first row | memory, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cpu, rate = _processor_times(row), _record_rates(row)
        if "bytes per record" in row["repeats"][0]:
            lines.append(
                f"| {row['way']} | {_arithmetic(row)} | {median(cpu):,.0f} | {min(cpu):,.0f} | "
                f"{_ratio(cpu, _processor_times(rows[0]))} | | | |"
            )
            continue
        peak = max((m.get("peak_bytes") or 0) for m in row["repeats"])
        lines.append(
            f"| {row['way']} | {row['settings']} | {median(cpu):,.0f} | {min(cpu):,.0f} | "
            f"{_ratio(cpu, _processor_times(rows[0]))} | {median(rate) / 1e3:,.0f} k | "
            f"{_ratio(rate, _record_rates(rows[0]))} | {f'{peak / 1e6:,.0f}' if peak else ''} |"
        )
    return lines


def _arithmetic(row: Run) -> str:
    """The floor's bytes and what each takes."""
    size = median(m["bytes per record"] for m in row["repeats"])
    names = [name for name in row["repeats"][0] if name.startswith("floor: ")]
    terms = (f"{name.removeprefix('floor: ')} {median(m[name] for m in row['repeats']):.3f}" for name in names)
    return f"{size:,.1f} B x ({' + '.join(terms)}) ns a byte"


def _processor_times(row: Run) -> list[float]:
    return [m["cpu_seconds"] / m["records"] * 1e9 for m in row["repeats"]]


def _record_rates(row: Run) -> list[float]:
    return [m["records"] / m["seconds"] for m in row["repeats"]]


def _ratio(figures: list[float], first: list[float]) -> str:
    return f"{median(a / b for a, b in zip(figures, first, strict=True)):.2f}"


def _idle(rows: list[Run]) -> list[str]:
    lines = [
        "| each client | settings | wake-ups a second | CPU, us a second | memory, KB | connections | threads of all |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:

        def middle(figure: str, row: Run = row) -> float:
            return float(median(m[figure] for m in row["repeats"]))

        cpu = median(m["cpu_seconds"] / m["records"] for m in row["repeats"]) * 1e6
        lines.append(
            f"| {row['way']} | {row['settings']} | {middle('wakeups'):.1f} | {cpu:,.0f} | "
            f"{middle('peak_bytes') / 1e3:,.0f} | {middle('connections'):.1f} | {middle('threads'):.0f} |"
        )
    return lines


def _latencies(rows: list[Run]) -> list[str]:
    lines = ["| way | settings | CPU, ms | p50, ms | x first row | worst repeat |", "|---|---|---|---|---|---|"]
    for row in rows:
        p50 = [m["p50"] for m in row["repeats"]]
        cpu = median(_processor_times(row)) / 1e6
        ratio = _ratio(p50, [m["p50"] for m in rows[0]["repeats"]])
        middle, worst = median(p50) * 1e3, max(p50) * 1e3
        lines.append(f"| {row['way']} | {row['settings']} | {cpu:.3g} | {middle:.3g} | {ratio} | {worst:.3g} |")
    return lines


def _goals(goals: list[dict[str, Any]]) -> list[str]:
    if not goals:
        return []
    lines = ["", "| ours | goal | reached: median | worst | met |", "|---|---|---|---|---|"]
    return lines + [
        f"| {g['ours']} | {g['goal']} | {g['reached']} | {g['worst']} | {'yes' if g['met'] else '**no**'} |"
        for g in goals
    ]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "benches" / "out"
    names = ("clients.json", "tls.json", "shapes.json")
    runs = [json.loads((folder / name).read_text()) for name in names if (folder / name).exists()]
    if not runs:
        raise SystemExit(f"{folder} holds none of {', '.join(names)}: run `make bench` first")
    PAGE.write_text(filled(PAGE.read_text(), runs))
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
