"""`ottla.log`: folders of partitions, whole and damaged, as foreign clients read the same from a broker."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import shutil
import struct
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import ottla
from ottla.log import _folders, _outline, _range, open_log, read_log
from ottla.log._files import shown
from ottla.testing import Broker
from tests.brokers.running import EMBEDDED_KEPT

CORPUS = Path(__file__).parents[1] / "conformance" / "records-4.4.0.jsonl.gz"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT = "00000000000000000000.log"
PATIENCE = 30
# Numbers of Kafka's kinds of timestamps.
TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def rows(batches):
    return [
        Row(r.topic, r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, list(r.headers))
        for batch in batches
        for r in batch
    ]


def by_confluent(bootstrap, topic, partition, level="read_uncommitted"):
    """What librdkafka reads of a partition, up to its end at this level."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": level}
    consumer = confluent_kafka.Consumer({**settings, "enable.partition.eof": True, "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
    found = []
    try:
        while (message := consumer.poll(PATIENCE)) is not None:
            if message.error():
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                return found
            # Its kinds begin with one for none.
            kind, stamp = message.timestamp()
            headers = message.headers() or []
            at = message.topic(), message.partition(), message.offset()
            found.append(Row(*at, stamp, kind - 1, message.key(), message.value(), headers))
    finally:
        consumer.close()
    raise AssertionError(f"{len(found)} records of {topic}, and no end")


class Folder(NamedTuple):
    """A broker's folder, and what librdkafka read from the broker."""

    path: Path
    records: dict[str, list[Row]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Topics of a broker that has ended: one of several partitions and segments, one with transactions."""
    path = tmp_path_factory.mktemp("log")
    with Broker(data_dir=path, config=EMBEDDED_KEPT) as broker:
        bootstrap = broker.bootstrap_servers
        with ottla.Admin(bootstrap) as admin:
            small = {"segment.bytes": "8000", "index.interval.bytes": "1000"}
            admin.create_topics([ottla.NewTopic("mixed", 2, config=small), ottla.NewTopic("transactional", 1)])
        for i, codec in enumerate(CODECS):
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": bootstrap, "compression.type": codec, "batch.num.messages": 5, "linger.ms": 50}
            )
            for n in range(200):
                value = None if n % 9 == 0 else (b"%d " % n) * (n % 70)
                headers = [("h", b"\xff"), ("h", None), ("e", b"")] if n % 4 == 0 else None
                key = None if n % 5 == 0 else b"k%d" % n
                producer.produce("mixed", value, key, n % 2, timestamp=1_700_000_000_000 + i * n, headers=headers)
            assert producer.flush(PATIENCE) == 0
        transactions(bootstrap, "transactional")
        records = {
            "mixed": by_confluent(bootstrap, "mixed", 0) + by_confluent(bootstrap, "mixed", 1),
            "transactional": by_confluent(bootstrap, "transactional", 0),
            "committed": by_confluent(bootstrap, "transactional", 0, "read_committed"),
        }
    assert len(list((path / "mixed-0").glob("*.log"))) > 2
    return Folder(path, records)


def transactions(bootstrap, topic):
    """Two producers take turns, each within the other's transactions; the last of one stays open."""
    first, second = (
        confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{n}"}) for n in range(2)
    )
    for producer in (first, second):
        producer.init_transactions(PATIENCE)
    plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for n, (one, other) in enumerate([("commit", "abort"), ("abort", "commit"), ("abort", "abort")]):
        first.begin_transaction()
        second.begin_transaction()
        for part in range(3):
            for name, producer in (("first", first), ("plain", plain), ("second", second)):
                producer.produce(topic, f"{name} {n} {part} {one} {other}")
                assert producer.flush(PATIENCE) == 0
        getattr(second, f"{other}_transaction")(PATIENCE)
        plain.produce(topic, b"between")
        assert plain.flush(PATIENCE) == 0
        getattr(first, f"{one}_transaction")(PATIENCE)
    first.begin_transaction()
    first.produce(topic, b"open")
    assert first.flush(PATIENCE) == 0
    plain.produce(topic, b"after")
    assert plain.flush(PATIENCE) == 0


def test_records_are_those_that_a_foreign_client_reads(folder):
    assert rows(read_log(folder.path, topics=["mixed"])) == folder.records["mixed"]
    assert len(folder.records["mixed"]) == 1000
    level = {"topics": ["transactional"], "isolation_level": "read_committed"}
    assert rows(read_log(folder.path, topics=["transactional"])) == folder.records["transactional"]
    assert rows(read_log(folder.path, **level)) == folder.records["committed"]
    assert 0 < len(folder.records["committed"]) < len(folder.records["transactional"])


def test_kafkas_own_internal_topics_are_read_if_they_are_named(folder):
    assert {batch[0].topic for batch in read_log(folder.path)} == {"mixed", "transactional"}
    internal = {at.topic for at in open_log(folder.path).partitions} - {"mixed", "transactional"}
    assert "__transaction_state" in internal
    assert rows(read_log(folder.path, topics=["__transaction_state"]))


def test_arrow_columns_are_those_of_a_consumer(folder):
    (batch, *_) = read_log(folder.path / "mixed-1")
    table = batch.to_arrow()
    named = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert table.schema.names == named
    assert table["partition"].unique().to_pylist() == [1]


def test_what_names_folders(folder, tmp_path):
    mixed = folder.records["mixed"]
    first = [row for row in mixed if row.partition == 0]
    assert rows(read_log(folder.path / "mixed-0")) == first
    assert rows(read_log(f"{folder.path}/mixed-*")) == mixed
    assert rows(read_log(f"file://{folder.path}/mixed-[0]/")) == first
    assert rows(read_log(f"{folder.path.parent}/{folder.path.name[:-1]}?", topics=["mixed"])) == mixed
    # The letters of a pattern in a name.
    odd = tmp_path / "a[b]" / "mixed-0"
    shutil.copytree(folder.path / "mixed-0", odd)
    assert rows(read_log(odd)) == first
    shutil.copytree(odd, tmp_path / "other" / "mixed-0")
    with pytest.raises(ottla.errors.ArgumentError, match=r"partition 0 of topic mixed is in .*a\[b\].* and in .*other"):
        list(read_log(f"{tmp_path}/*"))
    odd.rename(tmp_path / "renamed")
    with pytest.raises(ottla.errors.ArgumentError, match="does not contain the partition"):
        list(read_log(tmp_path / "renamed"))
    (tmp_path / "nothing").mkdir()
    for nothing in ("nothing", "no such", "nothing/*"):
        with pytest.raises(ottla.errors.ArgumentError, match="has no log of a partition"):
            list(read_log(tmp_path / nothing))
    with pytest.raises(ottla.errors.NotFoundError, match="no folder of a partition of topic absent"):
        list(read_log(folder.path, topics=["absent"]))
    with pytest.raises(ottla.errors.ArgumentError, match="isolation_level is read_uncommitted or read_committed"):
        open_log(folder.path, isolation_level="committed")


@pytest.fixture
def copy(folder, tmp_path):
    """A copy of a partition's folder, in a data folder of its own."""
    return Path(shutil.copytree(folder.path / "mixed-0", tmp_path / "data" / "mixed-0"))


def test_other_files_and_folders_are_passed_over(folder, copy):
    data = (copy / SEGMENT).read_bytes()
    for suffix in (".deleted", ".swap", ".cleaned"):
        (copy / f"{SEGMENT}{suffix}").write_bytes(data)
    for name in ("00000000000000000007.snapshot", "leader-epoch-checkpoint", "partition.metadata", "7.log"):
        (copy / name).write_bytes(b"something else")
    mark = "0123456789abcdef0123456789abcdef"
    for name in (f"mixed-0.{mark}-delete", f"mixed-1.{mark}-future", f"mixed-2.{mark}-stray", "not a topic-0"):
        shutil.copytree(folder.path / "mixed-1", copy.parent / name)
    (copy.parent / "empty-0").mkdir()
    (copy.parent / "mixed-1").write_bytes(b"a file")
    assert rows(read_log(copy.parent)) == [row for row in folder.records["mixed"] if row.partition == 0]


def test_a_compacted_segment_without_its_name_is_an_error(folder, copy, monkeypatch):
    """A broker that ends between two renames leaves it so, and a live one for a moment."""
    monkeypatch.setattr(_folders, "PAUSE", 0.01)
    first, second, *_ = sorted(copy.glob("*.log"))
    for path in (first, second):
        swap = path.rename(f"{path}.swap")
        with pytest.raises(ottla.errors.CorruptRecordError, match=rf"mixed-0 has {swap.name} and not the segment"):
            list(read_log(copy))
        swap.rename(path)
    swap = first.rename(f"{first}.swap")
    monkeypatch.setattr(_folders.time, "sleep", lambda _: swap.exists() and swap.rename(first))
    assert rows(read_log(copy)) == [row for row in folder.records["mixed"] if row.partition == 0]


def test_deleted_records_are_left_out(folder, copy):
    (copy.parent / "log-start-offset-checkpoint").write_text("0\n2\nother 0 99\nmixed 0 77\n")
    left = [row for row in folder.records["mixed"] if row.partition == 0 and row.offset >= 77]
    assert rows(read_log(copy.parent)) == left
    assert rows(read_log(copy)) == left
    assert list(open_log(copy).beginning_offsets().values()) == [77]
    (copy.parent / "log-start-offset-checkpoint").write_text("0\n1\nmixed 0\n")
    with pytest.raises(ottla.errors.CorruptRecordError, match="log-start-offset-checkpoint does not have"):
        list(read_log(copy))


@pytest.mark.parametrize("indexed", [True, False])
def test_ranges_hold_each_record_once(folder, copy, indexed):
    for index in copy.glob("*.index"):
        if not indexed:
            index.unlink()
    wanted = [row for row in folder.records["mixed"] if row.partition == 0]
    log = open_log(copy)
    assert log.end_offsets() == {("mixed", 0): wanted[-1].offset + 1}
    counts = []
    for most in (1, 3_000, 10**6):
        ranges = log.ranges(("mixed", 0), max_bytes=most)
        counts.append(len(ranges))
        assert rows(batch for part in pickle.loads(pickle.dumps(ranges)) for batch in part.read()) == wanted
    # Batches here are smaller than the distance of marks.
    assert counts[2] == len(list(copy.glob("*.log")))
    assert not indexed or counts[0] > counts[1] > counts[2]
    for start, end in ((0, 1), (3, 250), (250, 9999), (499, 500), (77, 77), (500, None), (None, 12), (-5, 31)):
        ranges = log.ranges(("mixed", 0), start, end, max_bytes=3_000)
        inside = [row for row in wanted if (start or 0) <= row.offset < (9999 if end is None else end)]
        assert rows(batch for part in ranges for batch in part.read()) == inside, (start, end)
    with pytest.raises(ottla.errors.ArgumentError, match="max_bytes"):
        log.ranges(("mixed", 0), max_bytes=0)
    with pytest.raises(ottla.errors.NotFoundError, match="partition 7 of topic mixed"):
        log.ranges(("mixed", 7))


def test_a_large_segment_without_an_index_is_divided_where_batches_begin(folder, copy, monkeypatch):
    monkeypatch.setattr(_outline, "MARKED", 1000)
    monkeypatch.setattr(_outline, "WINDOW", 300)
    monkeypatch.setattr(_range, "WINDOW", 300)
    for index in copy.glob("*.index"):
        index.unlink()
    wanted = [row for row in folder.records["mixed"] if row.partition == 0]
    log = open_log(copy, isolation_level="read_committed")
    ranges = log.ranges(("mixed", 0), max_bytes=2_000)
    assert len(ranges) > 2 * len(list(copy.glob("*.log")))
    assert rows(batch for part in ranges for batch in part.read()) == wanted


def test_an_index_that_lies_is_not_believed(folder, copy):
    for index in copy.glob("*.index"):
        index.write_bytes(b"".join(n.to_bytes(4, "big") * 2 for n in range(1, 4000, 37)))
    wanted = [row for row in folder.records["mixed"] if row.partition == 0]
    ranges = open_log(copy).ranges(("mixed", 0), max_bytes=500)
    assert rows(batch for part in ranges for batch in part.read()) == wanted


@pytest.mark.parametrize("wrong", [-8, -1, 1, 8, 90])
def test_an_index_with_offsets_of_other_places_is_not_believed(folder, copy, wrong):
    """Its places are right, so that whole batches begin there."""
    for index in copy.glob("*.index"):
        pairs = list(struct.iter_unpack(">ii", index.read_bytes()))
        index.write_bytes(
            b"".join(struct.pack(">ii", max(offset + wrong, n), at) for n, (offset, at) in enumerate(pairs))
        )
    wanted = [row for row in folder.records["mixed"] if row.partition == 0]
    log = open_log(copy)
    for start in range(0, len(wanted), 3):
        ranges = log.ranges(("mixed", 0), start, start + 20, max_bytes=500)
        assert rows(batch for part in ranges for batch in part.read()) == wanted[start : start + 20], start


def last_segment(folder):
    return max(folder.glob("*.log"))


def places(path):
    return [(batch.position, batch.size, batch.base_offset) for batch in ottla.protocol.read_segment(path)]


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_reading_ends_with_the_last_whole_batch(folder, copy, level):
    path = last_segment(copy)
    data = path.read_bytes()
    *_, (position, size, offset) = places(path)
    wanted = [row for row in folder.records["mixed"] if row.partition == 0]
    before = [row for row in wanted if row.offset < offset]
    assert position + size == len(data)
    for left in (1, 11, 12, 16, 17, 60, 61, size // 2, size - 1):
        # As a crash leaves it, and in a file that was allocated beforehand.
        for zeros in (0, 5, 100_000):
            cut = data[: position + left] + bytes(max(size - left, 0) + zeros if zeros else 0)
            path.write_bytes(cut)
            # A batch that is not compressed may end with a zero: it is whole then.
            there = wanted if cut.startswith(data) else before
            assert rows(read_log(copy, isolation_level=level)) == there, (left, zeros)
    path.write_bytes(data + bytes(100_000))
    assert rows(read_log(copy, isolation_level=level)) == wanted


def test_an_empty_last_segment(folder, copy):
    wanted = [row for row in folder.records["mixed"] if row.partition == 0]
    (copy / f"{wanted[-1].offset + 1:020}.log").touch()
    assert rows(read_log(copy)) == wanted
    assert open_log(copy).end_offsets() == {("mixed", 0): wanted[-1].offset + 1}


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_damage_is_an_error_that_says_where(folder, copy, level):
    path = sorted(copy.glob("*.log"))[1]
    data = path.read_bytes()
    position, size, offset = places(path)[3]
    before = [row for row in folder.records["mixed"] if row.partition == 0 and row.offset < offset]

    def damaged(changed, place, cause):
        path.write_bytes(changed)
        read = []
        with pytest.raises(ottla.errors.CorruptRecordError) as caught:
            read.extend(read_log(copy, isolation_level=level))
        assert f"{path} is damaged at byte {place} (mixed-0" in str(caught.value)
        assert cause in str(caught.value)
        assert (caught.value.topic, caught.value.partition) == ("mixed", 0)
        return str(caught.value), rows(read)

    flipped = bytearray(data)
    flipped[position + size - 1] ^= 1
    said, read = damaged(bytes(flipped), position, "CRC")
    assert f"offset {offset})" in said
    assert read == before
    damaged(data[:position] + b"\xff" * 20 + data[position + 20 :], position, "-1")
    # Torn, though segments follow.
    damaged(data[: position + size // 2], position, "cut short")
    damaged(data[:position] + bytes(1000), position, "impossible length 0")
    start = places(path)[0][1]
    said, _ = damaged(data[:start] + data, start, "out of order") if level == "read_uncommitted" else ("", 0)


@pytest.mark.parametrize("allocated", [0, 2**26])
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_length_beyond_the_last_segment_does_not_end_it(folder, copy, level, indexed, allocated):
    """It is no batch that a broker was writing: others follow it."""
    path = min(copy.glob("*.log"))
    for other in copy.iterdir():
        if other.stem != path.stem or (other.suffix == ".index" and not indexed):
            other.unlink()
    data = bytearray(path.read_bytes() + bytes(allocated))
    position, size, _ = places(path)[3]
    # Beyond the file, into its zeros, and into the last bytes of its last batch.
    lengths = [2**24 + size - 12, len(data) - allocated - position - 12 - 20]
    for length in lengths:
        data[position + 8 : position + 12] = length.to_bytes(4, "big")
        path.write_bytes(data)
        read = []
        with pytest.raises(ottla.errors.CorruptRecordError, match=f"damaged at byte {position} "):
            read.extend(read_log(copy, isolation_level=level))
        assert rows(read) == [row for row in folder.records["mixed"] if row.partition == 0][: len(rows(read))]


def test_a_segment_that_goes_before_it_is_looked_at(copy):
    for level in ("read_uncommitted", "read_committed"):
        log = open_log(copy, isolation_level=level)
        path = last_segment(copy)
        moved = path.rename(f"{path}.deleted")
        for ask in (log.end_offsets, partial(log.ranges, ("mixed", 0))):
            with pytest.raises(ottla.errors.NotFoundError, match="deleted or compacted") as caught:
                ask()
            assert (caught.value.topic, caught.value.partition, caught.value.retriable) == ("mixed", 0, True)
        moved.rename(path)
    log = open_log(copy)
    assert log.end_offsets()
    min(copy.glob("*.log")).unlink()
    with pytest.raises(ottla.errors.NotFoundError, match="deleted or compacted"):
        log.ranges(("mixed", 0))


def test_a_segment_that_goes_while_it_is_read(copy):
    log = open_log(copy)
    first, *_, last = log.ranges(("mixed", 0))
    path = Path(first.path)
    whole = path.read_bytes()
    for change in (path.unlink, lambda: path.write_bytes(whole[:-7]), lambda: path.write_bytes(whole + b"more")):
        change()
        with pytest.raises(ottla.errors.NotFoundError, match="deleted or compacted") as caught:
            list(first.read())
        assert (caught.value.topic, caught.value.partition, caught.value.retriable) == ("mixed", 0, True)
    # What a broker appends is none of the range.
    read = rows(last.read())
    with Path(last.path).open("ab") as file:
        file.write(b"half a batch")
    assert rows(last.read()) == read


def corpus():
    """What Kafka's classes wrote, one entry each, with what they read of it."""
    with gzip.open(CORPUS, "rt") as lines:
        for text in lines:
            line = json.loads(text)
            if line["kind"].startswith(("magic", "control", "empty")) and len(line["batches"]) == 1:
                yield bytes.fromhex(line["hex"]), line["batches"][0]


def decoded(text):
    return None if text is None else base64.b64decode(text)


def test_entries_of_every_age_and_codec_as_kafka_reads_them(tmp_path):
    seen = set()
    for number, (data, entry) in enumerate(corpus()):
        path = tmp_path / f"age-{number}"
        path.mkdir()
        (path / SEGMENT).write_bytes(data)
        stamped = TYPES[entry["timestampType"]]
        wanted = [
            Row(
                *("age", number, record["offset"], record["timestamp"], stamped),
                *(decoded(record["key"]), decoded(record["value"])),
                [(name, decoded(value)) for name, value in record.get("headers") or []],
            )
            for record in entry["records"]
            if not entry.get("control")
        ]
        assert rows(read_log(path)) == wanted, entry
        seen.add((entry["magic"], entry["codec"]))
    assert len(seen) == 4 + 4 + 5


def test_wrappers_are_divided_at_the_ends_of_a_range(tmp_path):
    """A message of magic 0 or 1 names the last offset of what it holds."""
    for number, (data, entry) in enumerate(corpus()):
        if entry["magic"] == 2 or entry["codec"] == "none" or len(entry["records"]) < 3:
            continue
        path = tmp_path / f"old-{number}"
        path.mkdir()
        (path / SEGMENT).write_bytes(data)
        offsets = [record["offset"] for record in entry["records"]]
        parts = open_log(path).ranges(("old", number), offsets[1], offsets[-1])
        assert [row.offset for row in rows(batch for part in parts for batch in part.read())] == offsets[1:-1]


def test_hostile_bytes_end_as_errors(folder, copy):
    path = sorted(copy.glob("*.log"))[1]
    data = path.read_bytes()
    bounds = places(path)
    wanted = [row for row in folder.records["mixed"] if row.partition == 0]
    numbers = range(0, min(len(data), 20_000), 617)
    for place in numbers:
        for level in ("read_uncommitted", "read_committed"):
            for value in (0, 0x7F, 0xFF):
                path.write_bytes(data[:place] + bytes([value]) * 3 + data[place + 3 :])
                try:
                    read = rows(read_log(copy, isolation_level=level))
                except ottla.errors.CorruptRecordError:
                    continue
                # Neither checksums nor anything else cover the offset and the leader's epoch of a batch.
                within = next(place - at for at, size, _ in bounds if at <= place < at + size)
                if read != wanted:
                    assert within < 8, (place, value, level)
                    assert len(read) == len(wanted)
                    assert all(one.offset < other.offset for one, other in pairwise(read))


SECRET = "hunter2-s3cret"


@pytest.fixture
def memory(folder):
    """The folder of a partition in fsspec's file system in memory."""
    system = fsspec.filesystem("memory")
    for path in sorted((folder.path / "mixed-0").iterdir()):
        system.pipe(f"/backup/node1/mixed-0/{path.name}", path.read_bytes())
    system.pipe("/backup/node1/log-start-offset-checkpoint", b"0\n1\nmixed 0 20\n")
    yield system
    system.rm("/backup", recursive=True)


def test_object_stores(folder, memory):
    wanted = [row for row in folder.records["mixed"] if row.partition == 0 and row.offset >= 20]
    urls = (
        "memory://backup/node1",
        "memory://backup/node1/mixed-0",
        "memory://backup/*/mixed-?",
        "memory:///backup/*/",
    )
    for url in urls:
        assert rows(read_log(url)) == wanted, url
    parts = open_log(urls[0], isolation_level="read_committed").ranges(("mixed", 0), 30, 40, max_bytes=3_000)
    assert rows(b for part in pickle.loads(pickle.dumps(parts)) for b in part.read()) == wanted[10:20]
    with pytest.raises(ottla.errors.ArgumentError, match="has no log of a partition"):
        read_log("memory://elsewhere").__next__()
    memory.rm(parts[0].path)
    with pytest.raises(ottla.errors.NotFoundError, match="deleted or compacted"):
        list(parts[0].read())


def test_no_error_of_an_object_store_shows_its_options(monkeypatch):
    memory = MemoryFileSystem
    options = {"token": SECRET, "client_kwargs": {"password": SECRET}}

    def fail(self, path, **_):
        raise RuntimeError(f"403 for {path} with {self.storage_options}")

    monkeypatch.setattr(memory, "isdir", fail)
    with pytest.raises(OSError, match="403 for") as caught:
        list(read_log("memory://backup", storage_options=options))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    with pytest.raises(ottla.errors.ArgumentError, match="Protocol not known") as unknown:
        list(read_log(f"nosuch://user:{SECRET}@host/x", storage_options=options))
    for error in (caught.value, unknown.value):
        assert SECRET not in str(error)
    with pytest.raises(ottla.errors.ArgumentError, match="path on this machine") as local:
        list(read_log("/tmp", storage_options=options))
    assert SECRET not in str(local.value)


def test_sizes_that_a_list_does_not_have(folder, memory, monkeypatch):
    """Of a web server fsspec knows the names in a folder, and asks for the size of each file."""
    listed = MemoryFileSystem.ls

    def sized(self, path, **options):
        return [{**each, "size": None if each["type"] == "file" else 0} for each in listed(self, path, **options)]

    monkeypatch.setattr(MemoryFileSystem, "ls", sized)
    monkeypatch.setattr(MemoryFileSystem, "size", lambda self, path: len(self.cat_file(path)))
    wanted = [row for row in folder.records["mixed"] if row.partition == 0 and row.offset >= 20]
    assert rows(read_log("memory://backup/node1")) == wanted
    monkeypatch.setattr(MemoryFileSystem, "size", lambda self, path: None)
    with pytest.raises(OSError, match="does not report the file's size"):
        list(read_log("memory://backup/node1/mixed-0"))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"s3://u:{SECRET}@h/x", "s3://***@h/x"),
        (f"s3://u:a@{SECRET}@h/x", "s3://***@h/x"),
        (f"sftp://u:a/{SECRET}@h/x", "sftp://***@h/x"),
        (f"sftp://u:a?{SECRET}@h/x", "sftp://***@h/x"),
        (f"https://h/x?sig={SECRET}", "https://h/x?***"),
        (f"https://h/x?{SECRET}", "https://h/x?***"),
        (f"abfs://h/mixed-?/x?sv=1&sig={SECRET}", "abfs://h/mixed-?/x?***"),
        ("s3://bucket/*/mixed-?", "s3://bucket/*/mixed-?"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("hdfs://name:8020/x", "hdfs://name:8020/x"),
        ("/data/a@b", "/data/a@b"),
    ],
)
def test_no_error_shows_what_is_secret_in_a_url(url, told):
    assert shown(url) == told
    if SECRET in url and "://" in url:
        # As a file system may tell it: the text alone, or the URL.
        scheme, rest = url.split("://")
        with pytest.raises((OSError, ottla.errors.ArgumentError, ImportError)) as caught:
            list(read_log(f"nosuch{scheme}://{rest}"))
        assert SECRET not in str(caught.value)


def test_a_file_system_that_tells_the_password_of_its_url(monkeypatch):
    def fail(self, path, **_):
        raise RuntimeError(f"login as u with {SECRET} for https://h/x?sig={SECRET} failed")

    for name in ("isdir", "glob"):
        monkeypatch.setattr(MemoryFileSystem, name, fail)
    for url in (f"memory://u:{SECRET}@backup/x", f"memory://backup?sig={SECRET}"):
        with pytest.raises(OSError, match="login as u with") as caught:
            list(read_log(url))
        assert SECRET not in str(caught.value)


def test_urls_need_fsspec_and_paths_do_not(folder, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "fsspec"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert rows(read_log(folder.path / "mixed-0"))
    with pytest.raises(ImportError, match="pip install fsspec"):
        list(read_log("s3://bucket/backup"))
