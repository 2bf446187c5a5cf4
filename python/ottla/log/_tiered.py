"""Partitions in tiered storage: the folders of a store, and the log of a partition that is partly there."""

from __future__ import annotations

import posixpath
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ottla._types import TopicPartition
from ottla.errors import ArgumentError, CorruptRecordError
from ottla.log._chunks import Aborted, aborted_in, open_after
from ottla.log._files import shown
from ottla.log._folders import Folder, Segment
from ottla.log._manifest import read_manifest
from ottla.log._outline import gone, outline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.log._files import Entry, Files
    from ottla.log._manifest import Manifest
    from ottla.log._private_keys import PrivateKeys

# The folder of a topic, with its id; in it one for each partition, with the manifests of segments.
TOPIC = re.compile(r"([a-zA-Z0-9._-]{1,249})-([a-zA-Z0-9_-]{22})")
# Manifests that are read at a time.
THREADS = 8
NUMBER = re.compile(r"[0-9]{1,10}")
SEGMENT = re.compile(r"[0-9]{20}-[a-zA-Z0-9_-]{22}\.rsm-manifest")


@dataclass(frozen=True)
class TieredFolder:
    """A partition in a store, without a look at its segments.

    Attributes:
        partition: The partition.
        path: The folder.
        topic_id: The topic's id.
        manifests: Of its segments.
    """

    partition: TopicPartition
    path: str
    topic_id: str
    manifests: tuple[str, ...]


class Store(NamedTuple):
    """Tiered partitions.

    Attributes:
        files: Where they are.
        folders: By partition.
        keys: For segments that are encrypted.
    """

    files: Files
    folders: dict[TopicPartition, TieredFolder]
    keys: PrivateKeys


class Transactions(NamedTuple):
    """The transactions of the tiered part of a log.

    Attributes:
        aborted: Those with a marker there.
        begun: The first offset of those that are open at its end, by producer.
    """

    aborted: list[Aborted]
    begun: dict[int, int]


def find_tiered(files: Files) -> dict[TopicPartition, TieredFolder]:
    """The tiered partitions in the folders that the user named.

    Raises:
        ArgumentError: A topic is there twice, by the ids of two topics of this name.
    """
    found: dict[TopicPartition, TieredFolder] = {}
    for path in files.folders():
        for folder in _below(files, path.rstrip("/")):
            other = found.setdefault(folder.partition, folder)
            if other.path != folder.path:
                raise ArgumentError(
                    f"topic {folder.partition.topic} is in {shown(other.path)} and in {shown(folder.path)}, as if it "
                    "was deleted and created again: name the folder of one of them"
                )
    return dict(sorted(found.items()))


def _below(files: Files, path: str) -> Iterator[TieredFolder]:
    """The partitions in a folder, which may be a store's, a topic's or a partition's."""
    name, parent = posixpath.basename(path), posixpath.basename(posixpath.dirname(path))
    if NUMBER.fullmatch(name) and (topic := TOPIC.fullmatch(parent)):
        yield from _partition(files, topic, [_Place(name, path)])
    elif topic := TOPIC.fullmatch(name):
        yield from _partition(files, topic, _numbers(files.entries(path)))
    else:
        for entry in files.entries(path):
            if entry.is_folder and (topic := TOPIC.fullmatch(entry.name)):
                yield from _partition(files, topic, _numbers(files.entries(entry.path)))


class _Place(NamedTuple):
    name: str
    path: str


def _numbers(entries: list[Entry]) -> list[_Place]:
    return [_Place(entry.name, entry.path) for entry in entries if entry.is_folder and NUMBER.fullmatch(entry.name)]


def _partition(files: Files, topic: re.Match[str], places: Iterable[_Place]) -> Iterator[TieredFolder]:
    for place in places:
        manifests = tuple(entry.path for entry in files.entries(place.path) if SEGMENT.fullmatch(entry.name))
        if manifests:
            yield TieredFolder(TopicPartition(topic[1], int(place.name)), place.path, topic[2], manifests)


def load(files: Files, tiered: TieredFolder, local: Folder | None) -> Folder:
    """Read the manifests of a partition, and join its segments with those of a broker's folder.

    The folder's segments are used from its first offset on, and before it those of the store.

    Args:
        files: The store.
        tiered: The partition there.
        local: The partition in the broker's folder.

    Raises:
        ArgumentError: The folder is of another topic of this name.
        CorruptRecordError: A manifest is damaged, or offsets are missing between segments.
        NotFoundError: A broker deleted a segment meanwhile.
    """
    at = tiered.partition
    if local is not None and local.topic_id not in (None, tiered.topic_id):
        raise ArgumentError(
            f"{shown(local.path)} is of topic {at.topic} with the id {local.topic_id}, and {shown(tiered.path)} has "
            f"the id {tiered.topic_id}: the topic was deleted and created again, or they are of different clusters"
        )

    def read(path: str) -> Manifest:
        try:
            return read_manifest(files, path, at)
        except FileNotFoundError:
            raise gone(at, path) from None

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(read, tiered.manifests))
    segments = [_segment(each) for each in _lineage(found)]
    if local is None:
        return Folder(at, tiered.path, tuple(segments), 0, tiered.topic_id)
    first = local.segments[0].base
    before = [segment for segment in segments if segment.base < first]
    if before and (end := _end(before[-1])) < first:
        raise _gap(at, end, first)
    return replace(local, segments=(*before, *local.segments))


def _segment(manifest: Manifest) -> Segment:
    return Segment(manifest.segment_path, manifest.start, manifest.size, None, manifest)


def _end(segment: Segment) -> int:
    return segment.tiered.end if segment.tiered is not None else segment.base


def _lineage(found: list[Manifest]) -> list[Manifest]:
    """The segments that make up the log, in order.

    A segment may have been copied twice, if a leader failed meanwhile. Where leaders disagreed about the log, the
    segment with the later epoch has what the partition has.
    """
    kept: list[Manifest] = []
    for each in sorted(found, key=lambda manifest: (manifest.start, manifest.epoch, manifest.end)):
        while kept and each.start <= kept[-1].start:
            kept.pop()
        # One that ends within the segment before it adds nothing, unless its leader came later.
        if not kept or each.end > kept[-1].end or each.epoch > kept[-1].epoch:
            kept.append(each)
    for before, after in pairwise(kept):
        if before.end < after.start:
            raise _gap(_at(before), before.end, after.start)
    return kept


def _at(manifest: Manifest) -> TopicPartition:
    number = posixpath.dirname(manifest.path)
    topic = TOPIC.fullmatch(posixpath.basename(posixpath.dirname(number)))
    return TopicPartition(topic[1] if topic else "", int(posixpath.basename(number)))


def _gap(at: TopicPartition, first: int, until: int) -> CorruptRecordError:
    error = CorruptRecordError(
        f"{at.topic}-{at.partition} lacks the offsets {first} to {until - 1}: no segment has them, neither in the "
        "store nor in a broker's folder. Name the store and the folder of one cluster, copied at one time"
    )
    error.topic, error.partition = at
    return error


def transactions(store: Store, folder: Folder) -> Transactions:
    """The transactions of the tiered part of a log, from indexes.

    A segment holds only what comes before the next one's base. So the last tiered segment may be used in part:
    then its batches are read to find what is open there.

    Args:
        store: Where they are.
        folder: The partition.

    Raises:
        ArgumentError: A private key is missing.
        CorruptRecordError: An index or a segment is damaged.
        NotFoundError: A broker deleted a segment meanwhile.
    """
    at = folder.partition
    tiered = [segment.tiered for segment in folder.segments if segment.tiered is not None]
    if not tiered:
        return Transactions([], {})
    local = next((segment for segment in folder.segments if segment.tiered is None), None)
    end = tiered[-1].end if local is None else min(local.base, tiered[-1].end)
    files, keys = store.files, store.keys
    try:
        indexed = [each.unlocked(keys) for each in tiered if each.index("transaction")]
        aborted = {found for each in indexed for found in aborted_in(files, each) if found.marker < end}
        last = tiered[-1].unlocked(keys)
        if end == last.end:
            return Transactions(sorted(aborted), open_after(files, last))
        begun = open_after(files, tiered[-2].unlocked(keys)) if len(tiered) > 1 else {}
        for step in outline(files, at, _segment(last), is_last=False).steps:
            if step.offset >= end:
                break
            if step.committed is None:
                begun.setdefault(step.producer_id, step.offset)
            else:
                begun.pop(step.producer_id, None)
    except FileNotFoundError:
        raise gone(at, tiered[-1].path) from None
    return Transactions(sorted(aborted), begun)
