"""Many clients in one process: consumers that read in a thread each, and clients that have nothing to do."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurement import memory

if TYPE_CHECKING:
    from measurement import Job, Stopwatch

Read = Callable[[], tuple[int, int]]
"""Reads some records: how many, and the bytes of their values."""
READY = 60.0
"""Seconds until all clients are ready."""
CALM = 2.0
"""Seconds between the last work of the clients and the measurement of what they do when idle."""


def readers(
    job: Job, watch: Stopwatch, reader: Callable[[tuple[str, int]], AbstractContextManager[Read]]
) -> tuple[int, int]:
    """Read each partition by a consumer and a thread of its own; records and bytes of all."""
    share = job.records // len(job.targets)
    start = threading.Barrier(len(job.targets) + 1)
    done = list[tuple[int, int]]()
    failed = list[Exception]()

    def run(target: tuple[str, int]) -> None:
        count = size = 0
        try:
            with reader(target) as read:
                start.wait(READY)
                while count < share and (watch.spent() < job.budget or not count):
                    records, length = read()
                    count, size = count + records, size + length
                done.append((count, size))
                # The clients of the other threads still read: closing this one is not their work.
                start.wait(READY)
        except Exception as error:
            failed.append(error)
            start.abort()

    threads = [threading.Thread(target=run, args=(target,)) for target in job.targets]
    for thread in threads:
        thread.start()
    try:
        watch.start()
        start.wait(READY)
        start.wait(READY)
        watch.stop()
    except threading.BrokenBarrierError:
        raise RuntimeError(f"a consumer failed: {failed}") from None
    finally:
        for thread in threads:
            thread.join()
    return sum(count for count, _ in done), sum(size for _, size in done)


def idle(job: Job, watch: Stopwatch, make: Callable[[], Any]) -> tuple[int, int]:
    """What clients take while nothing happens, each: wake-ups and processor time a second, memory, connections."""
    make().close()  # so that what all clients of the process share counts for none of them
    before, sockets = memory("VmRSS"), _connections()
    clients = [make() for _ in range(job.records)]
    time.sleep(CALM)
    wakeups = _switches()
    watch.start()
    time.sleep(job.budget)
    watch.stop()
    woken = _switches() - wakeups
    count = len(clients)
    watch.more |= {
        "wakeups": woken / watch.wall / count,
        "connections": (_connections() - sockets) / count,
        "threads": sum(1 for _ in Path("/proc/self/task").iterdir()),
    }
    watch.peak = (memory("VmRSS") - before) // count
    # Seconds of processor time by the seconds of all clients: the CPU of a client in each second.
    return round(count * watch.wall), 0


def _switches() -> int:
    """How often a thread of this process gave up its core to wait, and was woken again."""
    total = 0
    for thread in Path("/proc/self/task").iterdir():
        found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (thread / "status").read_text(), re.MULTILINE)
        total += int(found[1]) if found else 0
    return total


def _connections() -> int:
    """Sockets of this process that are connected over TCP."""
    mine = set[str]()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            mine.add(str(descriptor.readlink()))
        except OSError:  # the descriptor of the listing itself
            continue
    established = "01"
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return sum(f"socket:[{fields[9]}]" in mine and fields[3] == established for fields in lines)
