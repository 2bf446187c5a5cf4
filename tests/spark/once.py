"""Drivers that copy a topic exactly once, what is done to them, and what foreign readers find."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from queue import Empty, Queue

from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.conftest import wait_for_markers
from tests.integration.peers.confluent import Confluent

import ottla

HERE = Path(__file__).parent
# PYTHONPATH of processes that do what `faults/sitecustomize.py` is told.
FAULTY_PATH = os.pathsep.join([str(HERE / "faults"), *filter(None, sys.path)])
RECORDS, PARTITIONS = 20_000, 2
# Of each micro-batch; there are three.
EACH = 7_000
PATIENCE = 180.0


def make_topic(bootstrap, name):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    end = time.monotonic() + 30
    while name not in admin.list_topics(timeout=30).topics:
        assert time.monotonic() < end
        time.sleep(0.05)
    return name


def fill(bootstrap):
    """A topic with 20,000 records, whose values are their numbers."""
    source = make_topic(bootstrap, f"source-{uuid.uuid4().hex[:8]}")
    numbers = [b"%d" % number for number in range(RECORDS)]
    with ottla.Producer(bootstrap) as producer:
        producer.send_many(source, numbers, keys=numbers).result(60)
    return source


class Driver:
    """A Spark driver in a process of its own, whose workers do what `faults/sitecustomize.py` is told."""

    def __init__(self, master, faults, *config, **given):
        faults.mkdir(exist_ok=True)
        self.faults, self.log = faults, (faults / "log").open("a")
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": FAULTY_PATH}
        environment |= {"PYSPARK_PYTHON": sys.executable} | given
        environment["OTTLA_FAULTS"] = str(faults)
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "jobs" / "once.py"), master, *config],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=environment,
            # To be killed with its JVM.
            start_new_session=True,
        )
        self.answers = Queue()
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()
        try:
            self.answer()
        except BaseException:
            self.kill()
            raise

    def _read(self):
        for line in self.process.stdout:
            self.answers.put(json.loads(line))

    def answer(self):
        try:
            return self.answers.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError((self.faults / "log").read_text()[-3000:]) from None

    def ask(self, query):
        self.process.stdin.write(json.dumps(query) + "\n")
        self.process.stdin.flush()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        self.reading.join(30)
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


class Copy:
    """One query from a topic to a new one, and the folder of its checkpoint."""

    def __init__(self, bootstrap, source, folder, shards=PARTITIONS, **asked):
        target = make_topic(bootstrap, f"target-{uuid.uuid4().hex[:8]}")
        self.bootstrap, self.target, self.checkpoint = bootstrap, target, folder / target
        options = {"exactlyOnce": "true", "appId": target, "shards": str(shards)}
        names = {"bootstrap": bootstrap, "source": source, "target": target, "checkpoint": str(self.checkpoint)}
        self.asked = {**names, "each": EACH, "options": options, **asked}

    def run(self, driver, *faults, **change):
        """Run the query until it has caught up or failed. Gives the error, or None."""
        self.prepare(driver, *faults)
        driver.ask({**self.asked, **change})
        error = driver.answer()["error"]
        # The report of a failed assertion has only its ends.
        print(error)
        return error

    def prepare(self, driver, *faults):
        for left in driver.faults.iterdir():
            if left.name != "log":
                left.unlink()
        (driver.faults / "faults.json").write_text(json.dumps(faults))

    def counts(self, *, died=False):
        """How many records there are how often, as confluent-kafka reads what is committed.

        What has `died` may have left a transaction open.
        """
        if not died:
            wait_for_markers(self.bootstrap, self.target, PARTITIONS)
        values = Counter(
            int(message.value) for message in Confluent().consume_committed(self.bootstrap, self.target, PARTITIONS)
        )
        assert set(values) <= set(range(RECORDS))
        return Counter(values.values())


def fault(what, at="before", batch=1, shard=1, times=1, attempt=None):
    """What `faults/sitecustomize.py` reads; without an attempt, whichever comes."""
    return {"what": what, "at": at, "batch": batch, "shard": shard, "times": times, "attempt": attempt}


def happened(driver):
    """What has happened in the workers, in order: what, batch, shard, attempt."""
    log = driver.faults / "happened"
    lines = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return [(line["what"], line["batch"], line["shard"], line["attempt"]) for line in lines]
