"""Which ring a test belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

# What a test of real brokers, foreign clients and Spark starts. Its pace is not ours, so such a test is not part of the gate.
REAL_TOOLS = {"java", "javac", "mvn", "go", "cargo"}

RINGS = ("gate", "real", "nightly", "install")

# Tests collected by a whole run of the ring. A marker or a change of collection that hides more than 1 % of them is an error.
COLLECTED = {"gate": 7590, "real": 922}
MOST_HIDDEN = 0.01


def ring(item: pytest.Item) -> str:
    """The ring of a test: `nightly` by its mark, `install` by its folder, `real` by what it starts, otherwise `gate`."""
    if item.get_closest_marker("nightly"):
        return "nightly"
    if item.path.parent.name == "install":
        return "install"
    return "real" if is_real(item) else "gate"


def is_real(item: pytest.Item) -> bool:
    """Whether a test starts a JVM, Go or cargo, or uses Spark."""
    tools = {tool for mark in item.iter_markers("needs") for tool in mark.args}
    marked = item.get_closest_marker("real") is not None
    return marked or bool(tools & REAL_TOOLS) or "spark" in getattr(item, "fixturenames", ())


def hidden(ring: str, collected: int) -> str | None:
    """Why a whole run that collected this many tests of the ring is an error, if it is one."""
    stored = COLLECTED.get(ring, 0)
    if collected >= stored * (1 - MOST_HIDDEN):
        return None
    return (
        f"{collected} tests of the ring {ring!r} were collected, {stored} are stored: some are hidden by a marker or not found. "
        "If they were removed on purpose, lower COLLECTED in tests/rings/selection.py."
    )
