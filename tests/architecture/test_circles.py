"""No file needs another that needs it in turn: what is to be understood first always exists."""

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.architecture import rust_modules

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "python"

# What is recursive by nature: the files of a circle, as this test names them, and why they need each other.
RECURSIVE: dict[frozenset[str], str] = {}


def circles(arrows: dict[str, dict[str, set[str]]]) -> list[frozenset[str]]:
    """The largest groups of files in which each needs every other, directly or by way of others."""

    def reached(start: str) -> set[str]:
        found, ahead = set(), [start]
        while ahead:
            ahead += (new := arrows[ahead.pop()].keys() - found)
            found |= new
        return found

    reach = {name: reached(name) for name in arrows}
    return list(
        dict.fromkeys(frozenset(n for n in reach[name] if name in reach[n]) for name in arrows if name in reach[name])
    )


def drawn(arrows: dict[str, dict[str, set[str]]]) -> str:
    """The circles that are not recursive by nature, each arrow with the names that make it."""
    return "\n\n".join(
        "\n".join(
            f"{one} -> {other}: {', '.join(sorted(names))}"
            for one in sorted(circle)
            for other, names in sorted(arrows[one].items())
            if other in circle
        )
        for circle in circles(arrows)
        if circle not in RECURSIVE
    )


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def rust_arrows(library: Path) -> dict[str, dict[str, set[str]]]:
    found = rust_modules.arrows(rust_modules.crate(library))
    return {named(m.path): {named(n.path): names for n, names in others.items()} for m, others in found.items()}


LIBRARIES = sorted(ROOT.glob("crates/*/src/lib.rs"))


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda p: p.parts[-3])
def test_no_circle_of_files_in_a_crate(library):
    found = drawn(rust_arrows(library))
    assert not found, found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_file(name: str) -> Path | None:
    """The source of a module of ours; the stub of a compiled one."""
    path = PYTHON.joinpath(*name.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py", path.with_suffix(".pyi"))
    return next((f for f in files if f.exists()), None)


def imported(path: Path) -> set[tuple[str, str]]:
    """Module and name of everything that a file imports, anywhere in it; the name is empty for a module as a whole."""
    package = ".".join(path.relative_to(PYTHON).parts[:-1])
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {(module, alias.name) for alias in node.names}
    return found


def home(module: str, name: str) -> Path | None:
    """The file that defines a name, whatever package hands it on."""
    if name and (inner := module_file(f"{module}.{name}")):
        return inner
    path = module_file(module)
    if path and path.name == "__init__.py":
        for source, brought in imported(path):
            if name and brought == name and source != module:
                return home(source, name)
    return path


def python_arrows() -> dict[str, dict[str, set[str]]]:
    arrows: dict[str, dict[str, set[str]]] = {}
    for path in sorted(PYTHON.rglob("*.py")):
        others = arrows.setdefault(named(path), {})
        for module, name in imported(path):
            target = home(module, name)
            if target and target != path and target.suffix == ".py":
                others.setdefault(named(target), set()).add(name or module)
    return arrows


def test_no_circle_of_modules_in_python():
    found = drawn(python_arrows())
    assert not found, found


def test_recursion_by_nature_is_there():
    everything = [python_arrows(), *map(rust_arrows, LIBRARIES)]
    assert RECURSIVE.keys() <= {circle for arrows in everything for circle in circles(arrows)}


def test_a_circle_is_found(tmp_path):
    """An arrow up, drawn by a path through a re-export; tests and what is only handed on draw none."""
    files = {
        "lib.rs": "mod parent; mod other;",
        "parent/mod.rs": "mod child; mod apart; pub use apart::Apart; use child::Child; pub struct Parent(Child); pub struct Plain;",
        "parent/child.rs": "pub struct Child; impl Child { fn up(&self) -> crate::other::Parent { todo() } }",
        "parent/apart.rs": "use super::Plain; pub struct Apart(Plain);\n#[cfg(test)]\nmod tests { use crate::parent::Parent; }",
        "other.rs": "pub use crate::parent::{Parent};",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found = rust_modules.arrows(rust_modules.crate(tmp_path / "lib.rs"))
    plain = {
        str(m.path.relative_to(tmp_path)): {str(n.path.relative_to(tmp_path)): names for n, names in others.items()}
        for m, others in found.items()
    }
    assert plain["parent/mod.rs"] == {"parent/child.rs": {"Child"}}
    assert plain["parent/child.rs"] == {"parent/mod.rs": {"Parent"}}
    assert circles(plain) == [frozenset({"parent/mod.rs", "parent/child.rs"})]
