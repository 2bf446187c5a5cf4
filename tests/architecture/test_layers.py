"""Inside the engine, a file imports only what stands on an earlier line of the map, or in its own folder."""

import re
from pathlib import Path

import pytest
from tests.architecture import rust_modules

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "crates" / "engine" / "src"
MAP = ROOT / "crates" / "README.md"

# Each line may name the lines before it. What shares a line, but for the first two, does not know each other.
LAYERS = [
    {"error", "change", "denials", "random", "release"},
    {"config", "credentials", "observe", "metrics", "api", "dispatch", "metadata", "sasl"},
    {"connection", "cluster"},
    {"call", "telemetry"},
    {"part"},
    {"engine", "produce", "fetch", "group"},
    {"share"},
    {"admin", "consumer", "producer", "share_consumer"},
]
VALUES = LAYERS[0] | LAYERS[1]


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def arrows() -> set[tuple[str, str]]:
    """Which file or folder of the engine names which."""

    def place(module: rust_modules.Module) -> str:
        return module.path.relative_to(SOURCES).parts[0].removesuffix(".rs")

    found = rust_modules.arrows(rust_modules.crate(SOURCES / "lib.rs"))
    return {(place(one), place(other)) for one, others in found.items() for other in others} - {("lib", "lib")}


@pytest.mark.parametrize(("one", "other"), sorted(a for a in arrows() if a[0] != a[1] and a[0] != "lib"))
def test_engine_names_only_what_stands_before(one, other):
    assert layer(other) <= layer(one), f"{one} stands below {other}"
    if layer(other) == layer(one):
        assert {one, other} <= VALUES, f"{one} and {other} must not know each other"


def test_the_map_shows_these_layers():
    text = MAP.read_text()
    for names in LAYERS:
        shown = [
            line for line in text.splitlines() if line.startswith("    ") and names <= set(re.findall(r"\w+", line))
        ]
        assert shown, f"crates/README.md has no line with {sorted(names)}"
