"""franz-go: the program of the folder franz/, built once, spoken to in JSON lines."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import threading
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.messages import Message
from tests.integration.peers.base import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = Path(__file__).resolve().parent.parent / "franz"


def build(to: Path) -> Path:
    """Build the program into the folder `to`; Go's own cache makes the second time quick."""
    program = to / "franz"
    done = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=SOURCE, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise AssertionError(f"go build in {SOURCE}: {done.stderr}")
    return program


def available() -> bool:
    return shutil.which("go") is not None


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _message(line: dict[str, Any]) -> Message:
    return Message(
        _decoded(line["key"]),
        _decoded(line["value"]),
        tuple((h["key"], _decoded(h["value"])) for h in line["headers"]),
        line["timestamp"],
        line["partition"],
        line["offset"],
    )


class Franz:
    """See `Peer`."""

    name = "franz-go"

    def __init__(self, program: Path) -> None:
        self.program = program

    def _run(self, *args: str, data: str = "") -> str:
        done = subprocess.run(
            [self.program, *args], input=data, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        if done.returncode:
            raise AssertionError(f"franz {args[0]}: {done.stderr}")
        return done.stdout

    def as_written(self, message: Message) -> Message | None:
        return message

    def produce(self, bootstrap: str, topic: str, codec: str, messages: Sequence[Message]) -> None:
        lines = [
            json.dumps(
                {
                    "partition": m.partition,
                    "timestamp": m.timestamp,
                    "key": _encoded(m.key),
                    "value": _encoded(m.value),
                    "headers": [{"key": k, "value": _encoded(v)} for k, v in m.headers],
                }
            )
            for m in messages
        ]
        self._run("produce", bootstrap, topic, codec, data="\n".join(lines))

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Message]:
        out = self._run("consume", bootstrap, topic, str(count))
        return [_message(json.loads(line)) for line in out.splitlines()]

    def transact(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        """Commit and abort by turns, four transactions in all."""
        assert self._run("transact", bootstrap, topic, transactional_id).strip() == "done"

    def member(self, bootstrap: str, topic: str, group: str, balancer: str = "") -> FranzMember:
        """`balancer` is range, cooperative-sticky or consumer, which is KIP-848; franz-go's own choice without it."""
        return FranzMember(self.program, bootstrap, topic, group, balancer)


class FranzMember:
    """See `Member`; a process, which leaves when its input ends."""

    def __init__(self, program: Path, bootstrap: str, topic: str, group: str, balancer: str) -> None:
        self.process = subprocess.Popen(
            [program, "member", bootstrap, topic, group],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"FRANZ_BALANCER": balancer},
        )
        self.owned: set[int] = set()
        self.lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def poll(self) -> list[Message]:
        time.sleep(0.1)
        out = []
        while not self.lines.empty():
            line = self.lines.get()
            if "assigned" in line:
                self.owned = set(line["assigned"])
            else:
                out.append(_message(line))
        return out

    def assignment(self) -> set[int]:
        return self.owned

    def close(self) -> list[Message]:
        assert self.process.stdin
        assert self.process.stderr
        try:
            self.process.stdin.close()
            self.process.wait(DEADLINE)
            self.reader.join(DEADLINE)
            assert self.process.returncode == 0, f"franz member: {self.process.stderr.read()}"
        finally:
            self.process.kill()
            self.process.wait(DEADLINE)
        return self.poll()
