"""Who may depend on whom: the arrows of crates/README.md, between crates and between Python modules."""

import ast
import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Build dependencies count: protocol is made by codegen.
ARROWS = {
    "ottla-codegen": set(),
    "ottla-records": set(),
    "ottla-protocol": {"ottla-codegen", "ottla-records"},
    "ottla-columnar": {"ottla-protocol"},
    # Bytes to columns: it knows nothing of Kafka.
    "ottla-typed": set(),
    "ottla-engine": {"ottla-protocol"},
    "ottla-client": {"ottla-engine", "ottla-protocol"},
    "ottla-broker": {"ottla-protocol"},
    # Nobody depends on it.
    "ottla-sim": {"ottla-engine", "ottla-broker", "ottla-protocol"},
    "ottla-python": {
        "ottla-client",
        "ottla-broker",
        "ottla-columnar",
        "ottla-engine",
        "ottla-protocol",
        "ottla-typed",
    },
    # The entry point of the extension module, and nothing else.
    "ottla-module": {"ottla-python"},
}
# Without clock, socket, thread or runtime.
PURE = {
    "ottla-codegen",
    "ottla-records",
    "ottla-protocol",
    "ottla-columnar",
    "ottla-typed",
    "ottla-engine",
    "ottla-sim",
}


@pytest.fixture(scope="module")
def packages():
    """The workspace's crates by name, with what each ships with (development dependencies left out)."""
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            timeout=60,
        ).stdout
    )
    return {
        package["name"]: {d["name"] for d in package["dependencies"] if d["kind"] != "dev"}
        for package in metadata["packages"]
    }


@pytest.mark.parametrize("crate", sorted(ARROWS))
def test_crate_depends_only_along_the_arrows(packages, crate):
    ours = {name for name in packages[crate] if name.startswith("ottla-")}
    assert ours <= ARROWS[crate]


def test_every_crate_has_its_arrows(packages):
    assert packages.keys() - {"ottla-benches", "ottla-fuzz"} == set(ARROWS)


@pytest.mark.parametrize("crate", sorted(PURE))
def test_pure_crate_has_no_runtime(packages, crate):
    assert not packages[crate] & {"tokio", "socket2", "libc", "pyo3", "mio"}


@pytest.mark.parametrize("crate", sorted(set(ARROWS) - {"ottla-python", "ottla-module"}))
def test_only_the_crates_for_python_name_pyo3(packages, crate):
    assert "pyo3" not in packages[crate]


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    """The modules that a file names in imports; with `top_level`, only those that importing the file loads."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def sources(package: str) -> list[Path]:
    return sorted((ROOT / "python" / package).rglob("*.py"))


# The command that starts a job of Spark's; help and checks of files do without Spark all the same.
SPARKS_COMMAND = "ottla/cli/ingest.py"


@pytest.mark.parametrize(
    "path",
    [p for p in sources("ottla") if "spark" not in p.relative_to(ROOT / "python").parts],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_only_the_spark_package_knows_spark(path):
    named = imports(path)
    foreign = {m for m in named if m == "pyspark" or m.startswith(("pyspark.", "ottla.spark", "pyspark_ottla"))}
    if path == ROOT / "python" / SPARKS_COMMAND:
        assert not {m for m in imports(path, top_level=True) if m.startswith("ottla.spark")}
        foreign = {m for m in foreign if not m.startswith("ottla.spark")}
    assert not foreign
    # A module of ottla.integrations is imported by its user, who has the library.
    if "integrations" not in path.parts:
        assert not {m for m in imports(path, top_level=True) if m.split(".")[0] in {"pyarrow", "pandas", "numpy"}}


@pytest.mark.parametrize(
    "path",
    [*sources("ottla/spark"), *sources("pyspark_ottla"), *sources("pyspark_ottla_log")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_spark_package_is_a_client_like_any_other(path):
    named = imports(path)
    assert not {m for m in named if m.startswith("ottla._ottla")}


# The rooms of ottla.spark, and which others each may import.
ROOMS = {
    "shared": set(),
    "plan": {"shared"},
    "write": {"shared"},
    "read": {"plan", "shared"},
    "ingest": {"plan", "read", "shared"},
    "log": {"plan", "read", "shared", "source"},
}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_of_the_spark_package_have_their_arrows(room):
    for path in sources(f"ottla/spark/{room}"):
        others = {m.split(".")[2] for m in imports(path) if m.startswith("ottla.spark.")} & {*ROOMS, "source"}
        assert others - {room} <= ROOMS[room], path
