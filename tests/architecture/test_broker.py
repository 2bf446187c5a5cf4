"""The embedded broker decides without sockets, tasks, clocks and chance: those are its shell's, in the few files named here."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "crates" / "broker" / "src"
SHELL = {"server.rs", "connection.rs", "handshake.rs", "clock.rs"}
OUTSIDE = re.compile(
    r"\btokio(?:_rustls)?\b|\bTcp\w+|\bstd::net::(?!IpAddr|Ipv4Addr|Ipv6Addr|\{)|\bSocketAddr\b|\bInstant::now\b|\.elapsed\(\)"
    r"|\bSystemTime\b|\bthread\b|SystemRandom|\basync\b|\.await\b"
)
STORAGE = re.compile(r"std::fs\b|\bfs::|\bFile\b")


def sources():
    for path in sorted(SOURCES.rglob("*.rs")):
        name = str(path.relative_to(SOURCES))
        if name not in SHELL and "tests" not in path.parts and path.name != "tests.rs":
            text = path.read_text().split("#[cfg(test)]\nmod tests {", maxsplit=1)[0]
            yield pytest.param(name, re.sub(r"//.*", "", text), id=name)


@pytest.mark.parametrize(("name", "code"), list(sources()))
def test_the_core_is_pure(name, code):
    assert OUTSIDE.findall(code) == []
    if not name.startswith("storage/"):
        assert STORAGE.findall(code) == []


def test_the_shell_is_small_and_there():
    """Each file of the shell has a reason to be in it, so that the list above cannot hide a core."""
    for name in SHELL:
        assert OUTSIDE.search((SOURCES / name).read_text()), name
