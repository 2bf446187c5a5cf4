"""Tab in bash, zsh and fish, in a terminal of their own, completes commands, options and names of the cluster."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path

import pytest

import ottla
from ottla.testing import Broker
from tests.pace import patience
from tests.waiting import NotInTimeError

PATIENCE = patience(30)
QUIET = patience(1.0)
SEQUENCES = re.compile(rb"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
STARTS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "--interactive"],
}
# As the help of `ottla completion` says, but for the user's files.
LOADS = {
    "bash": "source <(ottla completion bash)",
    "zsh": "autoload -U compinit; compinit -u -D; source <(ottla completion zsh)",
    "fish": "ottla completion fish | source",
}


class Terminal:
    """A shell in a terminal."""

    def __init__(self, shell: str, environment: dict[str, str]) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.execvpe(STARTS[shell][0], STARTS[shell], environment)

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def read_until(self, wanted: str) -> str:
        """What the terminal shows until a text is there."""
        until, raw = time.monotonic() + PATIENCE, b""
        while time.monotonic() < until:
            if select.select([self._end], [], [], QUIET)[0]:
                with contextlib.suppress(OSError):
                    raw += os.read(self._end, 65536)
                # Fish asks the terminal what it is, and waits for the answer to this one.
                if raw.endswith((b"\x1b[c", b"\x1b[0c")):
                    os.write(self._end, b"\x1b[?62c")
            text = SEQUENCES.sub(b"", raw).decode(errors="replace")
            if wanted in text:
                return text
        raise NotInTimeError(f"the terminal does not show {wanted!r}: {text!r}")

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._end)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.parametrize("shell", [pytest.param(name, marks=pytest.mark.needs(name)) for name in STARTS])
def test_tab_completes(shell: str, tmp_path: Path) -> None:
    with Broker(topics={"departures": 1, "arrivals": 1}) as broker:
        with ottla.Admin(broker.bootstrap_servers) as admin:
            admin.alter_group_offsets("billing", {("arrivals", 0): 0})
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
            "OTTLA_BOOTSTRAP": broker.bootstrap_servers,
            "XDG_CONFIG_HOME": str(tmp_path),
        }
        terminal = Terminal(shell, environment)
        try:
            terminal.type(f"{LOADS[shell]}\recho re''ady\r")
            terminal.read_until("ready\r\n")
            for typed, shown in (
                ("ottla topics descr\t", "describe"),
                ("dep\t", "departures"),
                ("\x15ottla groups lag bil\t", "billing"),
                ("--summ\t", "--summary"),
                ("\x15ottla configs get topic/arr\t", "topic/arrivals"),
                ("\x15ottla topics list --format=na\t", "--format=names"),
                ("\x15ottla consume --config sasl.user\t", "sasl.username="),
                ("\x15ottla partitions elect arr\t", "arrivals"),
            ):
                terminal.type(typed)
                terminal.read_until(shown)
        finally:
            terminal.close()
