"""What is done about a Spark that hangs: it is ended, so that the tests left fail at once, and where it stood is told.

A time-out alone ends no more than the first call. What Spark's Python asks next goes over the same connection, on which the JVM
reads nothing before the call that hangs is done; and so it is for all tests after it.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path
from threading import Timer

import pytest
from pyspark import SparkContext

# Seconds between the end of Spark and that of the test's time.
EARLIER = 10
# Of the JVM's threads, those that run tasks, queries and what Python asks for; and those that hand tasks out and take
# what they gave, of which the first is always there: where it is missing, it has died.
THREADS = re.compile(
    r'"(Executor task launch worker|stream execution thread|Thread-'
    r"|dag-scheduler-event-loop|task-result-getter|dispatcher-)"
)
FRAMES = 4


class Watch:
    """Ends Spark after some seconds, unless it is stopped before.

    Attributes:
        told: Where Spark stood when it was ended, in lines.
    """

    def __init__(self, seconds):
        self.told = []
        self._timer = Timer(max(seconds, 1), self._end)
        self._timer.daemon = True
        self._timer.start()

    def stop(self):
        self._timer.cancel()

    def _end(self):
        context = SparkContext._active_spark_context
        if context is not None:
            jvm = context._gateway.proc
            # Before the test ends by what is done next: its report has it.
            self.told += stands(jvm.pid)
            jvm.kill()


WATCH = pytest.StashKey[Watch]()


def stands(jvm):
    """Where a JVM's threads and the processes below it stand, a line each."""
    processes = [process(pid) for pid in below(jvm)]
    stacks = asked("jstack", str(jvm), patience=EARLIER / 2)
    threads = list(threads_of(stacks)) or [stacks]
    # Whether there is room for compiled code: without it a JVM gets very slow.
    code = asked("jcmd", str(jvm), "Compiler.codecache", patience=EARLIER / 4)
    return [*threads, " ".join(code.split()), *processes]


def asked(tool, *arguments, patience):
    """What one of the JDK's tools says, or why it says nothing."""
    try:
        said = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=patience, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return said.stdout if said.returncode == 0 else f"{tool}: exit {said.returncode} {said.stderr.strip()}"


def threads_of(stacks):
    """What each thread that does something is called, and its first frames outside of Java's own classes."""
    for block in stacks.split("\n\n"):
        if THREADS.match(block):
            name, state = block.split('"')[1], "".join(re.findall(r"State: (\w+)", block))
            frames = [frame for frame in re.findall(r"\tat (\S+)", block) if not re.match(r"(java|sun|jdk)\W", frame)]
            if frames:
                yield f"{name[:40]} {state}: {' < '.join(frames[:FRAMES])}"


def below(pid):
    """The processes that descend from one."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def process(pid):
    """A process's command, shortened, and where the kernel waits in each of its threads."""
    folder = Path("/proc") / str(pid)
    try:
        command = (folder / "cmdline").read_text().replace("\0", " ").strip()
        waits = [(task / "wchan").read_text() for task in (folder / "task").iterdir()]
    except OSError as error:
        return f"process {pid}: {error}"
    return f"process {pid} {command[-60:]}: {', '.join(f'{count} {wait}' for wait, count in Counter(waits).most_common(5))}"
