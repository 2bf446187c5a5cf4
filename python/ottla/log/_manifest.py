"""Manifests of tiered segments, as Aiven's RemoteStorageManager writes them (KIP-405), one for each segment."""

from __future__ import annotations

import base64
import json
import posixpath
import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla._types import TopicPartition
from ottla.errors import CorruptRecordError
from ottla.log._files import shown

if TYPE_CHECKING:
    from ottla.log._files import Files
    from ottla.log._private_keys import PrivateKeys

MANIFEST = ".rsm-manifest"
VERSION = "1"
# Bytes of a list of chunk sizes, at most: the format's own limit.
LARGEST_LIST = 10 * 2**20
# Bytes of a manifest, at most; one of 10,000 chunks has 40 KB.
LARGEST_MANIFEST = 32 * 2**20


class Part(NamedTuple):
    """A part of the object with a segment's indexes.

    Attributes:
        position: Where it begins.
        size: Its bytes.
    """

    position: int
    size: int


@dataclass(frozen=True)
class Manifest:
    """What is known of a tiered segment.

    Attributes:
        path: The manifest's path without `.rsm-manifest`.
        start: The first offset.
        end: The offset after the last.
        epoch: The highest leader epoch of its records.
        size: Bytes of the segment.
        chunk_size: Bytes of the segment in each chunk, fewer in the last.
        chunks: Bytes of each chunk in the object, one after the other.
        compressed: Whether each chunk is a frame of zstd.
        indexes: By their names in the manifest.
        wrapped_key: The AES key of an encrypted segment, itself encrypted.
        aad: What is authenticated with each chunk.
        data_key: The AES key, as soon as it was decrypted: that takes 8 to 60 ms.
    """

    path: str
    start: int
    end: int
    epoch: int
    size: int
    chunk_size: int
    chunks: tuple[int, ...] = field(repr=False)
    compressed: bool
    indexes: tuple[tuple[str, Part], ...] = field(repr=False)
    wrapped_key: str | None = field(repr=False)
    aad: bytes = field(repr=False)
    data_key: bytes | None = field(default=None, repr=False)

    @property
    def segment_path(self) -> str:
        """The object with the segment's chunks."""
        return f"{self.path}.log"

    @property
    def indexes_path(self) -> str:
        """The object with the segment's indexes."""
        return f"{self.path}.indexes"

    def index(self, name: str) -> Part | None:
        """Where an index is; None without one, or without anything in it."""
        part = dict(self.indexes).get(name)
        return part if part is not None and part.size else None

    def unlocked(self, keys: PrivateKeys) -> Manifest:
        """The same with the key of an encrypted segment.

        Args:
            keys: The RSA keys.

        Raises:
            ArgumentError: The key is not among them, or is another one.
        """
        if self.wrapped_key is None or self.data_key is not None:
            return self
        return replace(self, data_key=keys.unwrap(self.wrapped_key, self.path + MANIFEST))


def read_manifest(files: Files, path: str, at: TopicPartition) -> Manifest:
    """Read a manifest.

    Args:
        files: Where it is.
        path: The manifest.
        at: The partition by the path.

    Raises:
        CorruptRecordError: It is not a manifest of this partition.
        FileNotFoundError: It is gone.
        OSError: It cannot be read.
    """
    with files.open(path) as reader:
        data = reader.read(0, min(reader.size, LARGEST_MANIFEST))
    try:
        return _parsed(json.loads(data), path, at)
    except CorruptRecordError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise _corrupt(path, at, f"{type(error).__name__}: {error}") from None


def _parsed(found: dict[str, Any], path: str, at: TopicPartition) -> Manifest:
    if found["version"] != VERSION:
        raise _corrupt(path, at, f"its version is {found['version']!r}, and only {VERSION!r} is known")
    about = found["remoteLogSegmentMetadata"]
    named = about["remoteLogSegmentId"]["topicIdPartition"]["topicPartition"]
    if TopicPartition(named["topic"], named["partition"]) != at:
        raise _corrupt(path, at, f"it is of {named['topic']}-{named['partition']}: key prefixes have to end in a slash")
    name = f"{about['startOffset']:020}-{about['remoteLogSegmentId']['id']}"
    if posixpath.basename(path) != name + MANIFEST:
        raise _corrupt(path, at, f"it is of {name}")
    index = found["chunkIndex"]
    size, chunk_size = _number(index["originalFileSize"]), _number(index["originalChunkSize"])
    encryption = found.get("encryption")
    return Manifest(
        path=path.removesuffix(MANIFEST),
        start=_number(about["startOffset"]),
        end=_number(about["endOffset"]) + 1,
        epoch=max((int(epoch) for epoch in about["segmentLeaderEpochs"]), default=0),
        size=size,
        chunk_size=chunk_size,
        chunks=_chunk_sizes(index, -(-size // chunk_size)),
        compressed=bool(found["compression"]),
        indexes=tuple(
            (name, Part(_number(part["position"]), _number(part["size"])))
            for name, part in found["segmentIndexes"].items()
            if part is not None
        ),
        wrapped_key=None if encryption is None else str(encryption["dataKey"]),
        aad=b"" if encryption is None else base64.b64decode(encryption["aad"], validate=True),
    )


def _number(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a number of 0 or more")
    return value


def _chunk_sizes(index: dict[str, Any], count: int) -> tuple[int, ...]:
    """Bytes of each chunk in the object."""
    if index["type"] == "fixed":
        sizes = [_number(index["transformedChunkSize"])] * (count - 1) + [_number(index["finalTransformedChunkSize"])]
    elif index["type"] == "variable":
        sizes = _listed(_inflated(base64.b64decode(index["transformedChunks"], validate=True)))
    else:
        raise ValueError(f"chunkIndex has the unknown type {index['type']!r}")
    if len(sizes) != count and (count, sizes) != (0, [0]):
        raise ValueError(f"chunkIndex has {len(sizes)} chunks, and the segment {count}")
    return tuple(sizes)


def _inflated(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(LARGEST_LIST + 1)
    if len(found) > LARGEST_LIST:
        raise ValueError("the list of chunks is larger than 10 MiB")
    return found


def _listed(data: bytes) -> list[int]:
    """Sizes from their compact form: a number of them, the smallest, bytes for each difference from it, and these.

    The last size has four bytes of its own.
    """
    (count,) = struct.unpack_from(">i", data)
    if count == 0:
        return []
    if count == 1:
        return list(struct.unpack(">i", data[4:]))
    base, width = struct.unpack_from(">ib", data, 4)
    end = 9 + (count - 1) * width
    if not 0 <= width <= 4 or len(data) != end + 4:
        raise ValueError("the list of chunks has another length than it names")
    sizes = [base + int.from_bytes(data[at : at + width], "big") for at in range(9, end, width)] if width else []
    return [*(sizes or [base] * (count - 1)), *struct.unpack_from(">i", data, end)]


def _corrupt(path: str, at: TopicPartition, why: str) -> CorruptRecordError:
    error = CorruptRecordError(
        f"{shown(path)} ({at.topic}-{at.partition}) is not the manifest of a tiered segment that can be read: {why}"
    )
    error.topic, error.partition, error.cause = at.topic, at.partition, why
    return error
