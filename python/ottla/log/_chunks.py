"""Tiered segments as files: chunks of an object, which are decrypted and decompressed as they are read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import CorruptRecordError
from ottla.log._files import shown
from ottla.log._private_keys import decrypt

if TYPE_CHECKING:
    from ottla.log._files import Files, Reader
    from ottla.log._manifest import Manifest


@contextmanager
def open_segment(files: Files, path: str, tiered: Manifest | None) -> Iterator[Reader]:
    """Open a segment, tiered or not.

    Args:
        files: Where it is.
        path: The file, or the object with its chunks.
        tiered: The manifest of a tiered segment, with its key.

    Raises:
        CorruptRecordError: The object has another size than its chunks together.
        FileNotFoundError: It is gone.
    """
    with files.open(path) as reader:
        yield reader if tiered is None else _ChunkReader(reader, tiered)


class _ChunkReader:
    """Reads a segment from its chunks. Those that are missing for a read come in one request; the last one is kept."""

    def __init__(self, reader: Reader, tiered: Manifest) -> None:
        self._reader, self._tiered = reader, tiered
        self._places = [0, *accumulate(tiered.chunks)]
        self._kept = -1, b""
        self.size = tiered.size
        if reader.size != self._places[-1]:
            raise _damaged(tiered, f"it has {reader.size} bytes, and its chunks have {self._places[-1]}")

    def read(self, start: int, length: int) -> bytes:
        size = self._tiered.chunk_size
        end = min(start + length, self.size)
        if start >= end:
            return b""
        first, last = start // size, (end - 1) // size
        number, kept = self._kept
        parts = [kept] if number == first else []
        parts += self._chunks(first + len(parts), last)
        self._kept = last, parts[-1]
        return b"".join(parts)[start - first * size : end - first * size]

    def _chunks(self, first: int, last: int) -> list[bytes]:
        if first > last:
            return []
        begin, places = self._places[first], self._places
        data = self._reader.read(begin, places[last + 1] - begin)
        if len(data) != places[last + 1] - begin:
            raise _damaged(self._tiered, f"its bytes end in chunk {last}")
        return [
            self._opened(data[places[number] - begin : places[number + 1] - begin], number)
            for number in range(first, last + 1)
        ]

    def _opened(self, data: bytes, number: int) -> bytes:
        tiered = self._tiered
        if tiered.data_key is not None:
            data = decrypt(data, tiered.data_key, tiered.aad, tiered.segment_path)
        wanted = min(tiered.chunk_size, tiered.size - number * tiered.chunk_size)
        if tiered.compressed:
            data = _decompressed(data, wanted, tiered, number)
        if len(data) != wanted:
            raise _damaged(tiered, f"chunk {number} has {len(data)} bytes of the segment, and not {wanted}")
        return data


def _decompressed(data: bytes, size: int, tiered: Manifest, number: int) -> bytes:
    import pyarrow as pa

    try:
        found: bytes = pa.decompress(data, decompressed_size=size, codec="zstd", asbytes=True)
    except OSError as error:
        raise _damaged(tiered, f"chunk {number} is not a frame of zstd with {size} bytes ({error})") from None
    return found


def read_index(files: Files, tiered: Manifest, name: str) -> bytes:
    """Read an index of a tiered segment; empty if it has none.

    Args:
        files: Where it is.
        tiered: The segment's manifest, with its key.
        name: The index's name in the manifest.

    Raises:
        CorruptRecordError: It is shorter than the manifest has it, or cannot be decrypted.
        FileNotFoundError: The object is gone.
    """
    part = tiered.index(name)
    if part is None:
        return b""
    path = tiered.indexes_path
    with files.open(path) as reader:
        data = reader.read(part.position, part.size)
    if len(data) != part.size:
        raise CorruptRecordError(f"{shown(path)} is cut: its index {name} ends too early")
    return data if tiered.data_key is None else decrypt(data, tiered.data_key, tiered.aad, path)


class Aborted(NamedTuple):
    """An aborted transaction.

    Attributes:
        producer_id: Whose it is.
        first: Its first offset.
        marker: The offset of its marker.
    """

    producer_id: int
    first: int
    marker: int


# A version, the producer, the first offset, that of the marker, and the last stable offset.
_ABORTED = struct.Struct(">hqqqq")
# A version, a checksum, and the number of producers.
_SNAPSHOT = struct.Struct(">hIi")
# A producer with its epoch, the last sequence, offset and difference of offsets, a time, the coordinator's epoch, and
# where its open transaction begins, or -1.
_PRODUCER = struct.Struct(">qhiqiqiq")


def aborted_in(files: Files, tiered: Manifest) -> list[Aborted]:
    """The transactions whose markers of an abort are in a segment, by its index.

    Raises:
        CorruptRecordError: The index has another form.
        FileNotFoundError: It is gone.
    """
    data = read_index(files, tiered, "transaction")
    if len(data) % _ABORTED.size:
        raise _of_index(tiered, "transaction")
    rows = list(_ABORTED.iter_unpack(data))
    if any(version != 0 for version, *_ in rows):
        raise _of_index(tiered, "transaction")
    return [Aborted(producer, first, marker) for _, producer, first, marker, _ in rows]


def open_after(files: Files, tiered: Manifest) -> dict[int, int]:
    """The transactions that are open at a segment's end, by its snapshot of producers: where each producer's begins.

    Raises:
        CorruptRecordError: The snapshot has another form.
        FileNotFoundError: It is gone.
    """
    data = read_index(files, tiered, "producerSnapshot")
    if not data:
        return {}
    if len(data) < _SNAPSHOT.size:
        raise _of_index(tiered, "producerSnapshot")
    version, _, count = _SNAPSHOT.unpack_from(data)
    if version != 1 or len(data) != _SNAPSHOT.size + count * _PRODUCER.size:
        raise _of_index(tiered, "producerSnapshot")
    return {producer: first for producer, *_, first in _PRODUCER.iter_unpack(data[_SNAPSHOT.size :]) if first >= 0}


def _of_index(tiered: Manifest, name: str) -> CorruptRecordError:
    return CorruptRecordError(f"{shown(tiered.indexes_path)} is damaged: its index {name} has another form")


def _damaged(tiered: Manifest, why: str) -> CorruptRecordError:
    return CorruptRecordError(f"{shown(tiered.segment_path)} is damaged: {why}. Its manifest has what was written")
