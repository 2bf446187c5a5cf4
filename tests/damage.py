"""Damage in the log folder of an embedded broker, for what no broker takes from a producer."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Where in a batch its length and its checksum stand, and where begins what the checksum covers.
LENGTH_AT, CRC_AT, CRC_FROM = 8, 17, 21


class Segment:
    """The first segment of a partition, while the broker has it open."""

    def __init__(self, folder: Path, topic: str, partition: int = 0) -> None:
        self.path = folder / f"{topic}-{partition}" / f"{0:020}.log"

    def batches(self) -> Iterator[tuple[int, int, bytes]]:
        """Where each batch stands, its first offset and its bytes."""
        data, at = self.path.read_bytes(), 0
        while at < len(data):
            offset, length = struct.unpack_from(">qi", data, at)
            yield at, offset, data[at : at + LENGTH_AT + 4 + length]
            at += LENGTH_AT + 4 + length

    def batch(self, offset: int) -> tuple[int, bytes]:
        """Where the batch stands that begins with this offset, and its bytes."""
        return next((at, data) for at, first, data in self.batches() if first == offset)

    def flip(self, offset: int) -> bytes:
        """Flip a bit at the end of the last value of the batch that begins with this offset; returns its bytes."""
        at, data = self.batch(offset)
        return self._write(at, data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])

    def replace(self, offset: int, old: bytes, new: bytes) -> bytes:
        """Replace bytes of the batch that begins with this offset, and correct its checksum; returns its bytes."""
        at, data = self.batch(offset)
        assert data.count(old) == 1
        assert len(old) == len(new)
        changed = data.replace(old, new)
        sealed = changed[:CRC_AT] + struct.pack(">I", crc32c(changed[CRC_FROM:])) + changed[CRC_FROM:]
        return self._write(at, sealed)

    def _write(self, at: int, data: bytes) -> bytes:
        with self.path.open("r+b") as file:
            file.seek(at)
            file.write(data)
        return data


def crc32c(data: bytes) -> int:
    """The checksum of batches, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
