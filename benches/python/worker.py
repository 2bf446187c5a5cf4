"""One measurement in a process of its own: takes a job as JSON, prints the figures as JSON.

Peak memory is the process's own high-water mark (VmHWM), since getrusage's would begin at that of the parent.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import clients


def _memory(field: str) -> int:
    """A field of /proc/self/status in bytes."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main() -> None:
    order = json.loads(sys.argv[1])
    watch = clients.Stopwatch()
    count, size = getattr(clients, order["function"])(clients.Job(**order["job"]), watch)
    print(
        json.dumps(
            {
                "records": count,
                "bytes": size,
                "seconds": watch.wall,
                "cpu_seconds": watch.cpu,
                "peak_bytes": _memory("VmHWM"),
            }
        )
    )


if __name__ == "__main__":
    main()
