"""What tests/conformance/tiered_corpus.py wrote: segments that real Kafka moved, and the rows that librdkafka reads."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[1] / "conformance" / "tiered-3.9.1.jsonl.gz"
LEVELS = ("read_uncommitted", "read_committed")


def scenes() -> dict[str, dict[str, Any]]:
    """The scenes by mode: files by path in "store" and "local", "keys" in PEM, and rows by isolation level."""
    with gzip.open(CORPUS) as lines:
        return {found["mode"]: found for found in map(json.loads, lines)}


def unpacked(files: dict[str, str], folder: Path) -> Path:
    """Write files to a folder, and return the folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))
    return folder


def rows(batches: Any) -> list[list[object]]:
    """The records of batches, in the form and order of those of a scene."""
    return sorted(
        [r.partition, r.offset, r.timestamp, r.key.decode(), r.value.decode()] for batch in batches for r in batch
    )
