"""The limit for a compressed topic: its batches, in memory, decompressed by the plain library on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measurement import Stopwatch

from clients.sockets import BATCH_HEADER, Drain

if TYPE_CHECKING:
    from collections.abc import Callable

    from measurement import Job


def alone(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Each batch's payload by each of two libraries, the quicker counts; no checksum, no records, no socket."""
    payloads = list[bytes]()
    Drain(job, lambda batch: payloads.append(bytes(batch[BATCH_HEADER:])))
    tries = list[Stopwatch]()
    for decompress in libraries(job.codec):
        tries.append(Stopwatch())
        tries[-1].start()
        for payload in payloads:
            decompress(payload)
        tries[-1].stop()
    best = min(tries, key=lambda w: w.wall)
    watch.wall, watch.cpu = best.wall, best.cpu
    return job.records, job.records * job.size


def libraries(codec: str) -> list[Callable[[bytes], object]]:
    """One that writes into a buffer that is reused, and the binding that most use."""
    import cramjam

    room, into = bytearray(8 << 20), getattr(cramjam, codec).decompress_into
    if codec == "lz4":
        import lz4.frame

        return [lambda payload: into(payload, room), lz4.frame.decompress]
    if codec == "zstd":
        import zstandard

        context = zstandard.ZstdDecompressor()
        return [lambda payload: into(payload, room), lambda payload: context.decompress(payload, len(room))]
    raise ValueError(f"no limit for {codec}")
