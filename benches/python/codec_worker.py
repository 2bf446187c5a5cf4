"""One Python codec, measured row by row as `codec.py` asks: the same lines and answers as ottla-codec-bench.

python codec_worker.py ottla|kafka-python FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES = {
    "metadata": ("MetadataResponse", 12),
    "fetch": ("FetchResponse", 16),
    "produce": ("ProduceRequest", 11),
    "api_versions": ("ApiVersionsResponse", 4),
    "join_group": ("JoinGroupResponse", 9),
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def ottla(row: str, folder: Path) -> Callable[[], int]:
    """What `ottla.protocol` does for a row."""
    from ottla import protocol

    what, way = row.split("/")
    data = (folder / f"{what}.bin").read_bytes()
    if what in MESSAGES:
        name, version = MESSAGES[what]
        message = protocol.decode(name, version, data)
        if way == "encode":
            return lambda: len(protocol.encode(name, version, message))
        return lambda: len(protocol.decode(name, version, data))
    _, size, codec = what.split("-")
    if way == "write":
        [batch] = protocol.decode_records((folder / f"records-{size}-none.bin").read_bytes())
        records = batch.records
        return lambda: len(protocol.encode_records(records, compression=codec))
    return lambda: sum(len(r.value or b"") for batch in protocol.decode_records(data) for r in batch.records)


def kafka_python(row: str, folder: Path) -> Callable[[], int]:
    """What kafka-python does for a row."""
    what, way = row.split("/")
    data = (folder / f"{what}.bin").read_bytes()
    if what in MESSAGES:
        return _message(*MESSAGES[what], way, data)
    from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

    def read(data: bytes) -> list[Any]:
        records, out = MemoryRecords(data), []
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                raise SystemExit("the checksum is wrong")
            out += list(batch)
        return out

    _, size, codec = what.split("-")
    if way == "read":
        return lambda: sum(len(r.value) for r in read(data))
    inputs = [(r.timestamp, r.key, r.value) for r in read((folder / f"records-{size}-none.bin").read_bytes())]

    def write() -> int:
        builder = MemoryRecordsBuilder(2, CODECS.index(codec), 16 << 20)
        for timestamp, key, value in inputs:
            builder.append(timestamp, key, value, [])
        builder.close()
        return len(builder.buffer())

    return write


def _message(name: str, version: int, way: str, data: bytes) -> Callable[[], int]:
    from kafka.protocol import consumer, metadata, producer

    kind = next(getattr(m, name) for m in (consumer, metadata, producer) if hasattr(m, name))
    message = kind.decode(data, version=version)
    if way == "encode":
        message._header = None  # which decoding without a header leaves unset, and encoding looks at
        return lambda: len(message.encode(version=version))
    return lambda: len(kind.decode(data, version=version).fields)


def nanoseconds(work: Callable[[], Any], milliseconds: int) -> float:
    """The best of many short stretches, as for the others."""
    end = time.perf_counter_ns() + milliseconds * 1_000_000
    times, best = 1, float("inf")
    while time.perf_counter_ns() < end or best == float("inf"):
        start = time.perf_counter_ns()
        for _ in range(times):
            work()
        took = time.perf_counter_ns() - start
        if took < 500_000:
            times *= 2
        else:
            best = min(best, took / times)
    return best


def main() -> None:
    find = {"ottla": ottla, "kafka-python": kafka_python}[sys.argv[1]]
    for line in sys.stdin:
        command, row, *rest = line.split()
        try:
            work = find(row, Path(sys.argv[2]))
            if command == "check":
                print(work(), flush=True)
                continue
        except (AttributeError, ImportError) as error:
            print(f"{row}: {error}", file=sys.stderr)
            print("none", flush=True)
            continue
        print(nanoseconds(work, int(rest[0])), flush=True)


if __name__ == "__main__":
    main()
