"""Starts of streams whose source is written in Python."""

import time

from ottla.spark.ingest.job import SLOW

# Each takes 10 s at most.
TRIES = 5


def begun(start):
    """Begin a query by `start`, and wait until its source is there, or has been refused.

    Spark gives a process of Python 10 s to start, whatever else the machine does. Where it took longer nothing was read
    yet, and the query begins once more.
    """
    for _ in range(TRIES - 1):
        query = start()
        # The source's process is started before anything else is done.
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(0.05)
        if SLOW not in str(query.exception()) or query.recentProgress:
            return query
        query.stop()
    return start()
