"""The outline of a segment from its batch headers: its end, the places where it can be divided, its transactions."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from ottla import _ottla
from ottla.errors import CorruptRecordError, NotFoundError
from ottla.log._chunks import open_segment, read_index
from ottla.log._files import shown
from ottla.protocol import read_segment

if TYPE_CHECKING:
    from ottla import Batch
    from ottla._types import TopicPartition
    from ottla.log._files import Files, Reader
    from ottla.log._folders import Segment

# Bytes that are read at once: what a large batch has behind them is passed over.
WINDOW = 256 * 2**10
# Bytes between marks.
MARKED = 2**20
# Bytes that a batch may decompress to.
DECOMPRESS_LIMIT = 256 * 2**20
LAST_OFFSET = 2**63 - 1
# An offset and the number of bytes that follow; and all that stands before the records of a batch.
PREFIX = 12
HEADER = 61
MAGIC_AT = 16


class Mark(NamedTuple):
    """A place between two batches.

    Attributes:
        offset: No batch before the position reaches it.
        position: A batch begins here.
    """

    offset: int
    position: int


class Step(NamedTuple):
    """What a batch means for a transaction.

    Attributes:
        producer_id: Whose transaction it is.
        offset: Of the batch.
        committed: How it ends here; None if these are its records.
    """

    producer_id: int
    offset: int
    committed: bool | None


class Outline(NamedTuple):
    """What a part of a segment holds.

    Attributes:
        end: The position after its last whole batch.
        next_offset: The offset after that batch; None without a batch.
        marks: Places between batches, `MARKED` bytes apart or more.
        steps: Of transactions; of the records of one, only some.
    """

    end: int
    next_offset: int | None
    marks: list[Mark]
    steps: list[Step]


def outline(files: Files, at: TopicPartition, segment: Segment, *, is_last: bool, start: int = 0) -> Outline:
    """Walk a segment from a position on.

    Args:
        files: Where it is.
        at: Its partition.
        segment: The segment.
        is_last: Whether a broker may still be writing it, so that it may end in a part of a batch, or in zeros.
        start: Where to begin; a batch begins there.

    Raises:
        CorruptRecordError: Something else than whole batches is there.
        NotFoundError: The file is gone.
        OSError: The file cannot be read.
    """
    try:
        with open_segment(files, segment.path, segment.tiered) as reader:
            walk = _Walk(reader, at, segment)
            found = walk.until(segment.size, start, is_last=is_last)
            return walk.without_tail(found, start) if is_last else found
    except FileNotFoundError:
        raise gone(at, segment.path) from None


def first_offset(reader: Reader, segment: Segment, position: int) -> int | None:
    """The offset at which a whole batch with a right checksum begins; None if there is no such batch."""
    prefix = reader.read(position, PREFIX)
    size = PREFIX + int.from_bytes(prefix[8:], "big", signed=True) if len(prefix) == PREFIX else 0
    if not PREFIX < size <= segment.size - position:
        return None
    data = reader.read(position, size)
    batch = _decoded(data)
    if batch is None:
        return None
    # A message of magic 0 or 1 names the last offset of what it holds.
    is_message = data[MAGIC_AT] < 2
    return batch[0].offset if is_message and len(batch) else int.from_bytes(data[:8], "big", signed=True)


def index_marks(files: Files, segment: Segment) -> list[Mark]:
    """The entries of a segment's index; empty without an index, or if its offsets do not ascend.

    It has pairs of 32-bit numbers: an offset less the segment's base, and a position.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        if segment.tiered is not None:
            data = read_index(files, segment.tiered, "offset")
        elif segment.index is None:
            return []
        else:
            with files.open(segment.index) as reader:
                data = reader.read(0, reader.size)
    except FileNotFoundError:  # Deleted meanwhile.
        return []
    # While a segment is written to, its index has space for more entries.
    used = -(-len(data.rstrip(b"\0")) // 8) * 8
    found: list[Mark] = []
    position = 0
    for relative, place in struct.iter_unpack(">ii", data[:used].ljust(used, b"\0")):
        if place >= segment.size:
            break
        if place > position:
            found.append(Mark(segment.base + relative, place))
            position = place
    offsets = [segment.base - 1, *(mark.offset for mark in found)]
    return found if all(one < other for one, other in pairwise(offsets)) else []


def corrupt(at: TopicPartition, path: str, position: int, offset: int | None, cause: str) -> CorruptRecordError:
    """The error for bytes that are not the batch that should be there."""
    where = f"{at.topic}-{at.partition}" + ("" if offset is None else f", offset {offset}")
    error = CorruptRecordError(
        f"{shown(path)} is damaged at byte {position} ({where}): {cause}. Take the segment from another replica. "
        "Records before and after the damage can be read by offset with read_uncommitted if the segment has its .index"
    )
    error.topic, error.partition, error.cause = at.topic, at.partition, cause
    return error


def gone(at: TopicPartition, path: str) -> NotFoundError:
    """The error for a segment that is not there any more, or is another one."""
    error = NotFoundError(
        f"{shown(path)} ({at.topic}-{at.partition}) was deleted or compacted by its broker after its folder was looked "
        "at: read again, or read a copy of the folder"
    )
    error.topic, error.partition, error.retriable = at.topic, at.partition, True
    return error


class _Walk:
    def __init__(self, reader: Reader, at: TopicPartition, segment: Segment) -> None:
        self._reader, self._at, self._segment = reader, at, segment
        # Where the last batch begins.
        self._last = 0
        # Whether the end of the file cuts what follows it.
        self._is_cut = False

    def until(self, size: int, position: int, *, is_last: bool) -> Outline:
        """The batches up to a position."""
        next_offset: int | None = None
        marks: list[Mark] = []
        steps: list[Step] = []
        window = WINDOW
        while position < size:
            if next_offset is not None and position - (marks[-1].position if marks else 0) >= MARKED:
                marks.append(Mark(next_offset, position))
            wanted = min(window, size - position)
            data = self._reader.read(position, wanted)
            if len(data) < wanted:
                why = f"the file had {size} bytes and was cut while it was read"
                raise corrupt(self._at, self._segment.path, position + len(data), next_offset, why)
            used, after, last, stepped, is_cut, cause = _ottla.outline_log(data, size - position, DECOMPRESS_LIMIT)
            steps += [Step(*step) for step in stepped]
            if after is not None:
                next_offset, self._last = after, position + last
            window = window if used or cause or is_cut else 2 * window
            position += used
            if cause is None and not is_cut:
                continue
            # An incomplete header proves nothing.
            if not is_last or not (is_cut or self._is_zero(position + HEADER, size)):
                path = self._segment.path
                why = cause or f"a batch is cut short: the file ends after {size - position} bytes of it"
                raise corrupt(self._at, path, position, next_offset, why)
            self._is_cut = is_cut
            break
        return Outline(position, next_offset, marks, steps)

    def without_tail(self, found: Outline, start: int) -> Outline:
        """What was found in the last segment, without a batch at its end that does not have all its bytes yet.

        Raises:
            CorruptRecordError: A whole batch follows, so a broker was not writing this one.
        """
        size, last, is_cut = self._segment.size, self._last, self._is_cut
        if found.next_offset is None or _decoded(self._reader.read(last, found.end - last)) is not None:
            if is_cut:
                self._refuse_batches(
                    found.end, size, self._segment.base if found.next_offset is None else found.next_offset
                )
            return found
        self._refuse_batches(last, size if is_cut else found.end, self._segment.base)
        if found.end < size and self._is_zero(found.end, size):
            # It has its size already, and not all its bytes, as in a file that was allocated beforehand.
            return self.until(last, start, is_last=True)
        return found

    def _refuse_batches(self, position: int, end: int, least: int) -> None:
        """Raise if a whole batch at this offset or a later one begins behind the bytes at a position."""
        # Its own header, which claims what follows too, is passed over.
        behind = position + HEADER
        part = cast("BinaryIO", _Part(self._reader, behind, end))
        for batch in read_segment(part, on_damage=lambda _: None, limit=DECOMPRESS_LIMIT):
            if batch.base_offset >= least:
                cause = f"its bytes are not a whole batch, and one follows at byte {behind + batch.position}"
                raise corrupt(self._at, self._segment.path, position, None, cause)

    def _is_zero(self, position: int, end: int) -> bool:
        while position < end:
            data = self._reader.read(position, min(WINDOW, end - position))
            if not data or data.strip(b"\0"):
                return False
            position += len(data)
        return True


class _Part:
    """The bytes between two positions, to be read once."""

    def __init__(self, reader: Reader, position: int, end: int) -> None:
        self._reader, self._position, self._end = reader, position, end

    def read(self, length: int) -> bytes:
        data = self._reader.read(self._position, max(min(length, self._end - self._position), 0))
        self._position += len(data)
        return data


def _decoded(data: bytes) -> Batch | None:
    """The records, if these bytes are a batch."""
    decoder = _ottla.LogDecoder("", 0, 0, LAST_OFFSET, (0, LAST_OFFSET), [], DECOMPRESS_LIMIT)
    batch, used, _, damage = decoder.decode(data)
    return batch if damage is None and used == len(data) else None
