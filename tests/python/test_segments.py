"""`ottla.protocol.read_segment`: segments made of batches that Kafka's own classes wrote, whole and damaged."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ottla
from ottla import protocol
from ottla.protocol import _segments

CORPUS = Path(__file__).parents[1] / "conformance" / "records-4.4.0.jsonl.gz"


def whole_entries():
    with gzip.open(CORPUS, "rt") as lines:
        for text in lines:
            line = json.loads(text)
            if line["kind"].startswith(("magic", "control", "empty")) and len(line["batches"]) == 1:
                yield bytes.fromhex(line["hex"])


ENTRIES = sorted({entry for entry in whole_entries() if len(entry) < 2000})


def read(data, **options):
    """Positions and sizes of the batches, and the damage between."""
    damage = []
    batches = list(protocol.read_segment(io.BytesIO(data), on_damage=damage.append, **options))
    return [(b.position, b.size) for b in batches], [(d.position, d.size) for d in damage]


def places(entries, start=0):
    at, found = start, []
    for entry in entries:
        found.append((at, len(entry)))
        at += len(entry)
    return found


@pytest.fixture
def small_windows(monkeypatch):
    monkeypatch.setattr(_segments, "WINDOW", 256)
    monkeypatch.setattr(_segments, "MOST", 8192)


def test_a_segment_of_every_age(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(ENTRIES))
    batches = list(protocol.read_segment(path))
    assert [(b.position, b.size) for b in batches] == places(ENTRIES)
    assert {b.magic for b in batches} == {0, 1, 2}
    assert {b.compression for b in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    alone = [protocol.decode_records(entry)[0].records for entry in ENTRIES]
    assert [b.records for b in batches] == alone


def test_windows_show_the_same(small_windows):
    assert read(b"".join(ENTRIES)) == (places(ENTRIES), [])


def test_a_flipped_byte_costs_its_batch(small_windows):
    entries = ENTRIES[:20]
    bad = bytearray(entries[7])
    bad[-1] ^= 1
    data = b"".join([*entries[:7], bad, *entries[8:]])
    all_places = places(entries)
    assert read(data) == (all_places[:7] + all_places[8:], [all_places[7]])


def test_damage_is_an_error_that_says_where(tmp_path):
    bad = bytearray(ENTRIES[1])
    bad[-1] ^= 1
    path = tmp_path / "x.log"
    path.write_bytes(ENTRIES[0] + bad + ENTRIES[2])
    at = len(ENTRIES[0])
    seen = []
    with pytest.raises(ottla.errors.CorruptRecordError, match=f"{len(bad)} bytes at byte {at} are damaged: .*CRC"):
        seen.extend(protocol.read_segment(path))
    assert [b.position for b in protocol.read_segment(path, on_damage=seen.append)] == [0, at + len(bad)]
    assert seen[-1].position == at
    assert "CRC" in seen[-1].cause


def test_checksums_may_be_left_alone():
    plain = next(e for e in ENTRIES if e[16] == 2 and protocol.decode_records(e)[0].compression == "none")
    bad = bytearray(plain)
    bad[17] ^= 1  # of the checksum itself
    assert read(bytes(bad)) == ([], [(0, len(bad))])
    assert read(bytes(bad), check_crcs=False) == ([(0, len(bad))], [])


@pytest.mark.parametrize("zeros", [1, 60, 255, 256, 257, 5000, 20_000])
def test_a_tail_of_zeros_is_the_end(small_windows, zeros):
    """As in a file that the broker allocated beforehand."""
    assert read(b"".join(ENTRIES[:5]) + bytes(zeros)) == (places(ENTRIES[:5]), [])
    assert read(bytes(zeros)) == ([], [])


@pytest.mark.parametrize("zeros", [60, 256, 5000, 20_000])
def test_a_hole_of_zeros_is_damage(small_windows, zeros):
    head, tail = ENTRIES[:5], ENTRIES[5:10]
    data = b"".join(head) + bytes(zeros) + b"".join(tail)
    start = sum(map(len, head))
    assert read(data) == (places(head) + places(tail, start + zeros), [(start, zeros)])


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_cut_tail_is_damage(small_windows, cut):
    data = b"".join(ENTRIES[:6])[:-cut].rstrip(b"\0")
    last, _ = places(ENTRIES[:6])[-1]
    assert read(data) == (places(ENTRIES[:5]), [(last, len(data) - last)])


@pytest.mark.parametrize("size", [100, 3000, 8000, 30_000])
def test_garbage_is_one_piece_of_damage_however_long(small_windows, size):
    noise = b"\x01" + random.Random(size).randbytes(size - 2) + b"\x01"
    head, tail = ENTRIES[:5], ENTRIES[5:10]
    start = sum(map(len, head))
    assert read(b"".join(head) + noise + b"".join(tail)) == (places(head) + places(tail, start + size), [(start, size)])
    assert read(b"".join(head) + noise) == (places(head), [(start, size)])
    assert read(b"".join(head) + noise + bytes(9000)) == (places(head), [(start, size)])


def message(value):
    """A message of magic 0 at offset 0."""
    body = b"\0\0" + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def test_a_batch_inside_of_a_record_is_none_of_the_segment(small_windows):
    """A log kept in a log: a window must not cut the outer batch and take the inner one for what follows."""
    outer = message(b"x" * 100 + b"".join(ENTRIES[:5]) * 5)
    assert len(outer) > 4 * _segments.WINDOW
    entries = [ENTRIES[0], outer, ENTRIES[1]]
    assert read(b"".join(entries)) == (places(entries), [])


def test_a_batch_above_the_most_that_is_held_is_damage(small_windows):
    outer = message(b"x" * _segments.MOST)
    damage = []
    data = ENTRIES[0] + outer + ENTRIES[1]
    batches = list(protocol.read_segment(io.BytesIO(data), on_damage=damage.append))
    assert [b.position for b in batches] == [0, len(ENTRIES[0] + outer)]
    assert (damage[0].position, damage[0].size) == (len(ENTRIES[0]), len(outer))
    assert "8,192 is the most" in damage[0].cause


@given(
    st.lists(st.sampled_from(ENTRIES), min_size=1, max_size=30),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=4),
    st.sampled_from([64, 256, 1000]),
)
def test_windows_change_nothing(entries, flips, window):
    """Whatever is damaged, and wherever windows end."""
    data = bytearray(b"".join(entries))
    for place, bits in flips:
        data[int(place * len(data))] ^= bits
    expected = read(bytes(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_segments, "WINDOW", window)
        patch.setattr(_segments, "MOST", 2**20)
        assert read(bytes(data)) == expected
    assert sum(size for _, size in [*expected[0], *expected[1]]) <= len(data)
    if not flips:
        assert expected == (places(entries), [])


def test_memory_is_bounded(tmp_path):
    block = b"".join(ENTRIES) * 20
    path = tmp_path / "00000000000000000000.log"
    with path.open("wb") as file:
        file.writelines([block] * (150_000_000 // len(block)))
    # Not the peak of the process, which may be that of a test before and would hide any growth.
    tracemalloc.start()
    try:
        next(batch for batch in protocol.read_segment(path) if batch.position > 12_000_000)  # several windows
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000


def test_a_file_that_is_cut_while_it_is_read(tmp_path, small_windows):
    """As a broker may do at any time."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(ENTRIES))
    damage = []
    batches = protocol.read_segment(path, on_damage=damage.append)
    assert next(batches).position == 0
    os.truncate(path, 10)
    seen = [batch.position for batch in batches]
    assert seen == [at for at, _ in places(ENTRIES)][1 : len(seen) + 1]
    assert len(seen) < len(ENTRIES) - 1
    assert all("cut short" in d.cause for d in damage)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.log"):
        next(protocol.read_segment(tmp_path / "none.log"))
