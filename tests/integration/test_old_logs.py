"""Logs that real old brokers wrote: their `.log` files, and the same log served by a newer release.

The brokers' own tools write the records (`ConsoleProducer`) and say what is in the files (`DumpLogSegments`).
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.log import open_log
from ottla.protocol import read_segment
from tests.brokers.brokers import java_tool
from tests.brokers.running import running
from tests.integration.conftest import REAL
from tests.integration.peers.java import VERSION
from tests.integration.test_log_files import as_command_line_shows

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [REAL, pytest.mark.timeout(300)]

CODECS = ("none", "gzip", "snappy", "lz4")
STAMPED = "stamped"
# The magic that a release writes.
RELEASES = {"0.8.2.2": 0, "0.10.2.2": 1}
RECORDS = 40

LINE = re.compile(
    r"offset: (?P<offset>\d+) position: (?P<position>\d+) (?:(?P<kind>\w+)Time: (?P<time>-?\d+) )?isvalid: true "
    r"payloadsize: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: \w+ crc: (?P<crc>\d+) keysize: \d+ "
    r"key: (?P<key>\S+) payload: (?P<value>.*)"
)


@dataclass
class Log:
    """The log of a release, in the folder of its cluster."""

    version: str
    folder: Path
    records: dict[str, list[tuple[int, int, str, bytes, bytes]]] = field(default_factory=dict)
    """By topics, what the release says that it wrote: offset, timestamp, its type, key and value of each record."""
    heads: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """For each record, where its message begins, of several that are compressed together the first, and its own checksum."""

    @property
    def topics(self) -> list[str]:
        return [*CODECS, STAMPED] if RELEASES[self.version] == 1 else [*CODECS]

    def segment(self, topic: str) -> Path:
        return self.folder / "node1" / f"{topic}-0" / "00000000000000000000.log"


def lines(first: int) -> bytes:
    return "".join(f"key-{i}\tvalue {i} {'x' * i}\n" for i in range(first, first + RECORDS)).encode()


def produce(version: str, bootstrap: str, topic: str, first: int) -> None:
    codec = ["--compression-codec", topic] if topic in CODECS[1:] else []
    java_tool(
        version,
        "kafka.tools.ConsoleProducer",
        *("--broker-list", bootstrap, "--topic", topic, *codec),
        # By its defaults it gives up after 0.3 s, while a slow broker still makes the topic.
        *("--message-send-max-retries", "30", "--retry-backoff-ms", "1000", "--request-timeout-ms", "30000"),
        *("--property", "parse.key=true", "--property", "key.separator=\t"),
        data=lines(first),
    )


@pytest.fixture(scope="module", params=["0.8.2.2", pytest.param("0.10.2.2", marks=pytest.mark.nightly)])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    log = Log(request.param, tmp_path_factory.mktemp("old") / "kafka")
    with running(log.folder, grace=10, purge=False, version=log.version) as cluster:
        bootstrap = cluster.st["bootstrap"]["PLAINTEXT"]
        if STAMPED in log.topics:
            java_tool(
                log.version,
                "kafka.admin.TopicCommand",
                *("--zookeeper", f"127.0.0.1:{cluster.ports['ZOOKEEPER']}", "--create", "--topic", STAMPED),
                *("--partitions", "1", "--replication-factor", "1", "--config", "message.timestamp.type=LogAppendTime"),
            )
        for topic in log.topics:
            for first in (0, RECORDS):
                produce(log.version, bootstrap, topic, first)
    dump(log)
    yield log
    shutil.rmtree(log.folder)


def dump(log: Log) -> None:
    """Take the records of each topic as the old release's own tool prints them."""
    files = ",".join(str(log.segment(topic)) for topic in log.topics)
    command = ["--files", files, "--deep-iteration", "--print-data-log"]
    printed = java_tool(log.version, "kafka.tools.DumpLogSegments", *command).decode()
    for part in printed.split("Dumping ")[1:]:
        file, *rest = part.splitlines()
        found = [LINE.fullmatch(line) for line in rest if line.startswith("offset: ")]
        assert all(found), printed
        topic = Path(file).parent.name.removesuffix("-0")
        log.records[topic] = [
            (int(m["offset"]), int(m["time"] or -1), m["kind"] or "", m["key"].encode(), m["value"].encode())
            for m in found
            if m
        ]
        log.heads[topic] = [(int(m["position"]), int(m["crc"])) for m in found if m]


def test_segments_hold_what_the_old_release_says(log: Log) -> None:
    kinds = {None: "", "create": "Create", "append": "LogAppend"}
    for topic in log.topics:
        batches = list(read_segment(log.segment(topic)))
        read = [
            (record.offset, record.timestamp, kinds[batch.timestamp_type], record.key, record.value)
            for batch in batches
            for record in batch.records
        ]
        assert read == log.records[topic], topic
        assert [row[0] for row in read] == list(range(2 * RECORDS))
        whole = [batch for batch in batches for _ in batch.records]
        for (position, crc), batch in zip(log.heads[topic], whole, strict=True):
            assert batch.position == position, topic
            if len(batch.records) == 1:
                assert batch.crc == crc, topic
        shown = as_command_line_shows(log.segment(topic))
        assert [record["offset"] for batch in shown for record in batch["records"]] == list(range(2 * RECORDS))
        assert {batch.magic for batch in batches} == {RELEASES[log.version]}
        assert {batch.compression for batch in batches} == {topic if topic in CODECS else "none"}
        assert batches[-1].position + batches[-1].size == log.segment(topic).stat().st_size


def test_folders_hold_what_the_old_release_says(log: Log) -> None:
    """Wrappers of magic 0 and 1, as columns; also divided where an index says that they begin."""
    kinds = {-1: "", 0: "Create", 1: "LogAppend"}
    folder = open_log(log.folder / "node1")
    for topic in log.topics:
        for most in (10**6, 1_000):
            batches = [b for part in folder.ranges((topic, 0), max_bytes=most) for b in part.read()]
            read = [(r.offset, r.timestamp, kinds[r.timestamp_type], r.key, r.value) for b in batches for r in b]
            assert read == log.records[topic], (topic, most)
        inside = [r.offset for part in folder.ranges((topic, 0), 13, 57) for b in part.read() for r in b]
        assert inside == list(range(13, 57))


def _files_of(segment: Path) -> list[Path]:
    return [segment, segment.parent / "partition.metadata"]


def test_a_newer_release_serves_the_old_log(log: Log, tmp_path: Path) -> None:
    """As after an upgrade: its Fetch answers hold the old messages as they are, and batches after them."""
    newer = Log(VERSION, tmp_path / "kafka")
    with running(newer.folder, grace=10, purge=False, version=newer.version) as cluster:
        bootstrap = cluster.st["bootstrap"]["PLAINTEXT"]
        with ottla.Admin(bootstrap) as admin:
            admin.create_topics([ottla.NewTopic(topic, 1, 1) for topic in log.topics])
        end = time.monotonic() + 20
        # A topic is there before its folder is, and that before its id, without which a broker that begins again makes it anew.
        wanted = [path for topic in log.topics for path in _files_of(newer.segment(topic))]
        while not all(path.exists() for path in wanted) and time.monotonic() < end:
            time.sleep(0.1)
        cluster.kill("node1")
        for topic in log.topics:
            shutil.copy(log.segment(topic), newer.segment(topic))
        cluster.restart(1)
        with ottla.Producer(bootstrap) as producer:
            for topic in log.topics:
                assert producer.send(topic, b"new", key=b"key").result(30).offset == 2 * RECORDS
        types = {"": -1, "Create": 0, "LogAppend": 1}
        for topic in log.topics:
            for start in (0, 7, 2 * RECORDS - 1):
                records = read_from(bootstrap, topic, start)
                old = [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value) for r in records[:-1]]
                assert old == [(o, t, types[kind], k, v) for o, t, kind, k, v in log.records[topic][start:]], topic
                assert (records[-1].key, records[-1].value) == (b"key", b"new")
    for topic in log.topics:
        magics = [batch.magic for batch in read_segment(newer.segment(topic))]
        assert magics == [RELEASES[log.version]] * (len(magics) - 1) + [2]


def read_from(bootstrap: str, topic: str, offset: int) -> list[ottla.Record]:
    """All records from an offset on, up to the one that was added to the old log."""
    records: list[ottla.Record] = []
    end = time.monotonic() + 30
    with ottla.Consumer(bootstrap) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0, offset)])
        while (not records or records[-1].offset < 2 * RECORDS) and time.monotonic() < end:
            records.extend(consumer.poll(1))
    return records
