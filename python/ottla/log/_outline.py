"""What the first bytes of batches tell of a segment: where it ends, where it can be divided, its transactions."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ottla import _ottla
from ottla.errors import CorruptRecordError

if TYPE_CHECKING:
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
        next_offset: The offset after that batch; None if there is none.
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
        OSError: The file cannot be read.
    """
    with files.open(segment.path) as reader:
        walk = _Walk(reader, at, segment)
        found = walk.until(segment.size, start, is_last=is_last)
        if is_last and found.end < segment.size and found.next_offset is not None and not walk.is_whole(found.end):
            # It has its size already, and not all its bytes, as in a file that was allocated beforehand.
            return walk.until(walk.last, start, is_last=True)
        return found


def begins_batch(reader: Reader, segment: Segment, mark: Mark) -> bool:
    """Whether a whole batch with a right checksum begins at a mark of an index."""
    prefix = reader.read(mark.position, PREFIX)
    size = PREFIX + int.from_bytes(prefix[8:], "big", signed=True) if len(prefix) == PREFIX else 0
    if not PREFIX < size <= segment.size - mark.position:
        return False
    return _decodes(reader.read(mark.position, size))


def index_marks(files: Files, segment: Segment) -> list[Mark]:
    """What the index of a segment says; nothing if there is none.

    It has pairs of 32-bit numbers: an offset less the segment's base, and a position.

    Raises:
        OSError: The file cannot be read.
    """
    if segment.index is None:
        return []
    try:
        with files.open(segment.index) as reader:
            data = reader.read(0, reader.size)
    except FileNotFoundError:  # Deleted meanwhile.
        return []
    # While a segment is written to, its index has room for more.
    used = -(-len(data.rstrip(b"\0")) // 8) * 8
    found: list[Mark] = []
    position = 0
    for relative, place in struct.iter_unpack(">ii", data[:used].ljust(used, b"\0")):
        if place >= segment.size:
            break
        if place > position:
            found.append(Mark(segment.base + relative, place))
            position = place
    return found


def corrupt(at: TopicPartition, path: str, position: int, offset: int | None, cause: str) -> CorruptRecordError:
    """The error for bytes that are not the batch that should be there."""
    where = f"{at.topic}-{at.partition}" + ("" if offset is None else f", offset {offset}")
    error = CorruptRecordError(
        f"{path} is damaged at byte {position} ({where}): {cause}. Take the segment from another replica, or read "
        "around the damage by offsets"
    )
    error.topic, error.partition, error.cause = at.topic, at.partition, cause
    return error


class _Walk:
    def __init__(self, reader: Reader, at: TopicPartition, segment: Segment) -> None:
        self._reader, self._at, self._segment = reader, at, segment
        # Where the last batch begins.
        self.last = 0

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
                next_offset, self.last = after, position + last
            window = window if used or cause or is_cut else 2 * window
            position += used
            if cause is None and not is_cut:
                continue
            # A header that is not whole yet says nothing.
            if not is_last or not (is_cut or self._is_zero(position + HEADER, size)):
                path = self._segment.path
                why = cause or f"a batch is cut short: the file ends after {size - position} bytes of it"
                raise corrupt(self._at, path, position, next_offset, why)
            break
        return Outline(position, next_offset, marks, steps)

    def is_whole(self, end: int) -> bool:
        """Whether the last batch has all its bytes, where zeros after it say that they may stand in for some."""
        if not self._is_zero(end, self._segment.size):
            return True
        return _decodes(self._reader.read(self.last, end - self.last))

    def _is_zero(self, position: int, end: int) -> bool:
        while position < end:
            data = self._reader.read(position, min(WINDOW, end - position))
            if not data or data.strip(b"\0"):
                return False
            position += len(data)
        return True


def _decodes(data: bytes) -> bool:
    """Whether these bytes are a batch."""
    decoder = _ottla.LogDecoder("", 0, 0, LAST_OFFSET, (0, LAST_OFFSET), [], DECOMPRESS_LIMIT)
    _, used, _, damage = decoder.decode(data)
    return damage is None and used == len(data)
