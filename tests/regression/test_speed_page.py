"""The command that writes the page of speed replaces the tables that it has figures of, and nothing else."""

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "benches" / "python" / "page.py"
PAGE = "Prose.\n<!-- figures: shape-a-consume -->\nold\n<!-- end -->\nMore.\n<!-- figures: shape-b -->\nkept\n<!-- end -->\n"
ABOUT = {
    "started": "2026-12-01T02:00:00Z",
    "commit": "abc1234",
    "cpu": "A CPU",
    "cores": 2,
    "load": 1.0,
    "load at the end": 2.0,
    "broker": "Apache Kafka 4.4.0",
    "confluent-kafka": "2.16.1",
    "python": "3.11",
    "command": "run.py",
}


def measured(cpu, **more):
    return {"records": 1_000, "seconds": 0.5, "cpu_seconds": cpu, "peak_bytes": 2_000_000, **more}


def row(way, *repeats, settings="defaults"):
    about = {"scenario": "shape-a-consume", "way": way, "role": "", "size": 100, "kind": "consume"}
    return about | {"settings": settings, "repeats": list(repeats)}


FLOOR = {"bytes per record": 100.0, "floor: copy": 0.2, "floor: checksum": 0.05}
RUN = {
    "environment": ABOUT,
    "measurements": [
        row("ottla columns", measured(0.0001), measured(0.0003)),
        row("peer consume", measured(0.001), measured(0.0015), settings="linger.ms=20"),
        row("floor", measured(0.000025, **FLOOR), measured(0.000025, **FLOOR)),
    ],
    "goals": [
        {"scenario": "shape-a-consume", "ours": "columns", "goal": "2 x", "reached": "7", "worst": "5", "met": True}
    ],
}


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("speed_page", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_with_figures_are_replaced(page):
    text = page.filled(PAGE, [RUN])
    head, rest = text.split("**shape-a-consume**\n\n")
    assert head == "Prose.\n<!-- figures: shape-a-consume -->\n"
    assert rest.startswith("2026-12-01, commit `abc1234`. A CPU, 2 cores")
    assert "\nold\n" not in text
    assert "<!-- figures: shape-b -->\nkept\n<!-- end -->" in text
    assert "| ottla columns | defaults | 200 | 100 | 1.00 | 2 k | 1.00 | 2 |" in text
    # The ratio is the median of those of each repeat, 10 and 5, not the ratio of the medians.
    assert "| peer consume | linger.ms=20 | 1,250 | 1,000 | 7.50 | 2 k | 1.00 | 2 |" in text
    assert "| floor | 100.0 B x (copy 0.200 + checksum 0.050) ns a byte | 25 | 25 | 0.17 | | | |" in text
    assert "| columns | 2 x | 7 | 5 | yes |" in text


def test_a_second_run_of_the_command_changes_nothing(page):
    text = page.filled(PAGE, [RUN])
    assert page.filled(text, [RUN]) == text
