"""The logs of partitions: where they begin and end, and parts of them to read."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ottla._types import Partition, TopicPartition
from ottla.errors import ArgumentError, NotFoundError
from ottla.log._chunks import open_segment
from ottla.log._files import Files
from ottla.log._folders import Folder, Segment
from ottla.log._outline import Mark, Outline, first_offset, gone, index_marks, outline
from ottla.log._range import LogRange
from ottla.log._tiered import Store, Transactions, load, transactions

# Bytes of a segment that one task reads, as Spark divides files.
DEFAULT_BYTES = 128 * 2**20
# Partitions that are looked at at a time.
THREADS = 8


class _Known(NamedTuple):
    """What was found out of a partition.

    Attributes:
        size: Bytes of the last segment up to the end of its last whole batch.
        end: The offset after the last record that may be read.
        last: The offset after the last one.
        aborted: Producer, first offset and marker of each aborted transaction.
    """

    size: int
    end: int
    last: int
    aborted: list[tuple[int, int, int]]


class Log:
    """Partitions as they were when their folders were listed, without later records. `open_log` makes it.

    A partition's files are read at the first call for its offsets or ranges.
    """

    def __init__(
        self, files: Files, folders: dict[TopicPartition, Folder], store: Store | None = None, *, read_committed: bool
    ) -> None:
        self._files, self._folders, self._committed = files, folders, read_committed
        # Folders of tiered partitions, until they are looked at.
        self._store = store
        self._tiered = {} if store is None else store.folders
        self._known: dict[TopicPartition, _Known] = {}

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions, in order."""
        return sorted({*self._folders, *self._tiered})

    def beginning_offsets(self, partitions: Iterable[Partition] | None = None) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that is not deleted.

        Args:
            partitions: The partitions; None for all.

        Returns:
            Offsets by partition; that of an empty partition is its end.

        Raises:
            NotFoundError: There is no such partition; or, `retriable`, its broker deleted or compacted a segment since
                the folder was looked at.
            CorruptRecordError: A segment is damaged where its end, or a transaction, is looked for.
            OSError: A file cannot be read.
        """
        known = self._look(partitions)
        return {at: min(self._folders[at].start, found.end) for at, found in known.items()}

    def end_offsets(self, partitions: Iterable[Partition] | None = None) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition that may be read.

        Args:
            partitions: The partitions; None for all.

        Returns:
            Offsets by partition. With `read_committed` it is the last stable offset, before which no transaction is
            open.

        Raises:
            NotFoundError: As `beginning_offsets` raises it; so the others.
            CorruptRecordError: A segment is damaged.
            OSError: A file cannot be read.
        """
        return {at: known.end for at, known in self._look(partitions).items()}

    def ranges(
        self,
        partition: Partition,
        start: int | None = None,
        end: int | None = None,
        *,
        max_bytes: int = DEFAULT_BYTES,
    ) -> list[LogRange]:
        """Divide a part of a partition, such as for parallel tasks.

        Each range is in one segment. A large segment is divided at the begin of batches, from its index or from the
        batches themselves.

        Args:
            partition: The partition.
            start: The first offset; None for the first one that there is.
            end: The offset after the last; None for all.
            max_bytes: About the most bytes of a range. A batch is never divided.

        Returns:
            Ranges in the order of offsets. Read one after the other they give each record once. Offsets that the
            partition does not hold have no range.

        Raises:
            ArgumentError: `max_bytes` is not positive.
            NotFoundError: As `beginning_offsets` raises it.
            CorruptRecordError: A segment is damaged where its end, a transaction or a place to divide it is looked for.
            OSError: A file cannot be read.
        """
        at = TopicPartition(*partition)
        if max_bytes <= 0:
            raise ArgumentError(f"max_bytes is 1 or more, and was {max_bytes}")
        known = self._look([at])[at]
        folder = self._folders[at]
        first = folder.start if start is None else max(start, folder.start)
        until = known.end if end is None else min(end, known.end)
        # A segment holds nothing from the base of the one after it on.
        bases = [segment.base for segment in folder.segments[1:]]
        made: list[LogRange] = []
        for listed, after in zip(folder.segments, [*bases, None], strict=True):
            low, high = max(first, listed.base), until if after is None else min(until, after)
            bounds = listed.base, known.last if after is None else after
            size = known.size if after is None else listed.size
            if low >= high or size == 0:
                continue
            segment = self._unlocked(listed)
            aborted = tuple(span for span in known.aborted if span[1] < high and span[2] >= low)
            made += [
                LogRange(
                    at.topic,
                    at.partition,
                    low,
                    high,
                    segment.path,
                    begin,
                    stop,
                    None if after is None and segment.tiered is None else segment.size,
                    bounds,
                    aborted,
                    segment.tiered,
                    self._files_of(segment).path,
                )
                for begin, stop in self._divided(at, segment, size, (low, high), max_bytes)
            ]
        return made

    def _look(self, partitions: Iterable[Partition] | None) -> dict[TopicPartition, _Known]:
        """The state of these partitions, from their files."""
        wanted = self.partitions if partitions is None else [TopicPartition(*each) for each in partitions]
        for at in wanted:
            if at not in self._folders and at not in self._tiered:
                raise NotFoundError(f"there is no folder of partition {at.partition} of topic {at.topic}")
        new = [at for at in wanted if at not in self._known]
        look = self._transactions if self._committed else self._end
        with ThreadPoolExecutor(THREADS) as pool:
            self._folders.update(zip(new, pool.map(self._joined, new), strict=True))
            self._known.update(zip(new, pool.map(look, [self._folders[at] for at in new]), strict=True))
        return {at: self._known[at] for at in wanted}

    def _joined(self, at: TopicPartition) -> Folder:
        """The folder of a partition, with its tiered segments."""
        if self._store is None or at not in self._tiered:
            return self._folders[at]
        return load(self._store.files, self._tiered[at], self._folders.get(at))

    def _unlocked(self, segment: Segment) -> Segment:
        """The segment with its key, if it is an encrypted one."""
        if segment.tiered is None or self._store is None:
            return segment
        return replace(segment, tiered=segment.tiered.unlocked(self._store.keys))

    def _files_of(self, segment: Segment) -> Files:
        return self._files if segment.tiered is None or self._store is None else self._store.files

    def _divided(
        self, at: TopicPartition, segment: Segment, size: int, offsets: tuple[int, int], most: int
    ) -> Iterable[tuple[int, int]]:
        """Where the parts of a segment begin and end."""
        if segment.tiered is not None and size <= most and offsets == (segment.base, segment.tiered.end):
            return [(0, size)]
        files = self._files_of(segment)
        marks = [mark for mark in index_marks(files, segment) if mark.position < size]
        cuts = _cuts(marks, size, offsets, most)
        if not self._are_right(at, segment, size, offsets, cuts) or (not marks and size > most):
            whole = outline(files, at, replace(segment, size=size), is_last=False)
            cuts = _cuts(whole.marks, size, offsets, most)
        places = [cut.position for cut in cuts]
        return pairwise(places)

    def _are_right(
        self, at: TopicPartition, segment: Segment, size: int, offsets: tuple[int, int], cuts: list[Mark]
    ) -> bool:
        """Whether batches begin at the places that an index names, and nothing is left out before and after them."""
        inside = [cut.position for cut in cuts if cut.position not in (0, size)]
        try:
            with open_segment(self._files_of(segment), segment.path, segment.tiered) as reader:
                begun = {position: first_offset(reader, segment, position) for position in inside}
        except FileNotFoundError:
            raise gone(at, segment.path) from None
        found = {position: offset for position, offset in begun.items() if offset is not None}
        first, until = offsets
        return (
            len(found) == len(begun)
            and found.get(cuts[0].position, first) <= first
            and found.get(cuts[-1].position, until) >= until
        )

    def _end(self, folder: Folder) -> _Known:
        """Where a partition ends: what an index points to is not looked at again."""
        last = folder.segments[-1]
        if last.tiered is not None:
            return _Known(last.size, last.tiered.end, last.tiered.end, [])
        marks = index_marks(self._files, last)
        start = 0
        if marks:
            try:
                with self._files.open(last.path) as reader:
                    start = marks[-1].position if first_offset(reader, last, marks[-1].position) is not None else 0
            except FileNotFoundError:
                raise gone(folder.partition, last.path) from None
        found = outline(self._files, folder.partition, last, is_last=True, start=start)
        end = last.base if found.next_offset is None else found.next_offset
        return _Known(found.end, end, end, [])

    def _transactions(self, folder: Folder) -> _Known:
        """Where a partition ends before the first open transaction, and which were aborted."""
        found = Transactions([], {}) if self._store is None else transactions(self._store, folder)
        begun = dict(found.begun)
        aborted: list[tuple[int, int, int]] = [*found.aborted]
        local = [segment for segment in folder.segments if segment.tiered is None]
        outlines: list[Outline] = [
            outline(self._files, folder.partition, segment, is_last=segment is local[-1]) for segment in local
        ]
        for producer, offset, committed in (step for each in outlines for step in each.steps):
            if committed is None:
                begun.setdefault(producer, offset)
            elif (first := begun.pop(producer, None)) is not None and not committed:
                aborted.append((producer, first, offset))
        size, last = folder.segments[-1].size, folder.segments[-1]
        if last.tiered is not None:
            end = last.tiered.end
        else:
            size = outlines[-1].end
            end = last.base if outlines[-1].next_offset is None else outlines[-1].next_offset
        return _Known(size, min(begun.values(), default=end), end, aborted)


def _cuts(marks: list[Mark], size: int, offsets: tuple[int, int], most: int) -> list[Mark]:
    """The ends of parts with about this many bytes, which together hold the offsets."""
    first, until = offsets
    begin = next((mark for mark in reversed(marks) if mark.offset <= first), Mark(0, 0))
    # An entry of an index may stand for several batches: the one after it is surely beyond.
    beyond = [mark for mark in marks if mark.offset >= until][1:2]
    stop = beyond[0] if beyond else Mark(until, size)
    cuts = [begin]
    inner = [mark for mark in marks if begin.position < mark.position < stop.position]
    for mark, after in pairwise([*inner, stop]):
        if after.position - cuts[-1].position > most:
            cuts.append(mark)
    return [*cuts, stop]
