"""The files of real brokers: each record as Kafka's own DumpLogSegments shows it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla import protocol
from tests.brokers.brokers import java_tool
from tests.integration.conftest import REAL
from tests.integration.peers.base import DEADLINE, until
from tests.integration.peers.java import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.brokers.brokers import Cluster

pytestmark = [REAL, pytest.mark.timeout(300)]
SEGMENT = "00000000000000000000.log"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}


def copied(cluster: Cluster, folder: str, to: Path) -> Path:
    """A copy of the segment, which the broker cannot append to between our look at it and the tool's."""
    (to / folder).mkdir(parents=True)
    return Path(shutil.copy(Path(cluster.st["dir"]) / "node1" / folder / SEGMENT, to / folder))


def dumped(path: Path, *options: str) -> list[str]:
    main = "org.apache.kafka.tools.DumpLogSegments"
    return java_tool(VERSION, main, "--files", str(path), *options).decode().splitlines()


def facts(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+): (\S+)", line))


def after(line: str, name: str) -> Any:
    """The JSON that follows a name in a line."""
    found, _ = json.JSONDecoder().raw_decode(line, line.index(f" {name}: ") + len(name) + 3)
    return found


def as_command_line_shows(path: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "ottla", "decode", "--format", "json", str(path)]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def busy(start_kafka: Callable[..., Cluster], new_topic: Callable[..., str]) -> tuple[Cluster, str]:
    """A broker and a topic: after transactions, and groups of both protocols that committed and that were deleted.

    Nobody else uses the broker: its internal topics are read, too.
    """
    cluster = start_kafka()
    kafka = cluster.st["bootstrap"]["PLAINTEXT"]
    topic = new_topic(kafka)
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 50})
        for i in range(20):
            headers = [("h", b"\xff\x00"), ("n", None)] if i % 2 else None
            producer.produce(topic, f"{codec} value {i}" * 5, f"k{i}", headers=headers, timestamp=1_700_000_000_000 + i)
        producer.produce(topic, None, "gone")
        assert producer.flush(DEADLINE) == 0
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": "log-files"})
    producer.init_transactions(DEADLINE)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"in a transaction")
        producer.flush(DEADLINE)
        end(DEADLINE)
    for kind in ("classic", "consumer"):
        group = {"group.id": f"log-files-{kind}", "group.protocol": kind, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": kafka, "auto.offset.reset": "earliest", **group})
        consumer.subscribe([topic])
        for _ in until(DEADLINE, "a record"):
            if consumer.poll(0.5):
                break
        consumer.commit(offsets=[TopicPartition(topic, 0, 7, "a note")], asynchronous=False)
        consumer.close()
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_consumer_groups(["log-files-classic"]).values():
        future.result(DEADLINE)
    return cluster, topic


def test_batches_and_records(busy: tuple[Cluster, str], tmp_path: Path) -> None:
    cluster, topic = busy
    path = copied(cluster, f"{topic}-0", tmp_path)
    lines = dumped(path, "--print-data-log")
    batches = list(protocol.read_segment(path))

    heads = [facts(line) for line in lines if line.startswith("baseOffset")]
    assert [
        (b.base_offset, b.last_offset, b.position, b.size, b.crc, b.magic, b.compression, b.max_timestamp)
        for b in batches
    ] == [
        (
            *(int(h[k]) for k in ("baseOffset", "lastOffset", "position", "size", "crc", "magic")),
            h["compresscodec"],
            int(h["CreateTime"]),
        )
        for h in heads
    ]
    for batch, head in zip(batches, heads, strict=True):
        assert (batch.producer_id, batch.producer_epoch) == (int(head["producerId"]), int(head["producerEpoch"]))
        assert (batch.base_sequence, batch.leader_epoch) == (
            int(head["baseSequence"]),
            int(head["partitionLeaderEpoch"]),
        )
        flags = (str(batch.transactional).lower(), str(batch.control).lower())
        assert flags == (head["isTransactional"], head["isControl"])
    assert {b.compression for b in batches} == set(CODECS)

    shown = [line for line in lines if line.startswith("| offset")]
    records = [(batch, record) for batch in batches for record in batch.records]
    for line, (batch, record) in zip(shown, records, strict=True):
        head = facts(line)
        assert (int(head["offset"]), int(head["CreateTime"])) == (record.offset, record.timestamp)
        names = [name for name, _ in record.headers]
        assert f"headerKeys: [{','.join(names)}]" in line
        if batch.control:
            end = protocol.decode_control(record.key, record.value)
            assert f"endTxnMarker: {end.name.upper()} coordinatorEpoch: {end.value.data['coordinatorEpoch']}" in line
            continue
        assert (line.split(" key: ")[1].split(" payload: ")[0] if " key: " in line else None) == text(record.key)
        assert (line.split(" payload: ")[1] if " payload: " in line else None) == text(record.value)
    assert [r["offset"] for b in as_command_line_shows(path) for r in b["records"]] == [r.offset for _, r in records]


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def consumer_protocol(data: dict[str, Any]) -> dict[str, Any]:
    """A group's metadata with what its members are about, which the tool decodes as well."""
    if data.get("protocolType") == "consumer":
        for member in data["members"]:
            for field, name in (
                ("subscription", "ConsumerProtocolSubscription"),
                ("assignment", "ConsumerProtocolAssignment"),
            ):
                blob = base64.b64decode(member[field])
                if blob:
                    member[field] = protocol.decode(name, int.from_bytes(blob[:2], "big"), blob[2:], form="json")
    return data


@pytest.mark.parametrize("topic", list(DECODERS))
def test_internal_topics(busy: tuple[Cluster, str], tmp_path: Path, topic: str) -> None:
    cluster, _ = busy
    folders = (Path(cluster.st["dir"]) / "node1").glob(f"{topic}-*")
    compared: dict[str, int] = {}
    for folder in folders:
        if not (folder / SEGMENT).stat().st_size:
            continue
        path = copied(cluster, folder.name, tmp_path)
        lines = [line for line in dumped(path, DECODERS[topic]) if line.startswith("| offset")]
        records = [(batch, record) for batch in protocol.read_segment(path) for record in batch.records]
        for line, (batch, record) in zip(lines, records, strict=True):
            assert int(facts(line)["offset"]) == record.offset
            if batch.control:
                decoded = protocol.decode_control(record.key, record.value, form="json")
                if decoded.name not in {"Commit", "Abort"}:
                    assert after(line, str(decoded.name)) == decoded.value.data
            else:
                decoded = protocol.decode_internal(topic, record.key, record.value, form="json")
                compare(line, decoded)
            compared[str(decoded.name)] = compared.get(str(decoded.name), 0) + 1
        shown = [record for batch in as_command_line_shows(path) for record in batch["records"]]
        assert [record["offset"] for record in shown] == [record.offset for _, record in records]
        assert not any("undecoded" in json.dumps(record) for record in shown)
    expected = {
        "__consumer_offsets": {"OffsetCommit", "GroupMetadata", "ConsumerGroupMemberMetadata", "ConsumerGroupMetadata"},
        "__transaction_state": {"TransactionLog"},
        "__cluster_metadata": {
            "LeaderChange",
            "RegisterBrokerRecord",
            "TopicRecord",
            "PartitionRecord",
            "FeatureLevelRecord",
        },
    }
    assert compared.keys() >= expected[topic], compared


def compare(line: str, decoded: protocol.InternalRecord) -> None:
    """One record as the tool and as we show it."""
    if decoded.key is not None:
        key = after(line, "key")
        assert (key["type"], key["data"]) == (str(decoded.type), decoded.key.data)
    if line.endswith("<DELETE>"):
        assert decoded.value is None
        return
    value = after(line, "payload")
    assert decoded.value is not None
    assert str(value["version"]) == str(decoded.value.version)
    assert value["data"] == consumer_protocol(decoded.value.data)
    if "type" in value:
        assert value["type"].replace("_", "").lower() == str(decoded.name).lower()


def test_damage_in_a_real_segment(busy: tuple[Cluster, str], tmp_path: Path) -> None:
    cluster, topic = busy
    path = copied(cluster, f"{topic}-0", tmp_path)
    good = list(protocol.read_segment(path))
    data = bytearray(path.read_bytes())
    data[good[1].position + 70] ^= 1
    path.write_bytes(data[: -good[-1].size // 2] + bytes(1000))
    command = [sys.executable, "-m", "ottla", "decode", "--format", "json", str(path)]

    stopped = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False, text=True)
    assert stopped.returncode == 1
    assert [json.loads(line)["position"] for line in stopped.stdout.splitlines()] == [0]
    assert stopped.stderr.count("\n") == 1
    assert f"at byte {good[1].position} are damaged" in stopped.stderr

    skipped = subprocess.run(
        [*command, "--skip-damaged"], capture_output=True, timeout=DEADLINE, check=False, text=True
    )
    assert skipped.returncode == 0
    kept = [good[0], *good[2:-1]]
    assert [json.loads(line)["position"] for line in skipped.stdout.splitlines()] == [b.position for b in kept]
    assert [
        f"at byte {b.position} are damaged" in line
        for b, line in zip([good[1], good[-1]], skipped.stderr.splitlines(), strict=True)
    ] == [True] * 2
