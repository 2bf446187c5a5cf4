"""Records of internal topics: the corpus that Kafka's classes wrote, each message behind the prefix that its topic has."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import ottla
from ottla import protocol

CONFORMANCE = Path(__file__).parents[1] / "conformance"
ENCODED = {"default", "nulls", "min", "max", "full", "random", "long", "tags"}
TOPIC_OF = {"TransactionLog": "__transaction_state", "ShareSnapshot": "__share_group_state"}
TOPIC_OF["ShareUpdate"] = TOPIC_OF["ShareSnapshot"]


@pytest.fixture(scope="module")
def samples():
    """The corpus' lines about internal topics."""
    found = []
    for name in ("schemas-4.4.0.jsonl.gz", "schemas-3.9.1-only.jsonl.gz"):
        with gzip.open(CONFORMANCE / name, "rt") as lines:
            for text in lines:
                line = json.loads(text)
                if line["type"] in {"coordinator-key", "coordinator-value", "metadata"} and line["kind"] in ENCODED:
                    found.append(line)
    return found


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def of_type(samples, kind):
    lines = [line for line in samples if line["type"] == kind]
    assert len(lines) > 100
    return lines


def topic_of(name):
    stem = name.removesuffix("Key").removesuffix("Value")
    return TOPIC_OF.get(stem, "__consumer_offsets")


def test_keys_of_the_corpus(samples):
    lines = of_type(samples, "coordinator-key")
    for line in lines:
        key = line["api"].to_bytes(2, "big") + bytes.fromhex(line["hex"])
        record = protocol.decode_internal(topic_of(line["name"]), key, None, form="json")
        assert (record.type, record.name) == (line["api"], line["name"].removesuffix("Key"))
        assert record.key == protocol.InternalPart(line["name"], 0, line["json"])
        assert record.value is None
    assert len({line["name"] for line in lines}) == 25


def test_values_of_the_corpus(samples):
    lines = of_type(samples, "coordinator-value")
    keys = {
        line["api"]: line["hex"]
        for line in of_type(samples, "coordinator-key")
        if topic_of(line["name"]) == "__consumer_offsets"
    }
    others = {line["name"].removesuffix("Key"): line["hex"] for line in of_type(samples, "coordinator-key")}
    for line in lines:
        number, version = line["api"], line["v"]
        stem = line["name"].removesuffix("Value")
        key = number.to_bytes(2, "big") + bytes.fromhex(others.get(stem) or keys[number])
        value = version.to_bytes(2, "big") + bytes.fromhex(line["hex"])
        record = protocol.decode_internal(topic_of(line["name"]), key, value, form="json")
        assert record.value == protocol.InternalPart(line["name"], version, line["json"])


def test_metadata_of_the_corpus(samples):
    for line in of_type(samples, "metadata"):
        remote = line["name"].startswith(("RemoteLog", "RemotePartition"))
        value = b"\x01" + varint(line["api"]) + varint(line["v"]) + bytes.fromhex(line["hex"])
        record = protocol.decode_internal(
            "__remote_log_metadata" if remote else "__cluster_metadata", None, value, form="json"
        )
        assert (record.type, record.name, record.key) == (line["api"], line["name"], None)
        assert record.value == protocol.InternalPart(line["name"], line["v"], line["json"])


def test_unknown_types_and_versions_are_shown_as_they_came():
    record = protocol.decode_internal("__consumer_offsets", b"\x7f\x00key", b"\x00\x05value")
    assert record == protocol.InternalRecord(
        0x7F00, None, protocol.InternalPart(None, 0, b"key"), protocol.InternalPart(None, 5, b"value")
    )
    newer = protocol.decode_internal("__cluster_metadata", None, b"\x01\x02\x7fbytes", form="json")
    assert newer == protocol.InternalRecord(2, "TopicRecord", None, protocol.InternalPart(None, 127, "Ynl0ZXM="))


def test_values_of_legacy_commits_may_be_newer():
    key = bytes.fromhex("0000 0001 67 0001 74 00000003")
    old = protocol.decode_internal(
        "__consumer_offsets", key, bytes.fromhex("0000 0000000000000009 0000 0000000000000005"), form="json"
    )
    new = protocol.decode_internal(
        "__consumer_offsets",
        key,
        bytes.fromhex("0001 0000000000000009 0000 0000000000000005 0000000000000006"),
        form="json",
    )
    assert old.name == new.name == "LegacyOffsetCommit"
    assert old.key.data == {"group": "g", "topic": "t", "partition": 3}
    assert (old.value.name, new.value.name) == ("LegacyOffsetCommitValue", "OffsetCommitValue")
    assert new.value.data == {"offset": 9, "metadata": "", "commitTimestamp": 5, "expireTimestamp": 6}


def test_control_records():
    end = protocol.decode_control(b"\0\0\0\0", bytes.fromhex("0000 00000007"), form="json")
    assert (end.type, end.name) == (0, "Abort")
    assert end.value == protocol.InternalPart("EndTxnMarker", 0, {"coordinatorEpoch": 7})
    unknown = protocol.decode_control(b"\0\0\0\x63", b"\0\0data")
    assert (unknown.type, unknown.name, unknown.value.data) == (99, None, b"data")


@pytest.mark.parametrize(
    ("topic", "key", "value", "text"),
    [
        ("__consumer_offsets", None, None, "key: null"),
        ("__consumer_offsets", b"\0", None, "key.type: 2 bytes needed, 1 left"),
        ("__consumer_offsets", b"\0\x01\0\x05ab", None, "OffsetCommitKey.group: 5 bytes needed, 2 left"),
        ("__consumer_offsets", b"\0\x02\0\x01ab", None, "left over"),
        (
            "__transaction_state",
            b"\0\0\0\0",
            b"\0\x01\0",
            "TransactionLogValue.producer_?[iI]d: 8 bytes needed, 1 left",
        ),
        ("__cluster_metadata", b"key", b"\x01\x02\0", "key: 3 bytes left over"),
        ("__cluster_metadata", None, b"\0\x02\0", "value.frameVersion"),
        ("__share_group_state", b"\0\0", None, "ShareSnapshotKey.group_?[iI]d"),
    ],
)
def test_errors_say_where(topic, key, value, text):
    with pytest.raises(ottla.errors.ProtocolError, match=text):
        protocol.decode_internal(topic, key, value, form="json")


def test_other_topics_have_no_schema():
    with pytest.raises(ottla.errors.ArgumentError, match=r"'orders'.*__consumer_offsets"):
        protocol.decode_internal("orders", b"", b"")


@pytest.mark.parametrize("wrong", [5, "text"])
def test_keys_and_values_are_bytes_like(wrong):
    for key, value in ((wrong, None), (b"", wrong)):
        with pytest.raises(TypeError, match="bytes-like"):
            protocol.decode_internal("__consumer_offsets", key, value)
        with pytest.raises(TypeError, match="bytes-like"):
            protocol.decode_control(key, value)
