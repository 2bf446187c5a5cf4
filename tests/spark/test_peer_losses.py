"""Streams whose records are lost, or whose first batch fails, beside Spark's own Kafka source: the same rows at each step."""

import time

import pytest
from tests.waiting import wait_for_end

import ottla
from ottla.testing import Broker

from .starts import begun

pytestmark = [pytest.mark.needs("java", "mvn"), pytest.mark.timeout(480)]

DIES = "the driver dies"


class Query:
    """A stream that starts again and again on one checkpoint."""

    def __init__(self, spark, source, folder, options):
        self.folder = folder
        self._spark, self._source, self._options = spark, source, options

    def run(self, *, dies=False):
        """Take what is there. Returns the values of each batch that has some.

        Args:
            dies: The driver dies in the first batch, behind its plan and before its first row.
        """
        batches = []

        def take(rows, _):
            if dies:
                raise OSError(DIES)
            if values := sorted(int(bytes(row.value)) for row in rows.select("value").collect()):
                batches.append(values)

        frame = self._spark.readStream.format(self._source).options(**self._options).load()
        writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
        query = begun(writer.option("checkpointLocation", str(self.folder / "checkpoint")).start)
        if dies:
            with pytest.raises(Exception, match=DIES):
                wait_for_end(query)
        else:
            wait_for_end(query)
        return batches


def write(bootstrap, numbers):
    with ottla.Producer(bootstrap) as producer:
        producer.send_many("t", [b"%d" % number for number in numbers], partitions=0).result(30)


def test_a_log_that_was_cut_inside_a_planned_range(spark, tmp_path):
    """Both read what is left, go on where the log ends, and take no new record for an old one."""
    config = {"replica.lag.time.max.ms": 300, "min.insync.replicas": 1}
    with Broker(nodes=2, topics=["t"], config=config) as cluster:
        bootstrap = cluster.bootstrap_servers
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": "t",
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
            "kafkaConsumer.pollTimeoutMs": "2000",
        }
        theirs, ours = (Query(spark, source, tmp_path / source, options) for source in ("kafka", "ottla"))
        write(bootstrap, range(3))
        end = time.monotonic() + 30
        while len(cluster.partition("t", 0).in_sync) != 2:
            assert time.monotonic() < end
            time.sleep(0.02)
        other = 3 - cluster.leader("t")
        cluster.pause_replication(other)
        write(bootstrap, range(3, 10))
        for query in (theirs, ours):
            query.run(dies=True)
        cluster.move_leader("t", to=other, unclean=True)
        cluster.resume_replication(other)
        steps = []
        for new in ([], [100], range(101, 104), range(104, 120)):
            if new:
                write(bootstrap, new)
            steps.append((theirs.run(), ours.run()))
        assert [step[1] for step in steps] == [step[0] for step in steps]
        assert steps[0][0] == [[0, 1, 2]]
        assert steps[-1][0]


def test_a_first_batch_that_failed_begins_where_it_began(spark, topic, tmp_path):
    """Under `latest`, which stands for another offset by then."""
    t = topic(1)
    t.produce(range(5))
    remembering = {"ottla": {"rememberTopicsIn": str(tmp_path / "remembered")}, "kafka": {}}
    queries = [
        Query(spark, source, tmp_path / source, t.options(startingOffsets="latest", **more))
        for source, more in remembering.items()
    ]
    for query in queries:
        query.run(dies=True)
    for new in (range(5, 8), range(8, 10)):
        t.produce(new)
        assert [query.run() for query in queries] == [[list(new)]] * 2
