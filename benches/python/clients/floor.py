"""The floor below any client: the kernel's copy of a topic's bytes through a socket, and their checksum.

The bytes are those of the broker (`consume`) or batches made beforehand (`produce`). They go through a connection
between this process and one that it starts. Compressed batches of consumers are decompressed, too. No request, no
record and no broker is part of it; with TLS no cipher is.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from measurement import Stopwatch

from clients.decompression import libraries
from clients.sockets import (
    BATCH_HEADER,
    Connection,
    batch_of,
    default_batch_size,
    fetch_request,
    fetched,
    next_offset,
    whole_batches,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from measurement import Job

SAMPLE = 48 << 20
"""Bytes of batches that are copied and checked, if the topic has as many."""
CHUNK = 1 << 20
"""Bytes of a call of the kernel: small enough to stay in the processor's cache."""
COUNT_AT = 57
"""Where a batch has the number of its records."""
CRC_FROM = 21
"""What a batch's checksum covers begins here."""


def consume(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Receive batches of the job's first topic, and check them."""
    batches = _stored(job)
    records = sum(int.from_bytes(batch[COUNT_AT : COUNT_AT + 4], "big") for batch in batches)
    again = max(1, SAMPLE // sum(map(len, batches)))
    batches, records = batches * again, records * again
    if job.aborted:  # what transactions aborted is received, and not returned
        records -= records // job.aborted
    _measure(batches, records, watch, receives=True, codec=job.codec)
    return records, records * job.size


def produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Make the checksum of batches, and send them."""
    each, batch = batch_of(job, job.properties.get("batch_size") or default_batch_size())
    count = max(1, SAMPLE // len(batch))
    _measure([batch] * count, each * count, watch, receives=False)
    return each * count, each * count * job.size


def _measure(batches: list[bytes], records: int, watch: Stopwatch, *, receives: bool, codec: str = "none") -> None:
    """Take the sum of the steps as the watch's time, and each step's nanoseconds a byte as further figures."""
    whole = b"".join(batches)
    steps: dict[str, Callable[[], object]] = {
        "copy": lambda: _transfer(whole, receives=receives),
        "checksum": lambda: _check(batches),
    }
    times = {name: _seconds(step) for name, step in steps.items()}
    if codec != "none":
        payloads = [batch[BATCH_HEADER:] for batch in batches]
        times["decompression"] = min(
            _seconds(lambda each=each: [each(payload) for payload in payloads]) for each in libraries(codec)
        )
    watch.wall = watch.cpu = sum(times.values())
    watch.more["bytes per record"] = len(whole) / records
    watch.more |= {f"floor: {name}": seconds / len(whole) * 1e9 for name, seconds in times.items()}


def _seconds(step: Callable[[], object]) -> float:
    """Processor time of this process in a step that ran before, with the user's and the kernel's part."""
    step()
    watch = Stopwatch()
    watch.start()
    step()
    watch.stop()
    return watch.cpu


def _check(batches: list[bytes]) -> None:
    import crc32c

    for batch in batches:
        crc32c.crc32c(memoryview(batch)[CRC_FROM:])


def _transfer(data: bytes, *, receives: bool) -> None:
    """Send the bytes between this process and a child over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = os.fork()
        if not child:
            try:
                with socket.create_connection(server.getsockname()) as other:
                    _send(other, data) if receives else _receive(other, len(data))
            finally:
                os._exit(0)
        with server.accept()[0] as mine:
            _receive(mine, len(data)) if receives else _send(mine, data)
        os.waitpid(child, 0)


def _send(to: socket.socket, data: bytes) -> None:
    view = memoryview(data)
    for at in range(0, len(view), CHUNK):
        to.sendall(view[at : at + CHUNK])


def _receive(source: socket.socket, size: int) -> None:
    into = bytearray(CHUNK)
    while size > 0 and (got := source.recv_into(into)):
        size -= got


def _stored(job: Job) -> list[bytes]:
    """Batches of the job's first topic, as the broker has them."""
    connection, found, size = Connection(job), list[bytes](), 0
    offsets = dict.fromkeys(range(job.partitions), 0)
    while size < SAMPLE:
        connection.send(fetch_request(job.names[0], offsets))
        got = 0
        for partition, data in fetched(connection.receive()).items():
            for batch in whole_batches(data):
                found.append(bytes(batch))
                got += len(batch)
                offsets[partition] = next_offset(batch)
        if not got:
            break
        size += got
    return found
