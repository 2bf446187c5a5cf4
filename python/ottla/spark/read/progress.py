"""How far a stream is behind, from the progress that Spark reports."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from ottla.spark.shared.offsets import Offsets, from_json


def offsets_behind_latest(source: Any) -> dict[str, float]:
    """Return how many offsets a source of a streaming query had still to read at the end of a batch.

    Spark's own Kafka source puts these three into its progress, where Spark takes no metrics from Python sources. They
    are found again from the offsets, which both report. Nothing is reported before Spark 4.2.

    Args:
        source: A source of a query's progress: an item of `query.lastProgress["sources"]`, or of
            `event.progress.sources` in a `StreamingQueryListener`.

    Returns:
        `minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` over all partitions; empty if
        the source reported no offsets.
    """
    latest, read = offsets_of(source, "latestOffset"), offsets_of(source, "endOffset")
    behind = [offset - read.get(partition, 0) for partition, offset in latest.items()]
    if not behind or not read:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def offsets_of(source: Any, name: str) -> Offsets:
    """The offsets of a source in a query's progress under a name; empty without any.

    Args:
        source: As above.
        name: `startOffset`, `endOffset` or `latestOffset`.
    """
    given = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    # A query over Connect holds the object, one of a classic session its text.
    held = _parsed(given) if isinstance(given, str) else given
    return from_json(held) if held else {}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # Before Spark 4.2 it is the text that Python gives the object, or None.
        return ast.literal_eval(text)
