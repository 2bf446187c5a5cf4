"""The folder of real Kafka, read as files while the broker runs, beside what confluent-kafka reads from it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

import ottla
from ottla.log import open_log, read_log
from tests.integration.conftest import REAL
from tests.integration.peers.base import DEADLINE
from tests.python.test_log import CODECS, by_confluent, rows, transactions
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.brokers.brokers import Cluster

pytestmark = [REAL, pytest.mark.timeout(300)]


@pytest.fixture
def files(cluster: Cluster) -> Path:
    return Path(cluster.st["dir"]) / "node1"


def last_stable(bootstrap: str, topic: str, level: str) -> int:
    at = ottla.TopicPartition(topic, 0)
    with ottla.Consumer(bootstrap, isolation_level=level) as consumer:
        return consumer.end_offsets([at])[at]


def test_transactions(kafka: str, files: Path, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, config={"segment.bytes": "1048576"})
    transactions(kafka, topic)
    end = last_stable(kafka, topic, "read_uncommitted")
    # A broker answers before the markers of a transaction are in the log; two records follow the last: an open one, a plain one.
    wait_until(lambda: last_stable(kafka, topic, "read_committed") == end - 2, "the markers are in the log")
    for level in ("read_uncommitted", "read_committed"):
        wanted = by_confluent(kafka, topic, 0, level)
        assert rows(read_log(files, topics=[topic], isolation_level=level)) == wanted
        ends = open_log(files / f"{topic}-0", isolation_level=level).end_offsets()
        assert list(ends.values()) == [last_stable(kafka, topic, level)]
        for start, until in ((0, 5), (7, 20), (11, end), (end - 2, end)):
            log = open_log(files / f"{topic}-0", isolation_level=level)
            parts = log.ranges((topic, 0), start, until, max_bytes=200)
            read = rows(batch for part in parts for batch in part.read())
            assert read == [row for row in wanted if start <= row.offset < until]


def test_a_folder_that_is_written_to(kafka: str, files: Path, new_topic: Callable[..., str]) -> None:
    """Each look sees whole records from the first on, through rolls of segments and every codec."""
    topic = new_topic(kafka, config={"segment.bytes": "1048576", "index.interval.bytes": "1000"})
    count, ended = 12_000, threading.Event()
    looks: list[list[int]] = []
    # A broker knows a topic before it has made its log.
    wait_until(lambda: any((files / f"{topic}-0").glob("*.log")), "the folder has a segment")

    def write() -> None:
        for codec in CODECS:
            producer = Producer({"bootstrap.servers": kafka, "compression.type": codec, "batch.num.messages": 50})
            for n in range(count // len(CODECS)):
                producer.produce(topic, (b"%s %d " % (codec.encode(), n)) * (n % 90), b"k%d" % n, headers=[("h", b"v")])
                producer.poll(0)
            producer.flush(DEADLINE)
            # The second look from now on begins when these records are there, and no others yet.
            second = len(looks) + 2
            wait_until(lambda second=second: len(looks) >= second, "two looks")
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    limit = time.monotonic() + 2 * DEADLINE
    while not ended.is_set() and time.monotonic() < limit:
        looks.append([row.offset for row in rows(read_log(files / f"{topic}-0"))])
    writer.join(DEADLINE)
    assert ended.is_set()
    assert all(look == list(range(len(look))) for look in looks)
    assert [len(look) for look in looks] == sorted(map(len, looks))
    assert len({len(look) for look in looks}) >= len(CODECS)
    wanted = by_confluent(kafka, topic, 0)
    assert len(wanted) == count
    assert len(list((files / f"{topic}-0").glob("*.log"))) > 1
    assert rows(read_log(files, topics=[topic])) == wanted
    parts = open_log(files).ranges((topic, 0), max_bytes=50_000)
    assert len(parts) > 20
    assert rows(batch for part in parts for batch in part.read()) == wanted
