"""What becomes of old records: the embedded broker deletes and compacts as real Kafka does, and Kafka reads what it leaves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import protocol
from ottla.protocol import Record
from ottla.testing import Broker
from tests.brokers.brokers import java_tool
from tests.integration.conftest import REAL
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.java import VERSION, Java
from tests.waiting import wait_until
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]
# Both look at their logs all the time.
IMPATIENT = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "100"}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SECOND = 1_000


@pytest.fixture(scope="module")
def impatient(start_kafka: Callable[..., Cluster]) -> str:
    cluster = start_kafka(config={**IMPATIENT, "log.initial.task.delay.ms": "100"})
    return str(cluster.st["bootstrap"]["PLAINTEXT"])


def produce(bootstrap: str, topic: str, *batches: bytes) -> None:
    """Each batch as it is."""
    with Connection(bootstrap) as connection:
        for batch in batches:
            data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
            request = {"acks": -1, "timeout_ms": 10_000, "topic_data": data}

            def is_taken(request: dict[str, Any] = request) -> bool:
                answer = connection.ask("Produce", 9, request)
                code = answer["responses"][0]["partition_responses"][0]["error_code"]
                assert code in (0, 3, 6), "anything but a leader that is not there yet"
                return bool(code == 0)

            wait_until(is_taken, "the batch is taken")


def earliest(bootstrap: str, topic: str) -> int:
    with ottla.Consumer(bootstrap) as consumer:
        partition = ottla.TopicPartition(topic, 0)
        return consumer.beginning_offsets([partition])[partition]


def log_of(bootstrap: str, topic: str) -> list[Any]:
    """All batches of a log without what each broker chooses: leader epochs, and with them nothing else."""
    rows, offset = list[Any](), 0
    with Connection(bootstrap) as connection:
        while True:
            partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            asked = {"topic": topic, "partitions": [partition]}
            request = {"replica_id": -1, "max_bytes": 1 << 20, "session_epoch": -1, "topics": [asked]}
            answer = connection.ask("Fetch", 12, request)
            found = answer["responses"][0]["partitions"][0]
            assert found["error_code"] == 0
            batches = protocol.decode_records(found["records"] or b"")
            if not batches:
                return rows
            rows += [
                (
                    *(b.base_offset, b.last_offset, b.compression, b.max_timestamp),
                    *(b.producer_id, b.producer_epoch, b.base_sequence),
                    [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in b.records],
                )
                for b in batches
            ]
            offset = batches[-1].last_offset + 1


def written(start: int) -> list[bytes]:
    """Batches that replace each other in part and as a whole, of all codecs, of a producer and of nobody, with tombstones."""
    batches, sequence = [], 0
    for number in range(30):
        time_ = start + number * 10 * SECOND
        keys = [f"{(number * 7 + i * 5) % 11}" for i in range(4)]
        if number % 5 == 0:
            keys = ["often"] * 4
        producer: dict[str, Any] = {}
        if number % 3 == 0:
            producer = {"producer_id": 100 + number % 2, "producer_epoch": 0, "base_sequence": sequence // 2 * 4}
            sequence += 1
        records = [
            Record(
                None if (number + i) % 6 == 0 else b"%d %d" % (number, i),
                key.encode(),
                # An empty batch keeps the greatest time that it had before: that depends on when it was cleaned first.
                time_ + (0 if producer else i),
                [("h", b"%d" % i)] if i % 2 else [],
            )
            for i, key in enumerate(keys)
        ]
        batches.append(protocol.encode_records(records, compression=CODECS[number % 5], **producer))
    return batches


def test_a_log_is_compacted_as_by_kafka(impatient: str, new_topic: Callable[..., str], tmp_path: Path) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.0"}
    batches = written(round(time.time() * SECOND) - 600 * SECOND)
    theirs = new_topic(impatient, 1, config)
    produce(impatient, theirs, *batches)
    with Broker(data_dir=tmp_path, config=IMPATIENT) as broker, Broker(config=IMPATIENT) as in_memory:
        for bootstrap in (broker.bootstrap_servers, in_memory.bootstrap_servers):
            ours = new_topic(bootstrap, 1, config)
            produce(bootstrap, ours, *batches)
            wait_until(lambda b=bootstrap, t=ours: log_of(b, t) == log_of(impatient, theirs), "both logs are alike")  # type: ignore[misc]
            left = log_of(bootstrap, ours)
            assert len(left) < len(batches), "nothing was compacted"
            assert any(not row[-1] for row in left), "the last batch of a producer is empty"
        topic = new_topic(broker.bootstrap_servers, 1, config)
        produce(broker.bootstrap_servers, topic, *batches)
        wait_until(lambda: log_of(broker.bootstrap_servers, topic) == left, "it is compacted")
        records = [record for row in left for record in row[-1]]
        read = Java().consume(broker.bootstrap_servers, topic, 1, len(records))
        assert [(m.offset, m.key, m.value) for m in read] == [(r[0], r[2], r[3]) for r in records]
    for folder in tmp_path.glob("topic-*-0"):
        logs = sorted(folder.glob("*.log"))
        files = ",".join(map(str, logs))
        shown = java_tool(
            VERSION,
            "org.apache.kafka.tools.DumpLogSegments",
            *("--files", files, "--deep-iteration"),
            timeout=DEADLINE,
        ).decode()
        assert "isvalid: false" not in shown
        assert shown.count("| offset: ") == len(records)
    with Broker(data_dir=tmp_path) as broker:
        assert log_of(broker.bootstrap_servers, topic) == left


def test_old_records_go_as_by_kafka(impatient: str, new_topic: Callable[..., str]) -> None:
    """By time, and by time where a log is compacted as well; a log that is only compacted keeps its old keys."""
    now = round(time.time() * SECOND)
    ages = [900, 800, 790, 500, 650, 400, 60, 30, 20]
    batches = [protocol.encode_records([Record(b"v", b"%d" % age, now - age * SECOND)]) for age in ages]
    # A log that were cleaned would have fewer segments, and so keep more.
    base = {"segment.ms": "50000", "retention.ms": "600000", "min.cleanable.dirty.ratio": "1.0"}
    policies = {"delete": 3, "compact,delete": 3, "compact": 0}
    with Broker(config=IMPATIENT) as broker:
        for policy, start in policies.items():
            for bootstrap in (broker.bootstrap_servers, impatient):
                topic = new_topic(bootstrap, 1, {**base, "cleanup.policy": policy})
                produce(bootstrap, topic, *batches)
                wait_until(lambda b=bootstrap, t=topic, s=start: earliest(b, t) == s, f"{policy}: {start} is first")  # type: ignore[misc]
                time.sleep(0.5)  # room for what must not go
                assert earliest(bootstrap, topic) == start


def test_what_is_too_much_goes_as_by_kafka(impatient: str, new_topic: Callable[..., str]) -> None:
    """A segment goes where the rest is still as large as `retention.bytes`; the one that is written to stays."""
    now = round(time.time() * SECOND)
    batches = [
        protocol.encode_records([Record(b"v" * 100, timestamp=now - age * SECOND)]) for age in range(480, 0, -60)
    ]
    (size,) = {len(batch) for batch in batches}
    base = {"segment.ms": "50000", "retention.ms": "-1"}
    with Broker(config=IMPATIENT) as broker:
        for most, start in {4 * size: 4, 4 * size + 1: 3, size * 7 // 2: 4, 1: 7, 100 * size: 0, -1: 0}.items():
            for bootstrap in (broker.bootstrap_servers, impatient):
                topic = new_topic(bootstrap, 1, {**base, "retention.bytes": str(most)})
                produce(bootstrap, topic, *batches)
                wait_until(lambda b=bootstrap, t=topic, s=start: earliest(b, t) == s, f"{most} bytes: {start} is first")  # type: ignore[misc]
                time.sleep(0.3)  # room for what must not go
                assert earliest(bootstrap, topic) == start


def test_all_that_is_old_goes_and_writing_goes_on(impatient: str, new_topic: Callable[..., str]) -> None:
    old = protocol.encode_records([Record(b"v", timestamp=1_000), Record(b"w", timestamp=2_000)])
    with Broker(config=IMPATIENT) as broker:
        for bootstrap in (broker.bootstrap_servers, impatient):
            topic = new_topic(bootstrap, 1, {"retention.ms": "600000"})
            produce(bootstrap, topic, old)
            wait_until(lambda b=bootstrap, t=topic: earliest(b, t) == 2, "all has gone")  # type: ignore[misc]
            produce(bootstrap, topic, old)
            wait_until(lambda b=bootstrap, t=topic: earliest(b, t) == 4, "this too")  # type: ignore[misc]


def test_the_settings_are_told(new_topic: Callable[..., str]) -> None:
    given = {
        "retention.ms": "1234",
        "segment.ms": "77",
        "cleanup.policy": "compact,delete",
        "min.compaction.lag.ms": "5",
    }
    with Broker(config={"log.retention.bytes": "999", "log.cleaner.delete.retention.ms": "8"}) as broker:
        topic = new_topic(broker.bootstrap_servers, 1, given)
        with Connection(broker.bootstrap_servers) as connection:
            resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
            answer = connection.ask("DescribeConfigs", 4, {"resources": [resource]})
    told = {row["name"]: row["value"] for row in answer["results"][0]["configs"]}
    assert {name: told[name] for name in given} == given
    assert (told["retention.bytes"], told["delete.retention.ms"]) == ("999", "8")
