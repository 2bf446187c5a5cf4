"""A second implementation of the layout of Aiven's RemoteStorageManager: it writes what `ottla.log` reads."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from functools import cache
from pathlib import Path

import zstandard
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


@cache
def private_key() -> tuple[bytes, rsa.RSAPublicKey]:
    """A key in PEM, and its public part."""
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), key.public_key()


def tiered(folder: Path, store: Path, *, chunk=1000, compressed=False, key=None, topic_id=None) -> None:
    """Copy all segments of a partition but the last into a store.

    Args:
        folder: The partition's folder of a broker.
        store: Where to.
        chunk: Bytes of a chunk.
        compressed: Whether chunks are compressed.
        key: What `private_key` returned, to encrypt them.
        topic_id: The topic's id; by default that of the folder.
    """
    topic_id = topic_id or (folder / "partition.metadata").read_text().rpartition("topic_id: ")[2].strip()
    topic, _, number = folder.name.rpartition("-")
    to = store / f"{topic}-{topic_id}" / number
    to.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.glob("*.log"))[:-1]:
        segment_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        name = to / f"{path.stem}-{segment_id}"
        data_key, aad = os.urandom(32), os.urandom(32)

        def sealed(data: bytes, data_key=data_key, aad=aad) -> bytes:
            nonce = os.urandom(12)
            return data if key is None else nonce + AESGCM(data_key).encrypt(nonce, data, aad)

        whole = path.read_bytes()
        parts = [whole[at : at + chunk] for at in range(0, len(whole), chunk)]
        parts = [sealed(zstandard.compress(part) if compressed else part) for part in parts]
        Path(f"{name}.log").write_bytes(b"".join(parts))
        index = {"originalChunkSize": chunk, "originalFileSize": len(whole)}
        if compressed:
            index |= {"type": "variable", "transformedChunks": _compact([len(part) for part in parts])}
        else:
            sizes = {"transformedChunkSize": len(parts[0]), "finalTransformedChunkSize": len(parts[-1])}
            index |= {"type": "fixed", **sizes}
        offsets = (
            sealed(path.with_suffix(".index").read_bytes().rstrip(b"\0"))
            if path.with_suffix(".index").exists()
            else b""
        )
        Path(f"{name}.indexes").write_bytes(offsets)
        none = {"position": len(offsets), "size": 0}
        names = ("timestamp", "producerSnapshot", "leaderEpoch")
        manifest = {
            "version": "1",
            "chunkIndex": index,
            "segmentIndexes": {
                "offset": {"position": 0, "size": len(offsets)},
                **dict.fromkeys(names, none),
                "transaction": None,
            },
            "compression": compressed,
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {
                    "topicIdPartition": {
                        "topicId": topic_id,
                        "topicPartition": {"topic": topic, "partition": int(number)},
                    },
                    "id": segment_id,
                },
                "startOffset": int(path.stem),
                "endOffset": _last_offset(path),
                "segmentLeaderEpochs": {"0": 0},
            },
        }
        if key is not None:
            wrapped = base64.b64encode(_wrapped(data_key, key[1])).decode()
            manifest["encryption"] = {"dataKey": f"key-1:{wrapped}", "aad": base64.b64encode(aad).decode()}
        Path(f"{name}.rsm-manifest").write_text(json.dumps(manifest))


def _last_offset(path: Path) -> int:
    """The base of the last batch, and the last difference from it."""
    data, position, last = path.read_bytes(), 0, -1
    while position < len(data):
        base, length = struct.unpack_from(">qi", data, position)
        last = base + struct.unpack_from(">i", data, position + 23)[0]
        position += 12 + length
    return last


def _compact(sizes: list[int]) -> str:
    if len(sizes) == 1:
        data = struct.pack(">ii", 1, *sizes)
    else:
        base = min(sizes[:-1])
        width = (max(sizes[:-1]) - base).bit_length() + 7 >> 3
        data = struct.pack(">iib", len(sizes), base, width)
        data += b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1]) + struct.pack(">i", sizes[-1])
    return base64.b64encode(zstandard.compress(data)).decode()


def _wrapped(data: bytes, public: rsa.RSAPublicKey) -> bytes:
    """OAEP with SHA3-512, written with numbers where the other side has bytes."""
    numbers = public.public_numbers()
    size, length = numbers.n.bit_length() + 7 >> 3, 64

    def mask(seed: bytes, count: int) -> int:
        found = b"".join(hashlib.sha3_512(seed + struct.pack(">I", n)).digest() for n in range(count // length + 1))
        return int.from_bytes(found[:count], "big")

    seed, count = os.urandom(length), size - length - 1
    block = hashlib.sha3_512(b"").digest() + (b"\1" + data).rjust(count - length, b"\0")
    block = (int.from_bytes(block, "big") ^ mask(seed, count)).to_bytes(count, "big")
    seed = (int.from_bytes(seed, "big") ^ mask(block, length)).to_bytes(length, "big")
    return pow(int.from_bytes(b"\0" + seed + block, "big"), numbers.e, numbers.n).to_bytes(size, "big")
