"""The client's shell takes sockets, the clock and chance from one place, so that another transport is added there only."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "crates" / "client" / "src"

OUTSIDE = re.compile(
    r"tokio::net\b|std::net\b|\b(?:TcpStream|TcpSocket|TcpListener|UnixStream|OwnedReadHalf|OwnedWriteHalf|ToSocketAddrs)\b"
    r"|\bInstant::now\b|\.elapsed\(\)|\bSystemTime\b|tokio::time\b|thread::sleep\b"
)


def shipped(text: str) -> str:
    """A source without its tests, which stand at its end, and without comments."""
    return re.sub(r"//.*", "", text.split("#[cfg(test)]", maxsplit=1)[0])


def is_transport(path: Path) -> bool:
    return path.relative_to(SOURCES).parts[:2] in {("net", "transport.rs"), ("net", "transport")}


OTHERS = [p for p in sorted(SOURCES.rglob("*.rs")) if not is_transport(p) and p.name != "tests.rs"]


@pytest.mark.parametrize("path", OTHERS, ids=lambda p: str(p.relative_to(SOURCES)))
def test_sockets_and_clock_come_from_transport(path):
    assert OUTSIDE.findall(shipped(path.read_text())) == []


def test_transport_is_where_they_are():
    found = {name for path in SOURCES.rglob("*.rs") if is_transport(path) for name in OUTSIDE.findall(path.read_text())}
    assert {"tokio::net", "Instant::now", "SystemTime", "tokio::time", "TcpStream"} <= found
