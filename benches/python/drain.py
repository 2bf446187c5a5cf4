"""The limit for a consumer in one process: Fetch requests made beforehand, answers received and thrown away.

Fetch v11 (https://kafka.apache.org/protocol#The_Messages_Fetch): the newest version without tagged fields.
"""

from __future__ import annotations

import socket
import struct

FETCH, VERSION = 1, 11
PARTITION_BYTES = 8 << 20


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def request(topic: str, offsets: dict[int, int]) -> bytes:
    """One Fetch for the given partitions at the given offsets, with its length in front."""
    partitions = b"".join(struct.pack(">iiqqi", p, -1, o, -1, PARTITION_BYTES) for p, o in offsets.items())
    frame = (
        struct.pack(">hhi", FETCH, VERSION, 0)
        + _string("drain")
        + struct.pack(">iiiibii", -1, 500, 1, 64 << 20, 0, 0, -1)
        + struct.pack(">i", 1)
        + _string(topic)
        + struct.pack(">i", len(offsets))
        + partitions
        + struct.pack(">i", 0)
        + _string("")
    )
    return struct.pack(">i", len(frame)) + frame


def _next_offset(batches: memoryview) -> int | None:
    """The offset after the last whole batch; None if there is none."""
    at, last = 0, None
    while at + 61 <= len(batches):
        base, length = struct.unpack_from(">qi", batches, at)
        if at + 12 + length > len(batches):
            break
        last = base + struct.unpack_from(">i", batches, at + 23)[0] + 1
        at += 12 + length
    return last


def next_offsets(answer: memoryview) -> dict[int, int]:
    """Partition -> the offset to fetch next, of every partition that brought whole batches."""
    (_, _, error, _, topics) = struct.unpack_from(">iihii", answer, 0)
    if error or topics != 1:
        raise RuntimeError(f"Fetch failed with code {error}")
    at = 18
    at += 2 + struct.unpack_from(">h", answer, at)[0]
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    out = {}
    for _ in range(count):
        partition, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", answer, at)
        at += 34 + 16 * max(aborted, 0) + 4
        (size,) = struct.unpack_from(">i", answer, at)
        at += 4
        if error:
            raise RuntimeError(f"partition {partition}: code {error}")
        reached = _next_offset(answer[at : at + max(size, 0)])
        if reached is not None:
            out[partition] = reached
        at += max(size, 0)
    return out


class Drain:
    """A connection that reads a topic: once to learn which requests it takes, and then as fast as the socket gives."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, total: int) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 10)
        self.buffer = bytearray((PARTITION_BYTES + (1 << 20)) * partitions)
        self.view = memoryview(self.buffer)
        self.requests = list[bytes]()
        offsets = dict.fromkeys(range(partitions), 0)
        while sum(offsets.values()) < total:
            self.requests.append(request(topic, offsets))
            self.socket.sendall(self.requests[-1])
            offsets |= next_offsets(self.view[: self._receive()])

    def run(self) -> int:
        """Send all requests again, two ahead; the number of bytes received."""
        received, ahead = 0, 2
        for r in self.requests[:ahead]:
            self.socket.sendall(r)
        for i in range(len(self.requests)):
            received += self._receive()
            if i + ahead < len(self.requests):
                self.socket.sendall(self.requests[i + ahead])
        return received

    def _receive(self) -> int:
        """One answer into the buffer; its size without the length in front."""
        self._fill(4)
        (size,) = struct.unpack_from(">i", self.buffer)
        self._fill(size)
        return int(size)

    def _fill(self, size: int) -> None:
        at = 0
        while at < size:
            got = self.socket.recv_into(self.view[at:size])
            if not got:
                raise ConnectionError("the broker closed the connection")
            at += got
