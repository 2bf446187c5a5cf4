"""Log segments: the `.log` files in a broker's data folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from ottla import _ottla
from ottla.errors import ArgumentError, CorruptRecordError
from ottla.protocol._records import DECOMPRESS_LIMIT, RecordBatch, build

# Bytes that are read at once, and the most that are held: a batch of more than half of that may be
# reported as damaged.
WINDOW = 4 * 2**20
MOST = 128 * 2**20
# An offset and the number of bytes that follow.
PREFIX = 12
ZEROS = "nothing but zeros"


@dataclass(frozen=True)
class Damage:
    """A part of a segment that is neither a batch nor a message.

    Attributes:
        position: Its first byte, from the beginning of the segment.
        size: How many bytes it has; after it comes a whole batch, or nothing.
        cause: What is wrong with its first bytes.
    """

    position: int
    size: int
    cause: str

    def __str__(self) -> str:
        return f"{self.size:,} bytes at byte {self.position} are damaged: {self.cause}"


def read_segment(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    on_damage: Callable[[Damage], object] | None = None,
    check_crcs: bool = True,
    limit: int = DECOMPRESS_LIMIT,
) -> Iterator[RecordBatch]:
    """Read a log segment of any age, batch by batch.

    A tail of zeros, as in a file that the broker allocated beforehand, is the end. So is the end of the file: what a
    broker appends while the segment is read may be seen or not, or be seen in part, which is damage at the end then.
    Memory is bounded: a few MiB, while damage is skipped up to 128 MiB, and no batch may be larger than that.

    Args:
        path: The file, or a binary file that is open for reading; such a file is read from its position and not closed.
        on_damage: Called for each damaged part. Reading then continues at the next whole batch with a correct checksum.
            Without it, damage is an error.
        check_crcs: Whether to check the checksums.
        limit: Bytes that one batch may decompress to.

    Yields:
        The batches, each with its `position` in the segment.

    Raises:
        ArgumentError: The limit is negative.
        CorruptRecordError: A part is damaged, and there is no `on_damage`; the text names position, size and cause.
        OSError: The file cannot be read.

    ```python
    for batch in read_segment("data/orders-0/00000000000000000000.log"):
        for record in batch.records:
            print(record.offset, record.key, record.value)
    ```
    """
    if limit < 0:
        raise ArgumentError(f"limit is 0 or more bytes, and was {limit}")
    with _opened(path) as file:
        for found in _Windows(file, check_crcs, limit):
            if not isinstance(found, Damage):
                yield found
            elif on_damage is not None:
                on_damage(found)
            else:
                raise CorruptRecordError(str(found))


@contextmanager
def _opened(path: str | os.PathLike[str] | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(path, str | os.PathLike):
        yield path
    else:
        # Read, and not mapped into memory: a broker may cut the file, and then a mapping would end the process.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            yield file


class _Windows:
    """Walks a file in windows. Each begins with the bytes that the one before had to leave for lack of what follows."""

    def __init__(self, file: BinaryIO, check_crcs: bool, limit: int) -> None:
        self._file = file
        self._options = (check_crcs, limit)
        self._window = b""
        # Where the window begins in the file, and whether it reaches to its end.
        self._start = 0
        self._ended = False
        # How long the window should be.
        self._wanted = WINDOW
        # Damage whose beginning is held no more.
        self._begun: Damage | None = None
        # Where the zeros begin that end the windows so far.
        self._zeros = 0

    def __iter__(self) -> Iterator[RecordBatch | Damage]:
        while not self._ended:
            self._fill()
            used, damage = yield from self._look()
            if not self._ended:
                self._go_on(used, damage)

    def _fill(self) -> None:
        parts, missing = [self._window], self._wanted - len(self._window)
        while missing > 0 and not self._ended:
            part = self._file.read(missing)
            parts.append(part)
            missing -= len(part)
            self._ended = not part
        self._window = b"".join(parts)
        if content := self._window.rstrip(b"\0"):
            self._zeros = self._start + len(content)

    def _look(self) -> Generator[RecordBatch | Damage, None, tuple[int, Damage | None]]:
        """Yield what the window holds; return how much of it was used, and the damage that may continue behind it."""
        used = 0
        damage: Damage | None = None
        self._wanted = WINDOW
        for position, size, fields, cause in _ottla.SegmentWindow(self._window, *self._options):
            if damage is not None:
                # Something follows it, so that it is known where it ends.
                yield damage
                used, damage, self._begun = position, None, None
            at = self._start + position
            if fields is None:
                needed = self._claimed(position)
                if not self._ended and len(self._window) - position < needed <= MOST:
                    # The window cuts it, and perhaps nothing else is wrong with it.
                    self._wanted = max(WINDOW, needed)
                    return used, None
                why = f"a batch of {needed:,} bytes, and {MOST:,} is the most" if needed > MOST else cause
                damage = self._damage(at, at + size, str(why))
                continue
            if self._begun is not None:
                yield self._damage(at, at, "")
                self._begun = None
            yield build(fields, at)
            used = position + size
        if self._ended:
            if damage is None and self._begun is not None and self._begun.cause != ZEROS:
                damage = self._damage(0, self._zeros, "")
            if damage is not None:
                yield damage
        return used, damage

    def _claimed(self, position: int) -> int:
        """The size that an entry which begins here claims."""
        prefix = self._window[position : position + PREFIX]
        if len(prefix) < PREFIX:
            return PREFIX
        return PREFIX + int.from_bytes(prefix[8:], "big", signed=True)

    def _damage(self, start: int, end: int, cause: str) -> Damage:
        """The damage that ends here, from its beginning."""
        if self._begun is not None:
            start, cause = self._begun.position, self._begun.cause
        return Damage(start, end - start, cause)

    def _go_on(self, used: int, damage: Damage | None) -> None:
        if used == 0 and len(self._window) < MOST:
            self._wanted = min(max(2 * len(self._window), self._wanted), MOST)
            return
        if used == 0:
            # No batch begins in the first half, or it would have its end in the window.
            used = len(self._window) // 2
            self._begun = self._begun or damage or Damage(self._start, 0, ZEROS)
            self._wanted = MOST
        self._window = self._window[used:]
        self._start += used
