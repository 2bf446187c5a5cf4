"""Folders of partitions, and the segments in them, as brokers of all releases name them."""

from __future__ import annotations

import os
import posixpath
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla._types import TopicPartition
from ottla.errors import ArgumentError, CorruptRecordError
from ottla.log._files import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.log._files import Entry, Files
    from ottla.log._manifest import Manifest

SEGMENT = re.compile(r"([0-9]{20})\.log")
# Compaction writes a new segment under this name. It removes the old segment and then renames the
# new one.
SWAP = re.compile(r"([0-9]{20}\.log)\.swap")
# How often a folder is looked at while a broker does so, and seconds between.
LOOKS = 5
PAUSE = 0.2
# A folder of a partition that is deleted, or moves to another disk, has more behind its number.
PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})")
# Next to the folders of partitions: the first offsets of partitions whose records were deleted
# (KIP-107).
STARTS = "log-start-offset-checkpoint"
METADATA = "partition.metadata"


@dataclass(frozen=True)
class Segment:
    """A file of a log.

    Attributes:
        path: The file.
        base: The offset in its name: no record in it has a lower one.
        size: Its bytes.
        index: The file with positions of some of its offsets; None without such a file.
        tiered: What is known of a segment in tiered storage; None for a file of a broker.
    """

    path: str
    base: int
    size: int
    index: str | None
    tiered: Manifest | None = None


@dataclass(frozen=True)
class Folder:
    """The log of a partition.

    Attributes:
        partition: The partition.
        path: The folder.
        segments: In the order of offsets; at least one.
        deleted: The offset before which records were deleted, 0 if it is not known.
        topic_id: The topic's id, if the folder has it.
    """

    partition: TopicPartition
    path: str
    segments: tuple[Segment, ...]
    deleted: int
    topic_id: str | None = None

    @property
    def start(self) -> int:
        """The first offset that is not deleted."""
        return max(self.segments[0].base, self.deleted)


def find(files: Files) -> dict[TopicPartition, Folder]:
    """The partitions in the folders that the user named, in order.

    Raises:
        ArgumentError: A folder has segments and no name of a partition, or a partition is in two folders.
        CorruptRecordError: The file with the partitions' first offsets is damaged, or a broker was ended while it put a
            compacted segment in place.
    """
    found: dict[TopicPartition, Folder] = {}
    for path in files.folders():
        for folder in _in_folder(files, path):
            other = found.setdefault(folder.partition, folder)
            if other.path != folder.path:
                topic, number = folder.partition
                raise ArgumentError(
                    f"partition {number} of topic {topic} is in {other.path} and in {folder.path}: name one of the "
                    "folders"
                )
    return dict(sorted(found.items()))


def _in_folder(files: Files, path: str) -> Iterable[Folder]:
    """The partition that a folder is, or those that it holds."""
    entries = files.entries(path)
    if segments := _segments(files, path, entries):
        if (partition := _partition(posixpath.basename(path.replace(os.sep, "/")))) is None:
            raise ArgumentError(
                f"{path} holds segments, but its name does not contain the partition: rename it as on the broker, "
                "TOPIC-NUMBER, such as orders-0"
            )
        yield _folder(files, partition, path, segments, _starts(files, posixpath.dirname(path)))
        return
    starts = _starts(files, path)
    for entry in entries:
        partition = _partition(entry.name)
        if entry.is_folder and partition is not None:
            try:
                segments = _segments(files, entry.path, files.entries(entry.path))
            except FileNotFoundError:  # Deleted meanwhile.
                continue
            if segments:
                yield _folder(files, partition, entry.path, segments, starts)


def _partition(name: str) -> TopicPartition | None:
    match = PARTITION.fullmatch(name)
    return match and TopicPartition(match[1], int(match[2]))


def _settled(files: Files, folder: str, entries: list[Entry]) -> list[Entry]:
    """What a folder holds, at a time when no compacted segment lacks its name."""
    for look in range(LOOKS):
        if look:
            time.sleep(PAUSE)
            entries = files.entries(folder)
        names = {entry.name for entry in entries}
        swaps = [name for name in sorted(names) if (match := SWAP.fullmatch(name)) and match[1] not in names]
        if not swaps:
            return entries
    raise CorruptRecordError(
        f"{shown(folder)} has {swaps[0]} and not the segment itself: the broker was ended, or the copy was made, while "
        "a compacted segment was put in place, and the file may be all that there is of its records. Start the broker "
        "on the folder, which completes it, or copy the folder again"
    )


def _segments(files: Files, folder: str, entries: list[Entry]) -> list[Segment]:
    entries = _settled(files, folder, entries)
    named = [
        (entry.name, match[1]) for entry in entries if (match := SEGMENT.fullmatch(entry.name)) and not entry.is_folder
    ]
    # A segment may have grown before the one after it came into the list: now it has its last size.
    again = _settled(files, folder, files.entries(folder)) if len(named) > 1 else entries
    now = {entry.name: entry for entry in again}
    return [
        Segment(
            now[name].path, int(base), now[name].size, now[index].path if (index := f"{base}.index") in now else None
        )
        for name, base in named
        if name in now
    ]


def _folder(
    files: Files, partition: TopicPartition, path: str, segments: list[Segment], starts: dict[TopicPartition, int]
) -> Folder:
    return Folder(partition, path, tuple(segments), starts.get(partition, 0), _topic_id(files, path))


def _topic_id(files: Files, folder: str) -> str | None:
    """The id in a partition's `partition.metadata`, which brokers have since 2.8: lines of names and values."""
    try:
        with files.open(posixpath.join(folder, METADATA)) as reader:
            text = reader.read(0, reader.size).decode(errors="replace")
    except FileNotFoundError:
        return None
    found = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return found.get("topic_id")


def _starts(files: Files, folder: str) -> dict[TopicPartition, int]:
    """The offsets at which partitions begin whose records were deleted: a version, a number of lines, and these."""
    path = posixpath.join(folder, STARTS)
    try:
        with files.open(path) as reader:
            text = reader.read(0, reader.size).decode(errors="replace")
    except FileNotFoundError:
        return {}
    try:
        rows = [line.split() for line in text.splitlines()[2:]]
        return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in rows}
    except ValueError:
        raise CorruptRecordError(
            f"{path} does not have a topic, a partition and an offset in each line. It contains the first offsets of "
            "partitions whose records were deleted: without the file they begin with their segments"
        ) from None
