"""A Celery worker, whose tasks write a line each. Environment: the broker's address and the folder of lines.

Run as `python celery_worker.py NAME`; `python celery_worker.py send COUNT` sends tasks.
"""

import os
import sys
import time
import uuid
from pathlib import Path

from celery import Celery

import ottla.integrations.kombu  # noqa: F401 it makes ottla:// known

app = Celery("tasks", broker=f"ottla://{os.environ['TASKS_BROKER']}")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    broker_transport_options={"wait": 0.2, "topic": {"partitions": 2}},
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
)
lines = Path(os.environ["TASKS_FOLDER"])


@app.task(name="work")
def work(number):
    """Leave a file for each start and for each end, so that a kill in between is seen."""
    (lines / f"begun-{number}-{uuid.uuid4().hex}").touch()
    time.sleep(0.02)
    (lines / f"done-{number}-{uuid.uuid4().hex}").touch()


if __name__ == "__main__":
    if sys.argv[1] == "send":
        for number in range(int(sys.argv[2])):
            work.delay(number)
    else:
        app.worker_main(
            ["worker", "--pool=solo", f"--hostname={sys.argv[1]}", "--without-gossip", "--without-mingle", "-lWARNING"]
        )
