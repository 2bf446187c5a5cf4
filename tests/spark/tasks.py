"""A task of Spark's without Spark: what the sink asks of it."""

import contextlib

from pyspark import TaskContext


class FakeTask:
    def __init__(self, shard, properties):
        self._shard, self._properties = shard, properties

    def partitionId(self):  # noqa: N802
        return self._shard

    def getLocalProperty(self, name):  # noqa: N802
        return self._properties.get(name)


@contextlib.contextmanager
def inside(shard=0, batch=None, query="q"):
    """Run as the task of a shard: of a stream's batch, or without a number as that of a batch."""
    named = {} if batch is None else {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}
    TaskContext._setTaskContext(FakeTask(shard, named))
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)
