"""What goes otherwise in Spark's Python workers, for tests: Python imports this by its name, where the folder is on its path.

OTTLA_LOOKING is how many seconds a worker looks for the last record of a batch, longer than a stream would wait on a busy
machine. The folder in OTTLA_FAULTS holds `faults.json`, a list of what is to happen around the commit of a transaction: in which
`batch` and `shard`, `at` which side of it ("before", "after"), in which `attempt` if not in any, `what`, and how many
`times`. What has happened is appended to `happened`, a JSON object a line.
"""

import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import time
from pathlib import Path

PLACE = Path(os.environ.get("OTTLA_FAULTS", "/nowhere"))
PATIENCE = 100.0


class TaskDiedError(Exception):
    pass


def here():
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return None
    batch = task.getLocalProperty("streaming.sql.batchId") or "-1"
    return {"batch": int(batch), "shard": task.partitionId(), "attempt": task.attemptNumber()}


def told(what, where):
    line = json.dumps({"what": what, **where, "pid": os.getpid()}) + "\n"
    with (PLACE / "happened").open("a") as log:
        log.write(line)


def await_file(name):
    end = time.monotonic() + PATIENCE
    while not (PLACE / name).exists() and time.monotonic() < end:
        time.sleep(0.02)


def strike(at, where):
    """Do what is due here, if anything."""
    for number, fault in enumerate(json.loads((PLACE / "faults.json").read_text())):
        if (fault["batch"], fault["shard"], fault["at"]) != (where["batch"], where["shard"], at):
            continue
        if fault["attempt"] not in (None, where["attempt"]):
            continue
        for time_ in range(fault["times"]):
            try:
                (PLACE / f"struck-{number}-{time_}").touch(exist_ok=False)
            except FileExistsError:
                continue
            told(fault["what"], where)
            happen(fault["what"])
            break


def happen(what):
    if what == "task dies":
        raise TaskDiedError
    if what == "worker is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "executor is killed":
        # The daemon that forked this process is its child.
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        os.kill(int(daemon[1]), signal.SIGKILL)
        time.sleep(PATIENCE)
    if what == "task waits":
        # The test kills the driver meanwhile.
        await_file("go")
    if what == "task is overtaken":
        await_file("another attempt is about to commit")
    if what == "another attempt is about to commit":
        (PLACE / what).touch()
        await_file("the first attempt has tried to commit")


def hurt(producer):
    """Wrap the commit of producers."""
    commit = producer.commit_transaction

    def commit_transaction(self, timeout=None):
        where = here()
        if where is None or not (PLACE / "faults.json").exists():
            return commit(self, timeout)
        overtaken = (PLACE / "another attempt is about to commit").exists
        strike("before", where)
        first = overtaken() and where["attempt"] == 0
        try:
            commit(self, timeout)
        except Exception as error:
            told(f"commit refused: {type(error).__name__}", where)
            raise
        else:
            told("committed", where)
        finally:
            if first:
                (PLACE / "the first attempt has tried to commit").touch()
        return strike("after", where)

    producer.commit_transaction = commit_transaction


class Finder(importlib.abc.MetaPathFinder):
    """Changes a module when it is imported, so that processes without it stay as they are."""

    def __init__(self, name, change):
        self.name, self.change = name, change

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self.change(module)

        spec.loader.exec_module = exec_module
        return spec


if "OTTLA_FAULTS" in os.environ:
    sys.meta_path.insert(0, Finder("ottla._sync._producer", lambda module: hurt(module.Producer)))
if "OTTLA_LOOKING" in os.environ:
    looking = float(os.environ["OTTLA_LOOKING"])
    sys.meta_path.insert(0, Finder("ottla.spark.read.kafka_log", lambda module: setattr(module, "LOOKING", looking)))
