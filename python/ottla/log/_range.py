"""A part of a partition's log, and its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla import Batch, _ottla
from ottla._types import TopicPartition
from ottla.errors import NotFoundError
from ottla.log._chunks import open_segment
from ottla.log._files import files_of
from ottla.log._manifest import Manifest
from ottla.log._outline import DECOMPRESS_LIMIT, PREFIX, corrupt, gone

# Bytes that are read and decoded at once, unless a batch is larger.
WINDOW = 4 * 2**20


@dataclass(frozen=True)
class LogRange:
    """A part of a segment, as `Log.ranges` made it. It can be pickled, and read in another process.

    Attributes:
        topic: The topic.
        partition: The partition.
        start: The first offset that is wanted.
        end: The offset after the last that is wanted.
        path: The segment.
        first_byte: Where the part begins.
        last_byte: Where it ends.
        size: The bytes of the segment; None if a broker may append to it.
        segment: The first offset that the segment can have, and the one after its last.
        aborted: Producer, first offset and marker of each transaction whose records are left out.
        tiered: What is known of a segment in tiered storage. It has the key of an encrypted one.
    """

    topic: str
    partition: int
    start: int
    end: int
    path: str
    first_byte: int
    last_byte: int
    size: int | None
    segment: tuple[int, int]
    aborted: tuple[tuple[int, int, int], ...] = field(default=(), repr=False)
    tiered: Manifest | None = field(default=None, repr=False)
    _root: str = field(default="", repr=False)

    def read(self, storage_options: Mapping[str, Any] | None = None) -> Iterator[Batch]:
        """Read the records, in the order of offsets.

        Memory is bounded: some MiB, or a few times the largest batch.

        Args:
            storage_options: As `open_log` takes them.

        Yields:
            Batches, none of them empty.

        Raises:
            CorruptRecordError: A batch is damaged. The text names file, position, topic, partition and offset; batches
                before it were yielded.
            NotFoundError: The segment is gone, or is another one now: the broker deleted or compacted it since the
                range was made. It is `retriable`, by a new read.
            OSError: The file cannot be read.
        """
        # A store by URL may stand beside folders of this machine, which have no options.
        files = files_of(self._root, storage_options if "://" in self._root else None)
        try:
            with open_segment(files, self.path, self.tiered) as reader:
                if reader.size < self.last_byte or self.size not in (None, reader.size):
                    raise self._gone()
                yield from self._batches(reader.read)
        except FileNotFoundError:
            raise self._gone() from None

    def _batches(self, read: Any) -> Iterator[Batch]:
        at = TopicPartition(self.topic, self.partition)
        decoder = _ottla.LogDecoder(
            self.topic, self.partition, self.start, self.end, self.segment, list(self.aborted), DECOMPRESS_LIMIT
        )
        position, window = self.first_byte, WINDOW
        while position < self.last_byte:
            left = self.last_byte - position
            data = read(position, min(window, left))
            if len(data) < min(window, left):
                raise self._gone()
            batch, used, has_ended, damage = decoder.decode(data)
            if len(batch):
                yield batch
            position += used
            if damage is not None:
                raise corrupt(at, self.path, position, *damage)
            if has_ended:
                return
            window = WINDOW
            if not used:
                window = PREFIX + int.from_bytes(data[8:PREFIX], "big", signed=True)
                if len(data) == left or window > left:
                    cause = f"a batch is cut short: {left} bytes of it are there"
                    raise corrupt(at, self.path, position, None, cause)

    def _gone(self) -> NotFoundError:
        return gone(TopicPartition(self.topic, self.partition), self.path)
