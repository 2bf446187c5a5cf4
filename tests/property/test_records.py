"""Random record batches and message sets, of every magic, codec and level: through Python and back, and read by Kafka."""

from __future__ import annotations

import base64
import os
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla import protocol
from ottla.errors import CorruptRecordError
from ottla.protocol import Record
from tests.conformance import kafka as java

SEED = os.environ.get("OTTLA_SEED")
CODECS = {0: ("none", "gzip", "snappy", "lz4"), 1: ("none", "gzip", "snappy", "lz4")}
CODECS[2] = (*CODECS[0], "zstd")
# Levels that the codecs have; snappy has none.
LEVELS = {"gzip": tuple(range(1, 10)), "lz4": tuple(range(1, 18)), "zstd": (-7, -1, 1, 3, 10, 19, 22)}
STAMP = 1_600_000_000_000


def payloads() -> st.SearchStrategy[bytes | None]:
    return st.none() | st.binary(max_size=20) | st.integers(0, 300).map(b"ab".__mul__)


def records(magic: int) -> st.SearchStrategy[list[Record]]:
    headers = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=6)), max_size=2).map(tuple)
    one = st.builds(
        Record,
        value=payloads(),
        key=payloads(),
        timestamp=st.integers(STAMP - 5000, STAMP + 5000) if magic else st.just(-1),
        headers=headers if magic == 2 else st.just(()),
        # Without it Hypothesis chooses one, by the type of the field.
        offset=st.none(),
    )
    return st.lists(one, min_size=1, max_size=6)


class Written(NamedTuple):
    options: dict[str, Any]
    records: list[Record]
    data: bytes


@st.composite
def written(draw: st.DrawFn, magic: int, codec: str, level: int | None) -> Written:
    """Records in the bytes that ottla makes of them."""
    options: dict[str, Any] = {"magic": magic, "compression": codec, "level": level}
    options["base_offset"] = draw(st.just(0) | st.integers(0, 2**40))
    if magic:
        options["timestamp_type"] = draw(st.sampled_from(["create", "append"]))
    if magic == 2:
        options["leader_epoch"] = draw(st.integers(-1, 50))
        if draw(st.booleans()):
            options |= {
                "producer_id": draw(st.integers(0, 2**40)),
                "producer_epoch": draw(st.integers(0, 2**15 - 1)),
                "base_sequence": draw(st.integers(0, 2**31 - 1)),
                "transactional": draw(st.booleans()),
            }
    held = draw(records(magic))
    return Written(options, held, protocol.encode_records(held, **options))


def as_read(given_: Written) -> list[Record]:
    """The records as a reader finds them: with offsets, and the broker's time where the broker set it."""
    appended = given_.options.get("timestamp_type") == "append"
    last = max(record.timestamp for record in given_.records)
    return [
        record._replace(offset=given_.options["base_offset"] + i, timestamp=last if appended else record.timestamp)
        for i, record in enumerate(given_.records)
    ]


def comparable(found: list[Record]) -> list[Record]:
    return [record._replace(headers=tuple(map(tuple, record.headers))) for record in found]


def check(given_: Written) -> None:
    """What was written comes back, with all that was said about it."""
    batches = protocol.decode_records(given_.data)
    assert comparable([record for batch in batches for record in batch.records]) == as_read(given_)
    assert sum(batch.size for batch in batches) == len(given_.data)
    options = given_.options
    for batch in batches:
        assert (batch.magic, batch.compression) == (options["magic"], options["compression"])
        expected = "create" if batch.magic else None
        assert batch.timestamp_type == options.get("timestamp_type", expected)
        for name in ("producer_id", "producer_epoch", "base_sequence", "leader_epoch"):
            assert getattr(batch, name) == options.get(name, -1)
        assert batch.transactional == options.get("transactional", False)
        assert not batch.control
    # Uncompressed messages of the old formats stand alone.
    alone = options["magic"] < 2 and options["compression"] == "none"
    assert len(batches) == (len(given_.records) if alone else 1)


def explored(magic: int, codec: str, level: int | None, examples: int) -> list[Written]:
    found: list[Written] = []

    @settings(
        max_examples=examples,
        derandomize=SEED is None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(written(magic, codec, level))
    def round_trip(made: Written) -> None:
        check(made)
        found.append(made)

    (round_trip if SEED is None else seed(int(SEED))(round_trip))()
    return found


WAYS = [
    pytest.param(magic, codec, level, id=f"magic{magic}-{codec}" + (f"-{level}" if level is not None else ""))
    for magic, codecs in CODECS.items()
    for codec in codecs
    for level in (None, *LEVELS.get(codec, ()))
]


@pytest.mark.parametrize(("magic", "codec", "level"), WAYS)
def test_random_records_round_trip(magic, codec, level):
    assert explored(magic, codec, level, 25)


def in_kafkas_words(data: bytes) -> list[dict[str, Any]]:
    """What ottla reads, as `RecordsReader.java` tells it."""
    stamps = {"create": "CreateTime", "append": "LogAppendTime", None: "NoTimestampType"}
    told = []
    for batch in protocol.decode_records(data):
        told.append(
            {
                "magic": batch.magic,
                "baseOffset": batch.base_offset,
                "lastOffset": batch.last_offset,
                "size": batch.size,
                "codec": batch.compression,
                "valid": True,
                "timestampType": stamps[batch.timestamp_type],
                "maxTimestamp": batch.max_timestamp,
            }
        )
        sequences: list[dict[str, int]] = [{}] * len(batch.records)
        if batch.magic == 2:
            told[-1] |= {
                "producerId": batch.producer_id,
                "producerEpoch": batch.producer_epoch,
                "baseSequence": batch.base_sequence,
                "transactional": batch.transactional,
                "control": batch.control,
                "leaderEpoch": batch.leader_epoch,
                "crc": batch.crc,
                "count": len(batch.records),
            }
            # Sequence numbers begin again at 0 after the greatest.
            first = batch.base_sequence
            sequences = [
                {"sequence": -1 if first < 0 else (first + record.offset - batch.base_offset) % 2**31}
                for record in batch.records
            ]
            told[-1]["lastSequence"] = sequences[-1]["sequence"]
        told[-1]["records"] = [
            {
                "offset": record.offset,
                "timestamp": record.timestamp,
                **sequence,
                "key": text(record.key),
                "value": text(record.value),
                **({"headers": [[key, text(value)] for key, value in record.headers]} if record.headers else {}),
            }
            for record, sequence in zip(batch.records, sequences, strict=True)
        ]
    return told


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def marker(key: int, epoch: int) -> Record:
    """The one record of a control batch that ends a transaction: 0 aborts it, 1 commits it. Versions stand in front."""
    return Record(
        key=b"\0\0" + protocol.encode("ControlRecordTypeSchema", 0, {"type": key}),
        value=b"\0\0" + protocol.encode("EndTxnMarker", 0, {"coordinatorEpoch": epoch}),
        timestamp=STAMP,
    )


@java.needs_kafka
@pytest.mark.timeout(300)
def test_kafka_reads_what_ottla_writes():
    sets = [made.data for way in WAYS for made in explored(*way.values, 6)]
    sets += [
        protocol.encode_records([marker(kind, 7)], producer_id=9, producer_epoch=1, transactional=True, control=True)
        for kind in (0, 1)
    ]
    answers = java.read_records(sets)
    for data, answer in zip(sets, answers, strict=True):
        assert "error" not in answer, (data.hex(), answer)
        assert answer["left"] == 0
        assert answer["batches"] == in_kafkas_words(data), data.hex()


class Log(RuleBasedStateMachine):
    """A stretch of a partition's log: batches of any age one after the other, cut short by a fetch, or damaged."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Written] = []
        self.cut = 0
        self.damaged: int | None = None

    def data(self) -> bytes:
        whole = b"".join(part.data for part in self.parts)
        return whole[: len(whole) - self.cut]

    def next_offset(self) -> int:
        if not self.parts:
            return 0
        last = self.parts[-1]
        return last.options["base_offset"] + len(last.records)

    @precondition(lambda self: not self.cut and self.damaged is None and len(self.parts) < 6)
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        magic = data.draw(st.integers(0, 2))
        options = {"magic": magic, "compression": data.draw(st.sampled_from(CODECS[magic]))}
        options["base_offset"] = self.next_offset() + data.draw(st.integers(0, 3))
        held = data.draw(records(magic))
        self.parts.append(Written(options, held, protocol.encode_records(held, **options)))

    @precondition(lambda self: self.parts and not self.cut and self.damaged is None)
    @rule(share=st.floats(0, 1, exclude_max=True))
    def fetched_short(self, share: float) -> None:
        self.cut = 1 + int(share * (len(self.parts[-1].data) - 1))

    @precondition(lambda self: self.cut)
    @rule()
    def fetched_again(self) -> None:
        self.cut = 0

    @precondition(lambda self: self.parts and not self.cut and self.damaged is None)
    @rule(share=st.floats(0, 1, exclude_max=True))
    def one_bit_turns(self, share: float) -> None:
        # Not in the first batch's offset and length, which no checksum covers; from the checksum on it is covered.
        start = 17 if self.parts[0].options["magic"] == 2 else 12
        self.damaged = start + int(share * (len(self.parts[0].data) - start))
        if self.parts[0].options["magic"] < 2:
            # The first message of a set may be one of several.
            self.damaged = start

    @precondition(lambda self: self.damaged is not None)
    @rule()
    def mended(self) -> None:
        self.damaged = None

    @invariant()
    def what_is_whole_is_read(self) -> None:
        data = self.data()
        if self.damaged is not None:
            turned = bytearray(data)
            turned[self.damaged] ^= 1
            with pytest.raises(CorruptRecordError):
                protocol.decode_records(turned)
            return
        expected = [record for part in self.parts for record in as_read(part)]
        found = comparable([r for batch in protocol.decode_records(data) for r in batch.records])
        if not self.cut:
            assert found == expected
            return
        # All but records of the last batch; messages of a set that is not compressed are whole one by one.
        before = len(expected) - len(self.parts[-1].records)
        assert found == expected[: len(found)]
        assert before <= len(found) < len(expected)


TestLog = Log.TestCase
TestLog.settings = settings(
    max_examples=40,
    stateful_step_count=12,
    derandomize=SEED is None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
