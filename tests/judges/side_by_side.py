"""Runs confluent-kafka's examples, unchanged, on confluent-kafka itself and on ottla: each has to print the same.

Each side has an embedded broker and registry of its own. What an example asks for is typed, and Ctrl-C ends it, as its text says.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, TYPE_CHECKING, Final

from ottla.testing import Broker, Registry, bearer_token
from tests.judges.examples import EXAMPLES, NOT_RUN, TOPICS, Example
from tests.judges.suite import HERE, Verdict, allowlist, interpreter, problems
from tests.judges.suites import CONFLUENT
from tests.judges.trees import ROOT, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME: Final = "confluent-examples"
REPOSITORY: Final = "confluent-kafka-python"
# Seconds until an example printed what it waits for, and until it ended then.
PATIENCE, TO_END = 60.0, 20.0
_SIDES: Final = {"theirs": (), "ours": ("-m", "ottla.compat")}
# What differs between two runs on the same client.
_DIFFERENT: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"(?<=port=)\d+|(?<=:)\d{5}\b"), "PORT"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ "), ""),
    (re.compile(r"(?<=Topic id               : ).*|(?<=Cluster_id           : ).*|(?<=^Cluster )\S+"), "ID"),
    (re.compile(r"(?<=Timestamp : )\d{13}"), "TIMESTAMP"),
    (re.compile(r"\baio_\d+"), "AIO"),
    # The first metadata may come from a broker that the client knows by its address only.
    (re.compile(r"(?<=response from broker ADDRESS/)\w+"), "BROKER"),
    # Records, and what of their delivery waits for a poll.
    (re.compile(r"(?<=^Flushing )\d+"), "SOME"),
    # As the page on programs for confluent-kafka says, texts of errors are ottla's.
    (re.compile(r'(?<=,str=").*(?="})'), "TEXT"),
)
# The clients' own logs.
_LOGS: Final = re.compile(r"%\d\|\d+\.\d+\||WARNING:ottla\.")


class _Token(BaseHTTPRequestHandler):
    """An identity provider that knows one user."""

    def do_POST(self) -> None:
        body = json.dumps({"access_token": bearer_token("alice"), "expires_in": 3600}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def services() -> Iterator[dict[str, str]]:
    """A broker, a registry and an identity provider.

    Yields:
        Their addresses, by the names that the arguments of examples have.
    """
    listeners = [
        "PLAINTEXT",
        "SASL_PLAINTEXT name=USERS mechanisms=PLAIN",
        "SASL_PLAINTEXT name=TOKENS mechanisms=OAUTHBEARER",
    ]
    broker = Broker(
        topics=dict.fromkeys(TOPICS, 1),
        listeners=listeners,
        users={"alice": "secret"},
        super_users=["ANONYMOUS", "alice"],
        config={"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0},
    )
    tokens = ThreadingHTTPServer(("127.0.0.1", 0), _Token)
    threading.Thread(target=tokens.serve_forever, daemon=True).start()
    try:
        with broker, Registry() as registry:
            yield {
                "broker": broker.bootstrap_of("PLAINTEXT"),
                "plain": broker.bootstrap_of("USERS"),
                "oauth": broker.bootstrap_of("TOKENS"),
                "registry": registry.url,
                "tokens": f"http://127.0.0.1:{tokens.server_port}",
            }
    finally:
        tokens.shutdown()
        tokens.server_close()


def printed(example: Example, side: str, folder: Path, addresses: dict[str, str], python: Path) -> list[str]:
    """Run an example.

    Args:
        example: The example.
        side: "theirs" or "ours".
        folder: The folder of the examples.
        addresses: The addresses of the services.
        python: The interpreter.

    Returns:
        The lines that it printed, then the lines of its errors and its status, without what differs each time.
    """
    arguments = example.arguments.format_map(addresses).split()
    command = [python, *_SIDES[side], str(folder / f"{example.name}.py"), *arguments]
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    texts: tuple[list[str], list[str]] = ([], [])
    readers = [
        threading.Thread(target=_read, args=(stream, text))
        for stream, text in zip((child.stdout, child.stderr), texts, strict=True)
    ]
    for reader in readers:
        reader.start()
    ended = "in time"
    try:
        child.stdin.write("".join(f"{line}\n" for line in example.typed))
        child.stdin.flush()
        if example.until is None:
            child.stdin.close()
        else:
            awaited, count = example.until
            deadline = time.monotonic() + PATIENCE
            while sum("".join(text).count(awaited) for text in texts) < count and child.poll() is None:
                if time.monotonic() > deadline:
                    ended = f"{awaited!r} was not printed {count} times"
                    break
                time.sleep(0.05)
            child.send_signal(signal.SIGINT)
        child.wait(PATIENCE if example.until is None else TO_END)
    except subprocess.TimeoutExpired:
        ended = "killed"
    finally:
        child.kill()
        child.wait()
        with contextlib.suppress(OSError):
            child.stdin.close()
        for reader, stream in zip(readers, (child.stdout, child.stderr), strict=True):
            reader.join()
            stream.close()
    lines = [_plain(line) for text in texts for line in "".join(text).splitlines() if not _LOGS.match(line)]
    if example.kept is not None:
        lines = sorted({line for line in lines if re.search(example.kept, line)})
    return [*lines, f"status {child.returncode}, {ended}"]


def _read(stream: IO[str], text: list[str]) -> None:
    """Read characters: prompts end without a line feed."""
    while character := stream.read(1):
        text.append(character)


def _plain(line: str) -> str:
    for pattern, replacement in _DIFFERENT:
        line = pattern.sub(replacement, line)
    return line


def run(tree: Path) -> Verdict:
    """Run the examples on both sides. In their row, those that print the same passed, those without comparison were skipped."""
    # A job in the background ignores Ctrl-C, and so would its children; a handler is none of what children inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = tree / "examples"
    found = {path.stem for path in folder.glob("*.py")}
    known = {example.name for example in EXAMPLES} | NOT_RUN.keys()
    allowed = allowlist((HERE / f"{NAME}.txt").read_text())
    start = f"| `{NAME}` | confluent-kafka {CONFLUENT.partition('==')[2]} | {source(tree)} |"
    if not found:
        return Verdict.without_tests(start, allowed, f"{tree} has no examples: is it a checkout of {REPOSITORY}?")
    outcomes: dict[str, str] = {}
    python = interpreter(CONFLUENT, "requests", "six")
    with services() as theirs, services() as ours:
        for example in EXAMPLES:
            expected = printed(example, "theirs", folder, theirs, python)
            differences = difflib.unified_diff(
                expected, printed(example, "ours", folder, ours, python), "theirs", "ours", lineterm=""
            )
            shown = "\n".join(differences)
            worked = expected[-1].endswith("in time") and not any("Traceback" in line for line in expected)
            outcome = "skipped" if not worked else "failed" if shown else "passed"
            print(f"{outcome}: {example.id}\n{shown or ''}", flush=True)
            if not worked:
                print("\n".join(expected), flush=True)
            outcomes[example.id] = outcome
    wrong = problems(outcomes, allowed)
    wrong += [f"fails on confluent-kafka, so nothing was compared: {i}" for i, o in outcomes.items() if o == "skipped"]
    wrong += [f"is not in tests/judges/examples.py: {name}" for name in sorted(found - known)]
    return Verdict.of(start, outcomes, allowed, wrong)
