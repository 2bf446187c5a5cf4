"""Ports on the loopback that nobody listens on."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"


def listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex((HOST, port)) == 0


@contextlib.contextmanager
def free_ports() -> Iterator[int]:
    """The first of 100 ports that nobody listens on, as the harness takes them; kept from other runs meanwhile."""
    locks = Path(tempfile.gettempdir()) / "ottla-test-ports"
    locks.mkdir(exist_ok=True)
    for base in range(23000, 30000, 100):
        with (locks / str(base)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if any(listens(base + i) for i in range(100)):
                continue
            yield base
            return
    raise SystemExit("no 100 free ports between 23000 and 30000")
