"""Run each test many times on one core, in random order, while random processes stand still: `make flakes FILES=... N=20`.

A test that fails here now and then depends on the pace of the machine. Every round is a run of pytest of its own; its seed decides the
order, and which of its processes stand still for 0.2 to 2 s.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.rings import results

if TYPE_CHECKING:
    from typing import Self

ROOT = Path(__file__).parents[2]
OUT = ROOT / "target" / "rings" / "flakes"
FAILED = 1
# Seconds between two pauses, and of a pause.
REST = (0.5, 3.0)
PAUSE = (0.2, 2.0)


class Pauses:
    """Has one process after the other of a tree stand still while a block runs."""

    def __init__(self, root: int, seed: int) -> None:
        self.root, self.random = root, random.Random(seed)
        self.count = 0
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        while not self.end.wait(self.random.uniform(*REST)):
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                tree = psutil.Process(self.root).children(recursive=True)
                if tree:
                    self.pause(self.random.choice(tree))

    def pause(self, process: psutil.Process) -> None:
        if process.status() == psutil.STATUS_STOPPED:  # a test stopped it
            return
        process.send_signal(signal.SIGSTOP)
        try:
            self.count += 1
            self.end.wait(self.random.uniform(*PAUSE))
        finally:
            process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        self.thread.join()


def run_round(arguments: list[str], seed: int, log: Path) -> tuple[int, int]:
    """Run pytest once; its exit code and how many pauses there were."""
    core = str(min(os.sched_getaffinity(0)))
    command = [
        "taskset",
        "--cpu-list",
        core,
        sys.executable,
        "-m",
        "pytest",
        "--random-order",
        f"--random-order-seed={seed}",
        *arguments,
    ]
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
        try:
            with Pauses(process.pid, seed) as pauses:
                return process.wait(), pauses.count
        finally:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files, folders or tests; without any, the gate")
    parser.add_argument(
        "--times", type=int, default=20, help="rounds; each runs every test once (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each round takes the next one")
    parser.add_argument(
        "--workers", type=int, default=4, help="processes of pytest, all on one core (default: %(default)s)"
    )
    options = parser.parse_args()

    OUT.mkdir(parents=True, exist_ok=True)
    tests = options.files or ["--ring", "gate", "-m", "not alone"]
    spread = ["--numprocesses", str(options.workers), "--dist", "worksteal"] if options.workers > 1 else []
    failed, reasons, broken = Counter[str](), dict[str, str](), 0
    for number in range(options.times):
        seed = options.seed + number
        file, log = OUT / f"{seed}.jsonl", OUT / f"{seed}.log"
        file.unlink(missing_ok=True)
        begin = time.monotonic()
        code, pauses = run_round([*tests, *spread, "--results", str(file)], seed, log)
        found = results.read(file).failures
        for failure in found:
            failed[failure["test"]] += 1
            reasons.setdefault(failure["test"], f"{failure['when']}: {failure['reason']}")
        broken += code not in (0, FAILED)
        closing = log.read_text().rstrip().rpartition("\n")[2].strip("= ")
        seconds, load = time.monotonic() - begin, os.getloadavg()[0]
        print(
            f"round {number + 1} of {options.times}, seed {seed}: {closing}; {pauses} pauses, load {load:.1f}, {seconds:.0f} s, exit {code}",
            flush=True,
        )
    for test, count in failed.most_common():
        print(f"{options.times - count} of {options.times} passed: {test}: {reasons[test]}")
    print(
        f"{len(failed)} tests failed in {options.times} rounds; {broken} rounds did not end as they should; logs are in {OUT}"
    )
    return int(bool(failed or broken))


if __name__ == "__main__":
    sys.exit(main())
