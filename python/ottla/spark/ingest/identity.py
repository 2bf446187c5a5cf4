"""What identifies a micro-batch: the offsets where it begins and ends. Its number alone does not.

Spark numbers batches by its checkpoint. If the checkpoint is set back (a restored backup, deleted files), Spark plans
other records under a number that the table has already. A number that was seen is then no proof that the records were.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ottla.spark.ingest.spark_errors import IngestError
from ottla.spark.shared.offsets import Offsets, from_json, to_json


class Batch(NamedTuple):
    """A micro-batch.

    Attributes:
        number: Spark's number of it.
        start: Where it begins. Partitions that are missing begin at their first record.
        end: Where it ends.
    """

    number: int
    start: Offsets
    end: Offsets

    def to_json(self) -> dict[str, Any]:
        """The offsets as tables keep them."""
        return {"start": to_json(self.start), "end": to_json(self.end)}

    def text(self) -> str:
        """The offsets as one line of JSON, equal for equal batches."""
        return json.dumps(self.to_json(), separators=(",", ":"))

    @staticmethod
    def from_json(number: int, kept: Any) -> "Batch | None":
        """The batch that `to_json` described; None if earlier versions of ottla wrote it, without offsets."""
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            return Batch(number, from_json(kept["start"]), from_json(kept["end"]))
        return None


def check(batch: Batch, kept: "Batch | None", place: str, *, is_last: bool) -> None:
    """Refuse a batch if the one that a table has under its number is another one.

    Args:
        batch: The batch that Spark has planned now.
        kept: The batch that the table has under this number; None if it has no offsets.
        place: Where the table keeps it, for errors.
        is_last: Whether the table has no batch with a higher number. Spark replays the last batch only, so a batch
            without offsets is then taken for the same one.

    Raises:
        IngestError: It is another batch.
    """
    if kept == batch or (kept is None and is_last):
        return
    was = "other offsets, which it did not keep" if kept is None else kept.text()
    raise set_back(batch, f"{place} has batch {batch.number} with {was}")


def is_added(batch: Batch, kept: Mapping[int, "Batch | None"], place: str) -> bool:
    """Whether a table that keeps every batch of a query has this one.

    Args:
        batch: The batch that Spark has planned now.
        kept: The batches of the table, by number.
        place: The table, for errors.

    Raises:
        IngestError: The table has another batch under this number, or later batches only.
    """
    last = max(kept, default=-1)
    if batch.number in kept:
        check(batch, kept[batch.number], place, is_last=batch.number == last)
        return True
    if batch.number < last:
        raise set_back(batch, f"{place} has batch {last} already, and no record of batch {batch.number}")
    return False


def set_back(batch: Batch, found: str) -> IngestError:
    """The error for a batch that does not go on where the table ends."""
    return IngestError(
        f"the checkpoint does not fit the table: {found}, and the checkpoint plans batch {batch.number} with "
        f"{batch.text()}. The checkpoint was set back, by a restored backup or deleted files. Nothing was written. "
        "Restore the checkpoint of the last run. Or name a new checkpoint, with the end of the last batch in the table "
        "as startingOffsets"
    )
