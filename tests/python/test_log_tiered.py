"""Tiered segments: those that Aiven's RemoteStorageManager wrote for real Kafka, and others by the writer in `tiered.py`."""

from __future__ import annotations

import pickle
import random

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import ottla
from ottla.log import open_log, read_log
from ottla.testing import Broker
from tests.python.tiered import private_key, tiered
from tests.python.tiered_scenes import LEVELS, rows, scenes, unpacked

SCENES = scenes()


@pytest.fixture(params=SCENES)
def scene(request, tmp_path):
    """A store of real Kafka with the folder of its broker: the paths of both, the keys, and librdkafka's rows by level."""
    found = SCENES[request.param]
    return unpacked(found["store"], tmp_path / "store"), unpacked(found["local"], tmp_path / "local"), found


@pytest.mark.parametrize("level", LEVELS)
def test_a_topic_of_real_kafka(scene, level):
    store, local, found = scene
    whole = read_log(local, remote=store / "pre", private_keys=found["keys"], isolation_level=level)
    assert rows(whole) == found[level]
    # Its broker deleted old segments from its own folder, so that part of the topic is in the store alone.
    assert len(rows(read_log(local))) < len(found["read_uncommitted"]) / 2
    # The store alone ends earlier, and never within a transaction.
    [(topic, *_)] = {tuple(path.relative_to(store / "pre").parts[:1]) for path in store.rglob("*.log")}
    for path in (store / "pre", store / "pre" / topic, str(store / "pr*")):
        alone = rows(read_log(path, private_keys=found["keys"], isolation_level=level))
        ends = open_log(path, private_keys=found["keys"], isolation_level=level).end_offsets()
        assert alone == [row for row in found[level] if row[1] < ends["orders", row[0]]]
        assert len(alone) > len(found[level]) / 2
    one = rows(read_log(store / "pre" / topic / "1", private_keys=found["keys"], isolation_level=level))
    assert one == [row for row in alone if row[0] == 1]


def test_parts_for_tasks(scene):
    store, local, found = scene
    opened = open_log(local, remote=store / "pre", private_keys=found["keys"], isolation_level="read_committed")
    wanted = found["read_committed"]
    for most in (1, 1500, 10**9):
        parts = [part for at in opened.partitions for part in opened.ranges(at, max_bytes=most)]
        assert rows(batch for part in parts for batch in pickle.loads(pickle.dumps(part)).read()) == wanted
        # The key of a segment travels with its parts, and is not shown.
        assert not any("data_key" in repr(part) for part in parts)
    begin, end = 17, 101
    some = [part for at in opened.partitions for part in opened.ranges(at, begin, end)]
    assert rows(batch for part in some for batch in part.read()) == [row for row in wanted if begin <= row[1] < end]


@pytest.fixture
def calls(scene, monkeypatch):
    """The scene's store in a file system in memory: the paths and spans that are requested of it, as they come."""
    store, _, _ = scene
    system = fsspec.filesystem("memory")
    for path in store.rglob("*"):
        if path.is_file():
            system.pipe_file(f"/tiered/{path.relative_to(store)}", path.read_bytes())
    made = []
    read = MemoryFileSystem.cat_file

    def counted(self, path, start=None, end=None, **options):
        made.append((path, start, end))
        return read(self, path, start=start, end=end, **options)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", counted)
    yield made
    system.rm("/tiered", recursive=True)


def test_requests_are_bounded(scene, calls):
    """One for each manifest, one for each segment that fits a window, and for transactions one or two for each."""
    _, _, found = scene
    read = {"private_keys": found["keys"]}
    alone = rows(read_log("memory://tiered/pre", **read))
    segments = sum(path.endswith(".log") for path in found["store"])
    assert len(calls) == 2 * segments
    calls.clear()
    rows(read_log("memory://tiered/pre", isolation_level="read_committed", **read))
    # For each of two partitions: the open transactions at its end, and the place where the first of them begins.
    assert len(calls) <= 3 * segments + 2 * 4
    calls.clear()
    # A part of a partition needs its own chunks only.
    log = open_log("memory://tiered/pre", **read)
    (at, *_), middle = log.partitions, alone[len(alone) // 4][1]
    calls.clear()
    log.end_offsets([at])
    manifests = len(calls)
    calls.clear()
    [part] = log.ranges(at, middle, middle + 1)
    [batch] = part.read()
    assert [record.offset for record in batch] == [middle]
    assert manifests < segments
    # An index, the batches that its entries name, and the part itself: less than the segment has.
    assert len(calls) <= 6
    assert sum(end - start for path, start, end in calls if path.endswith(".log")) < 12_000


def test_a_private_key_is_needed(tmp_path):
    found = SCENES["encrypted"]
    store = unpacked(found["store"], tmp_path) / "pre"
    with pytest.raises(ottla.errors.ArgumentError, match="encrypted with the RSA key 'first'"):
        rows(read_log(store))
    with pytest.raises(ottla.errors.ArgumentError, match="does not decrypt"):
        rows(read_log(store, private_keys={"first": private_key()[0]}))
    with pytest.raises(ottla.errors.ArgumentError, match="not a private key in PEM") as caught:
        read_log(store, private_keys={"first": "hunter2"}).__next__()
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def segments(tmp_path):
    """The folder of a partition with several closed segments, and its values."""
    values = [b"%d" % n + bytes(200) for n in range(100)]
    with (
        Broker(topics=["orders"], data_dir=tmp_path / "kafka", config={"log.segment.bytes": 3000}) as broker,
        ottla.Producer(broker.bootstrap_servers) as producer,
    ):
        for value in values:
            producer.send("orders", value).result(20)
    return tmp_path / "kafka" / "orders-0", values


def read_values(*args, **options):
    return [r.value for batch in read_log(*args, **options) for r in batch]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("chunk", [1, 700, 3001, 10**6])
def test_what_another_writer_writes(segments, tmp_path, compressed, encrypted, chunk):
    if chunk == 1 and (compressed or encrypted):
        chunk = 50
    folder, values = segments
    key = private_key() if encrypted else None
    tiered(folder, tmp_path / "store", chunk=chunk, compressed=compressed, key=key)
    keys = {"key-1": key[0]} if key else None
    alone = read_values(tmp_path / "store", private_keys=keys)
    assert alone == values[: len(alone)]
    assert len(alone) > 50
    assert read_values(folder, remote=tmp_path / "store", private_keys=keys) == values
    for path in sorted(folder.glob("*.log"))[:-2]:
        path.unlink()
    assert len(read_values(folder)) < len(values)
    assert read_values(folder, remote=tmp_path / "store", private_keys=keys) == values


def test_a_segment_that_was_copied_twice(segments, tmp_path):
    folder, values = segments
    for _ in range(2):
        tiered(folder, tmp_path / "store")
    assert read_values(folder, remote=tmp_path / "store") == values


def test_manifests_alone_count(segments, tmp_path):
    """A copy that failed left objects without a manifest."""
    folder, values = segments
    tiered(folder, tmp_path / "store")
    partition = next((tmp_path / "store").glob("orders-*/0"))
    (partition / "00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log").write_bytes(b"partial")
    assert read_values(folder, remote=tmp_path / "store") == values


def test_missing_segments_are_reported(segments, tmp_path):
    folder, _ = segments
    tiered(folder, tmp_path / "store")
    manifests = sorted((tmp_path / "store").rglob("*.rsm-manifest"))
    manifests[3].unlink()
    with pytest.raises(ottla.errors.CorruptRecordError, match=r"orders-0 lacks the offsets \d+ to \d+"):
        read_values(tmp_path / "store")
    for path in manifests[2:]:
        path.unlink(missing_ok=True)
    for path in sorted(folder.glob("*.log"))[:6]:
        path.unlink()
    with pytest.raises(ottla.errors.CorruptRecordError, match="neither in the store nor in a broker's folder"):
        read_values(folder, remote=tmp_path / "store")


def test_another_topic_of_the_same_name(segments, tmp_path):
    folder, _ = segments
    tiered(folder, tmp_path / "store", topic_id="MWJ6FHTfRYy67jzwZdeqSQ")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: tqimKeZwStOEOwRzT3L5oQ")
    with pytest.raises(ottla.errors.ArgumentError, match="was deleted and created again"):
        read_values(folder, remote=tmp_path / "store")
    tiered(folder, tmp_path / "store", topic_id="tqimKeZwStOEOwRzT3L5oQ")
    with pytest.raises(ottla.errors.ArgumentError, match="name the folder of one of them"):
        read_values(tmp_path / "store")
    assert read_values(folder, remote=tmp_path / "store" / "orders-tqimKeZwStOEOwRzT3L5oQ")


def test_a_store_without_segments(segments, tmp_path):
    folder, _ = segments
    (tmp_path / "store").mkdir()
    with pytest.raises(ottla.errors.ArgumentError, match="has no tiered segments"):
        read_values(folder, remote=tmp_path / "store")
    with pytest.raises(ottla.errors.ArgumentError, match="has no log of a partition"):
        read_values(tmp_path / "store")


# Manifests, and indexes that are not encrypted, have no checksum.
@pytest.mark.parametrize(
    ("mode", "ending"), [("plain", ".log"), ("zstd", ".log"), ("encrypted-zstd", ".log"), ("encrypted", ".indexes")]
)
def test_damage_never_changes_rows(tmp_path, mode, ending):
    """A byte that changed is reported, or changes nothing that is read."""
    found = SCENES[mode]
    store = unpacked(found["store"], tmp_path / "store")
    local = unpacked(found["local"], tmp_path / "local")
    chance = random.Random(38)
    paths = sorted(store.rglob(f"*{ending}"))
    reported = 0
    for _ in range(8):
        path = chance.choice(paths)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            options = {"private_keys": found["keys"], "isolation_level": "read_committed"}
            assert rows(read_log(local, remote=store / "pre", **options)) == found["read_committed"]
        except (ottla.errors.CorruptRecordError, ottla.errors.ArgumentError):
            reported += 1
        path.write_bytes(whole)
    assert reported
