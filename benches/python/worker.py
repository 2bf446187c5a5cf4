"""One measurement in a process of its own: takes a job as JSON, prints the figures as JSON.

pyarrow is imported first, by all alike. Memory is what comes on top: the most that was resident after that (VmHWM),
without what was resident then.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from pathlib import Path
from statistics import median, quantiles

import pyarrow.compute  # noqa: F401
from measurement import Job, Stopwatch, memory


def main() -> None:
    order = json.loads(sys.argv[1])
    if order["cores"]:
        os.sched_setaffinity(0, order["cores"])
    module, function = order["way"].split(".")
    way = getattr(importlib.import_module(f"clients.{module}"), function)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    before, watch = memory("VmRSS"), Stopwatch()
    count, size = way(Job(**order["job"]), watch)
    figures = {
        "records": count,
        "bytes": size,
        "seconds": watch.wall,
        "cpu_seconds": watch.cpu,
        "peak_bytes": memory("VmHWM") - before if watch.peak is None else watch.peak,
        "build": getattr(sys.modules.get("ottla"), "__file__", ""),
    }
    if watch.laps:
        cuts = quantiles(watch.laps, n=100)
        figures |= {"p50": cuts[49], "p99": cuts[98]}
    figures |= {cause: median(times) for cause, times in watch.rebalances.items() if times}
    print(json.dumps(figures | watch.more))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
