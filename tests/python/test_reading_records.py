"""`ottla.protocol.decode_records`, on what Kafka's own classes wrote and read."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

import ottla
from ottla import protocol

CORPUS = Path(__file__).parents[1] / "conformance" / "records-4.4.0.jsonl.gz"
TYPES = {"NoTimestampType": None, "CreateTime": "create", "LogAppendTime": "append"}


@pytest.fixture(scope="module")
def corpus():
    with gzip.open(CORPUS, "rt") as lines:
        return [json.loads(line) for line in lines]


def undamaged(corpus):
    lines = [line for line in corpus if "error" not in line and not line["kind"].startswith("damaged")]
    assert len(lines) > 150
    return lines


def bytes_of(text):
    return None if text is None else base64.b64decode(text)


def test_batches_are_read_as_kafka_reads_them(corpus):
    for line in undamaged(corpus):
        data = bytes.fromhex(line["hex"])
        batches = protocol.decode_records(data)
        assert len(batches) == len(line["batches"]), line["kind"]
        at = 0
        for batch, expected in zip(batches, line["batches"], strict=True):
            assert (batch.magic, batch.last_offset, batch.size, batch.position) == (
                expected["magic"],
                expected["lastOffset"],
                expected["size"],
                at,
            )
            assert (batch.compression, batch.timestamp_type) == (expected["codec"], TYPES[expected["timestampType"]])
            assert batch.max_timestamp == expected["maxTimestamp"]
            if batch.magic == 2:
                assert batch.base_offset == expected["baseOffset"]
            assert [(r.offset, r.timestamp, r.key, r.value) for r in batch.records] == [
                (r["offset"], r["timestamp"], bytes_of(r["key"]), bytes_of(r["value"])) for r in expected["records"]
            ]
            for record, wanted in zip(batch.records, expected["records"], strict=True):
                assert [list(h) for h in record.headers] == [[k, bytes_of(v)] for k, v in wanted.get("headers", [])]
            at += batch.size
        assert len(data) - at == line["left"]


def test_control_records_have_schemas(corpus):
    seen = set()
    for line in undamaged(corpus):
        if not line["kind"].startswith("control/"):
            continue
        for batch in protocol.decode_records(bytes.fromhex(line["hex"])):
            assert batch.control
            for record in batch.records:
                decoded = protocol.decode_control(record.key, record.value, form="json")
                assert decoded.value.name in protocol.MESSAGES
                seen.add(decoded.name)
    assert seen == {
        "Abort",
        "Commit",
        "LeaderChange",
        "SnapshotHeader",
        "SnapshotFooter",
        "KRaftVersion",
        "KRaftVoters",
    }


def test_a_wrong_checksum_names_its_place(corpus):
    good = next(bytes.fromhex(line["hex"]) for line in corpus if line["kind"] == "magic2/none/CreateTime")
    bad = bytearray(good)
    bad[-1] ^= 1
    with pytest.raises(ottla.errors.CorruptRecordError, match=f"at byte {len(good)}: .*CRC"):
        protocol.decode_records(good + bad)
    assert len(protocol.decode_records(good + bytes(bad[:-1]))) == 1, "what is cut short is no damage"


def test_decompression_is_bounded(corpus):
    line = next(line for line in corpus if line["kind"] == "magic2/zstd/LogAppendTime")
    data = bytes.fromhex(line["hex"])
    with pytest.raises(ottla.errors.CorruptRecordError, match="at byte 0"):
        protocol.decode_records(data, limit=3)
