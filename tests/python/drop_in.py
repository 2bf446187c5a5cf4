"""Programs that run on `ottla.compat` in a process of their own, since `install` replaces modules, and a broker for them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

# Seconds until a program has ended: it waits up to 30 for each thing.
PATIENCE = 120


def one_topic() -> Iterator[str]:
    """A fixture: the address of a broker with the topic `t`, which has one partition."""
    with Broker(topics={"t": 1}) as broker:
        yield broker.bootstrap_servers


def printed(begin: str, program: str, *arguments: object) -> list[str]:
    """The lines that a program printed.

    Args:
        begin: What the programs of a file begin with.
        program: The rest of the program.
        arguments: Its arguments.
    """
    command = [sys.executable, "-c", begin + program, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()
