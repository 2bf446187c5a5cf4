"""kombu and Celery on share groups, in an environment of their own."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from ottla.testing import Broker
from tests.libraries.environments import python_of, report, start
from tests.pace import patience

pytestmark = pytest.mark.real


def test_kombu():
    with Broker() as broker:
        found = report("celery", "with_kombu.py", broker.bootstrap_servers)
    assert found["hundred"] < patience(10)


def test_workers_are_killed(tmp_path):
    """Four workers of a topic of two partitions: each task is done, whoever is killed."""
    count, kills = 300, 6
    chance = random.Random(os.environ.get("OTTLA_SEED", "1"))
    python_of("celery")
    with Broker(config={"auto.create.topics.enable": False}) as broker:
        environment = {"TASKS_BROKER": broker.bootstrap_servers, "TASKS_FOLDER": str(tmp_path)}
        workers, gone = {}, []

        def done():
            return {int(path.name.split("-")[1]) for path in tmp_path.glob("done-*")}

        def begin(name):
            log = (tmp_path / f"{name}.log").open("a")
            workers[name] = start(
                "celery", "celery_worker.py", name, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            log.close()

        try:
            with start("celery", "celery_worker.py", "send", count, env=environment) as sender:
                assert sender.wait(patience(60)) == 0
            for number in range(4):
                begin(f"worker{number}")
            end = time.monotonic() + patience(60)
            killed = 0
            while len(done()) < count and time.monotonic() < end:
                time.sleep(0.5)
                if killed < kills and len(done()) >= (killed + 1) * count / (kills + 2):
                    name = chance.choice(sorted(workers))
                    gone.append(workers.pop(name))
                    os.killpg(gone[-1].pid, signal.SIGKILL)
                    killed += 1
                    begin(f"worker{3 + killed}")
        finally:
            for process in (*workers.values(), *gone):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)
        logs = "".join(path.read_text()[-1500:] for path in tmp_path.glob("*.log"))
        assert done() == set(range(count)), logs
        assert killed >= kills - 1, logs
        # Only tasks that a killed worker had begun are done twice.
        assert len(list(tmp_path.glob("done-*"))) <= count + killed * 2
