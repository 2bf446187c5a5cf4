"""`ottla.protocol.encode_records`: other codecs read what it writes, and it reads what they write, in every format."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import aiokafka.record.memory_records as aio_records
import kafka.record.memory_records as sync_records
import pytest

from ottla import protocol
from ottla.errors import ArgumentError, CorruptRecordError, ProtocolError
from ottla.protocol import Record

CORPUS = Path(__file__).parents[1] / "conformance" / "records-4.4.0.jsonl.gz"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PAIRS = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS if magic == 2 or codec != "zstd"]
# Neither of the others has the checksum of its own that lz4 has in magic 0; the corpus of Kafka's classes does.
FOREIGN = [pair for pair in PAIRS if pair != (0, "lz4")]
SAMPLE = [(b"value %d" % i * (i % 7), None if i % 3 else b"key %d" % i, 1_700_000_000_000 + i) for i in range(50)]


def sample(magic):
    headers = (("h", b"1"), ("none", None), ("h", b"")) if magic == 2 else ()
    return [
        Record(None if i == 4 else value, key, timestamp if magic else -1, headers if i % 2 else ())
        for i, (value, key, timestamp) in enumerate(SAMPLE)
    ]


@pytest.mark.parametrize("module", [sync_records, aio_records], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize(("magic", "codec"), FOREIGN)
def test_foreign_codecs_read_what_we_write(module, magic, codec):
    records = sample(magic)
    data = protocol.encode_records(records, magic=magic, compression=codec, base_offset=100)
    theirs = module.MemoryRecords(data)
    found = []
    while theirs.has_next():
        batch = theirs.next_batch()
        assert batch.validate_crc()
        found += [(r.offset, r.timestamp, r.key, r.value, tuple(map(tuple, r.headers or ()))) for r in batch]
    expected = [
        (100 + i, r.timestamp if magic else None, r.key, r.value, tuple(r.headers)) for i, r in enumerate(records)
    ]
    assert [(o, t if magic else None, k, v, h) for o, t, k, v, h in found] == expected


@pytest.mark.parametrize(("magic", "codec"), FOREIGN)
def test_what_kafka_python_writes_is_read(magic, codec):
    records = sample(magic)
    builder = sync_records.MemoryRecordsBuilder(magic, CODECS.index(codec), 1 << 20)
    for record in records:
        headers = [(name, value) for name, value in record.headers if value is not None]
        builder.append(record.timestamp if magic else None, record.key, record.value, headers or [])
    builder.close()
    found = [r for batch in protocol.decode_records(builder.buffer()) for r in batch.records]
    assert [(r.offset, r.key, r.value) for r in found] == [(i, r.key, r.value) for i, r in enumerate(records)]
    if magic:
        assert [r.timestamp for r in found] == [r.timestamp for r in records]


@pytest.mark.parametrize(("magic", "codec"), PAIRS)
def test_what_is_written_comes_back(magic, codec):
    records = sample(magic)
    data = protocol.encode_records(records, magic=magic, compression=codec, base_offset=7)
    found = [r for batch in protocol.decode_records(data) for r in batch.records]
    assert found == [r._replace(offset=7 + i) for i, r in enumerate(records)]
    assert {batch.compression for batch in protocol.decode_records(data)} == {codec}


def test_batches_of_the_corpus_are_written_as_kafka_writes_them():
    seen = set()
    with gzip.open(CORPUS, "rt") as lines:
        for text in lines:
            line = json.loads(text)
            if not line.get("canonical") or len(line["batches"]) != 1 or line["batches"][0]["magic"] != 2:
                continue
            data = bytes.fromhex(line["hex"])[: line["used"]]
            (batch,) = protocol.decode_records(data)
            if "horizon" in line["kind"]:
                continue  # set by compaction, not by who writes
            times = [record.timestamp for record in batch.records]
            if not batch.records or batch.timestamp_type == "append" or batch.records[0].offset != batch.base_offset:
                continue  # a first timestamp that differs, or none, cannot be asked for
            again = protocol.encode_records(
                batch.records,
                compression=batch.compression,
                base_offset=batch.base_offset,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                leader_epoch=batch.leader_epoch,
                transactional=batch.transactional,
                control=batch.control,
            )
            if batch.last_offset == batch.records[-1].offset and batch.max_timestamp == max(times):
                assert again == data, line["kind"]
                seen.add(line["kind"])
    assert len(seen) >= 3, seen


def test_the_header_says_what_was_asked():
    data = protocol.encode_records(
        [Record(b"v", timestamp=5), Record(b"w", timestamp=9)],
        base_offset=1 << 40,
        timestamp_type="append",
        producer_id=1 << 50,
        producer_epoch=3,
        base_sequence=4,
        leader_epoch=2,
        transactional=True,
        control=True,
    )
    (batch,) = protocol.decode_records(data)
    assert (batch.base_offset, batch.last_offset, batch.timestamp_type) == (1 << 40, (1 << 40) + 1, "append")
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.leader_epoch) == (1 << 50, 3, 4, 2)
    assert (batch.transactional, batch.control, batch.max_timestamp) == (True, True, 9)
    assert [record.timestamp for record in batch.records] == [9, 9]
    assert pickle.loads(pickle.dumps(batch)) == batch


def test_timestamps_of_the_broker_in_magic_1():
    records = [Record(b"v", timestamp=5), Record(b"w", timestamp=9)]
    batches = protocol.decode_records(protocol.encode_records(records, magic=1, timestamp_type="append"))
    assert {batch.timestamp_type for batch in batches} == {"append"}
    assert [record.timestamp for batch in batches for record in batch.records] == [9, 9]


def test_offsets_may_have_gaps():
    records = [Record(b"a", offset=12), Record(b"b"), Record(b"c", offset=20)]
    for magic in (0, 1, 2):
        data = protocol.encode_records(records, magic=magic, base_offset=10)
        found = [r.offset for batch in protocol.decode_records(data) for r in batch.records]
        assert found == [12, 13, 20], magic


@pytest.mark.parametrize(("codec", "levels"), [("gzip", (1, 9)), ("zstd", (1, 19)), ("lz4", (1, 12))])
def test_levels(codec, levels):
    records = [Record(b"the quick brown fox %d " % (i * i)) for i in range(2000)]
    fast, small = (protocol.encode_records(records, compression=codec, level=level) for level in levels)
    assert len(small) <= len(fast)
    for data in (fast, small):
        assert len(protocol.decode_records(data)[0].records) == 2000


def test_no_records_are_no_bytes():
    for magic in (0, 1, 2):
        assert protocol.encode_records([], magic=magic) == b""


def test_values_are_bytes_like():
    data = protocol.encode_records([Record(bytearray(b"v"), memoryview(b"k"), 5, [["h", bytearray(b"x")]])])
    assert protocol.decode_records(bytearray(data))[0].records == [Record(b"v", b"k", 5, (("h", b"x"),), 0)]
    assert protocol.encode_records(iter([(b"v", b"k", 5, [("h", b"x")])])) == data


@pytest.mark.parametrize(
    ("records", "options", "error", "text"),
    [
        ([], {"magic": 3}, ArgumentError, "magic is 0, 1 or 2, and was 3"),
        ([], {"compression": "brotli"}, ArgumentError, 'unknown compression "brotli"'),
        ([], {"compression": "gzip", "level": 10}, ArgumentError, "compression level 10 of gzip"),
        ([], {"timestamp_type": "x"}, ArgumentError, "timestamp_type is"),
        ([], {"magic": 1, "producer_id": 5}, ArgumentError, "magic 1 has no place for producers"),
        ([], {"producer_epoch": 2**15}, ArgumentError, "producer_epoch is an int16, and was 32768"),
        ([], {"base_sequence": 2**31}, ArgumentError, "base_sequence is an int32, and was 2147483648"),
        ([], {"leader_epoch": -(2**31) - 1}, ArgumentError, "leader_epoch is an int32, and was -2147483649"),
        ([], {"producer_id": 2**63}, ArgumentError, "producer_id is an int64, and was 9223372036854775808"),
        ([], {"base_offset": 2**63}, ArgumentError, "base_offset is an int64, and was 9223372036854775808"),
        ([], {"magic": 0, "timestamp_type": "append"}, ArgumentError, "magic 0 has no timestamps"),
        (
            [Record(), Record(timestamp=5)],
            {"magic": 0},
            ProtocolError,
            "records[1].timestamp: magic 0 has no timestamps",
        ),
        ([Record(b"")], {"magic": 1, "compression": "zstd"}, ProtocolError, "zstd"),
        ([Record("text")], {}, ProtocolError, "records[0].value: bytes or None wanted, str given"),
        ([Record(), Record(key=5)], {}, ProtocolError, "records[1].key: bytes or None wanted, int given"),
        ([Record(timestamp=2**63)], {}, ProtocolError, "records[0].timestamp: 9223372036854775808 is not an int64"),
        (
            [Record(headers=[(b"h", b"")])],
            {},
            ProtocolError,
            "records[0].headers[0]: a pair of a str and bytes or None",
        ),
        ([Record(headers=[("h", "x")])], {}, ProtocolError, "records[0].headers[0]: bytes or None wanted, str given"),
        ([Record(headers=[("h", b"")])], {"magic": 1}, ProtocolError, "records[0].headers: magic 1 has no headers"),
        ([Record(offset=4)], {"base_offset": 5}, ProtocolError, "records[0].offset: 4 is not from base_offset 5"),
        ([Record(offset=2**31)], {}, ProtocolError, "records[0].offset: 2147483648 is not from base_offset 0"),
        ([Record(offset=4), Record(offset=4)], {}, ProtocolError, "records[1]: "),
        ([Record(offset=4), Record(offset=3)], {"magic": 1}, ProtocolError, "records[1]: "),
    ],
)
def test_what_cannot_be_written(records, options, error, text):
    with pytest.raises(error) as refused:
        protocol.encode_records(records, **options)
    assert text in str(refused.value)


def test_a_limit_holds_for_all_batches_together():
    data = protocol.encode_records([Record(bytes(100_000))], compression="gzip")
    assert len(protocol.decode_records(data * 2, limit=250_000)) == 2
    with pytest.raises(ArgumentError, match="limit is 0 or more bytes, and was -1"):
        protocol.decode_records(data, limit=-1)
    with pytest.raises(CorruptRecordError, match=f"at byte {len(data)}: .*decompresses to more than"):
        protocol.decode_records(data * 2, limit=150_000)


def test_checksums_are_checked_unless_told_not_to():
    data = bytearray(protocol.encode_records([Record(b"value")]))
    data[-2] ^= 1
    with pytest.raises(CorruptRecordError, match="at byte 0: .* its CRC is"):
        protocol.decode_records(data)
    assert protocol.decode_records(data, check_crcs=False)[0].records[0].value != b"value"
