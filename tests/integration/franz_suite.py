"""franz-go's own client suite, test by test, on the embedded broker: what its broker is asked for by others than us.

    python -m tests.integration.franz_suite                   # on three nodes and on one, 500,000 records
    python -m tests.integration.franz_suite --chaos TestGroup # tests of this name; connections die after 0.5 to 1.5 s
    python -m tests.integration.franz_suite --bootstrap HOST:PORT --replication 3   # on any other cluster

It prints what did not pass, and how this differs from the table of `tests/README.md`. The suite is that of the release
that `franz/go.mod` names; Go downloads it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.testing import Broker
from tests.integration.peers.franz import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MODULE = "github.com/twmb/franz-go"
TABLE = Path(__file__).resolve().parent.parent / "README.md"
PASSED, SKIPPED, FAILED, HANGS = "passed", "skipped", "failed", "hangs"
USER, PASSWORD = "admin", "admin-secret"
AT_ONCE = 4
"""Most tests wait more than they work."""
HANG = 30
"""Seconds that a test gets which the table says hangs."""


@dataclass(frozen=True)
class Suite:
    """The compiled suite, and the folder that its tests run in."""

    program: Path
    folder: Path

    def names(self) -> list[str]:
        listed = subprocess.run(
            [self.program, "-test.list", "."], cwd=self.folder, capture_output=True, text=True, timeout=60, check=True
        )
        return [name for name in listed.stdout.split() if name.startswith("Test")]


@dataclass
class Outcome:
    """How a test ended; `said` is what it printed."""

    how: str
    said: str = ""
    parts: dict[str, str] = field(default_factory=dict)
    """Its subtests that were skipped or failed."""


def version() -> str:
    found = re.search(rf"{MODULE} v([0-9.]+)", (SOURCE / "go.mod").read_text())
    assert found, f"{SOURCE / 'go.mod'} names no {MODULE}"
    return found[1]


def build(to: Path) -> Suite:
    """Compile the suite into the folder `to`; Go's own cache makes the second time quick."""
    name = f"{MODULE}@v{version()}"
    downloaded = _go("mod", "download", "-json", name, folder=SOURCE)
    folder = Path(json.loads(downloaded)["Dir"]) / "pkg" / "kgo"
    program = to / "kgo.test"
    _go("test", "-c", "-o", str(program), ".", folder=folder)
    return Suite(program, folder)


def _go(*args: str, folder: Path) -> str:
    done = subprocess.run(["go", *args], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise AssertionError(f"go {' '.join(args)}: {done.stderr}")
    return done.stdout


def embedded(nodes: int) -> Broker:
    """A broker with all that the suite can use: it has tests for SCRAM on a listener of its own."""
    return Broker(
        nodes,
        listeners=["PLAINTEXT", "SASL_PLAINTEXT name=SCRAM mechanisms=SCRAM-SHA-256"],
        users={USER: PASSWORD},
        # A rebalance takes a few of them, and there are many rebalances.
        config={"group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 200},
    )


def settings(broker: Broker, nodes: int, records: int) -> dict[str, str]:
    """The suite's settings, for the environment."""
    return {
        "KGO_SEEDS": broker.bootstrap_of("PLAINTEXT"),
        "KGO_TEST_SCRAM_SEEDS": broker.bootstrap_of("SCRAM"),
        "KGO_TEST_SCRAM": f"{USER}:{PASSWORD}",
        "KGO_TEST_RF": str(nodes),
        "KGO_TEST_RECORDS": str(records),
    }


def run(suite: Suite, names: Iterable[str], environment: Mapping[str, str], deadline: int) -> dict[str, Outcome]:
    """Run these tests, each in a process of its own that ends after `deadline` seconds."""
    hanging = {name for name, how in expected().items() if how == HANGS}

    def one(name: str) -> tuple[str, Outcome]:
        return name, _run(suite, name, environment, min(deadline, HANG) if name in hanging else deadline)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(pool.map(one, names))


def _run(suite: Suite, name: str, environment: Mapping[str, str], deadline: int) -> Outcome:
    command = [suite.program, "-test.run", f"^{name}$", "-test.v", f"-test.timeout={deadline}s"]
    done = subprocess.run(
        command,
        cwd=suite.folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=deadline + 60,
        check=False,
    )
    said = done.stdout
    if f"panic: test timed out after {deadline}s" in said:
        return Outcome(HANGS, said)
    verdicts = {"SKIP": SKIPPED, "FAIL": FAILED}
    ended = re.findall(r"^ *--- (SKIP|FAIL): (\S+)", said, re.MULTILINE)
    parts = {part: verdicts[verdict] for verdict, part in ended if part != name}
    if done.returncode:
        return Outcome(FAILED, said, parts)
    return Outcome(SKIPPED if ("SKIP", name) in ended else PASSED, said, parts)


def flat(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """What did not pass: tests and parts of tests, by name."""
    found = {name: outcome.how for name, outcome in outcomes.items() if outcome.how != PASSED}
    for name, outcome in outcomes.items():
        if outcome.how != HANGS:
            found |= {part: how for part, how in outcome.parts.items() if (name, how) != (part, outcome.how)}
    return found


def expected() -> dict[str, str]:
    """What does not pass, or not always, by the table of `tests/README.md`, by name."""
    how = f"{SKIPPED}|{HANGS}|(?:{SKIPPED}|{FAILED}) or {PASSED}"
    rows = re.findall(rf"^\| `(Test\S+)` \| ({how}) \| .+ \|$", TABLE.read_text(), re.MULTILINE)
    return dict(rows)


def expected_size() -> tuple[str, int]:
    """The release of the suite and the number of its tests by `tests/README.md`."""
    found = re.search(r"The suite of franz-go (\S+) has (\d+) tests", TABLE.read_text())
    assert found, f"{TABLE} does not say how many tests the suite has"
    return found[1], int(found[2])


def differences(found: Mapping[str, str], told: Mapping[str, str]) -> list[str]:
    """Lines that say where `found` is not what was `told`."""
    names = sorted(set(found) | set(told))
    return [
        f"{name}: {found.get(name, PASSED)}, and the table says {told.get(name, PASSED)}"
        for name in names
        if found.get(name, PASSED) not in told.get(name, PASSED).split(" or ")
    ]


def _show(title: str, outcomes: Mapping[str, Outcome], logs: Path) -> bool:
    found = flat(outcomes)
    told = {name: how for name, how in expected().items() if name.partition("/")[0] in outcomes}
    passed = sum(outcome.how == PASSED for outcome in outcomes.values())
    print(f"{title}: {passed} of {len(outcomes)} passed")
    for name, how in found.items():
        print(f"  {name}: {how}")
    different = differences(found, told)
    for line in different:
        print(f"  DIFFERENT: {line}")
    for name, outcome in outcomes.items():
        if outcome.how in (FAILED, HANGS):
            log = logs / f"{title.replace(' ', '-')}-{name}.log"
            log.write_text(outcome.said)
            print(f"  see {log}")
    return not different


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default=".", help="a regular expression: only tests whose names have it")
    parser.add_argument("--records", type=int, default=500_000, help="of the tests that copy topics in a chain")
    parser.add_argument("--nodes", type=int, nargs="*", default=[3, 1], help="sizes of the embedded cluster")
    parser.add_argument("--chaos", action="store_true", help="let the clients' connections die after 0.5 to 1.5 s")
    parser.add_argument("--deadline", type=int, default=400, help="seconds for each test")
    parser.add_argument("--bootstrap", help="run on this cluster instead of the embedded one")
    parser.add_argument("--replication", type=int, default=1, help="the replication factor there")
    chosen = parser.parse_args(args)
    logs = Path(tempfile.mkdtemp(prefix="franz-suite-"))
    suite = build(logs)
    names = [name for name in suite.names() if re.search(chosen.pattern, name)]
    chaos = {"KGO_TEST_CHAOS": "1"} if chosen.chaos else {}
    if chosen.bootstrap:
        there = {"KGO_SEEDS": chosen.bootstrap, "KGO_TEST_RF": str(chosen.replication)}
        there["KGO_TEST_RECORDS"] = str(chosen.records)
        outcomes = run(suite, names, {**there, **chaos}, chosen.deadline)
        return 0 if _show(chosen.bootstrap, outcomes, logs) else 1
    as_told = True
    for nodes in chosen.nodes:
        with embedded(nodes) as broker:
            outcomes = run(suite, names, {**settings(broker, nodes, chosen.records), **chaos}, chosen.deadline)
        as_told &= _show(f"{nodes} nodes", outcomes, logs)
    return 0 if as_told else 1


if __name__ == "__main__":
    sys.exit(main())
