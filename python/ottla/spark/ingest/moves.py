"""Which staged files of a batch come to stand in a folder: decided once, in a plan, and done as often as it takes.

A plan is made without overwriting one, so that of two drivers on one checkpoint only one decides about a batch.
"""

import json
import uuid
from typing import NamedTuple

from ottla.spark.ingest.identity import Batch, check, set_back
from ottla.spark.ingest.spark_errors import IngestError
from ottla.spark.shared.storage import Folder

# Plans that are kept, as many as Spark keeps batches in a checkpoint.
KEPT = 100


class Move(NamedTuple):
    """A file that gets another name in the folder.

    Attributes:
        source: Where it is staged.
        target: Where it comes to stand.
    """

    source: str
    target: str


class Moves:
    """The moves of one query in one folder.

    Args:
        folder: That of the data.
        own: The folder of this query alone in it, which readers of the data pass over.
    """

    def __init__(self, folder: Folder, own: str) -> None:
        self._folder = folder
        self._own = own

    def staging(self, batch: int) -> str:
        """A new folder for the files of an attempt at a batch."""
        return f"{self._own}/{batch}-{uuid.uuid4().hex}"

    def planned(self, batch: Batch) -> list[Move] | None:
        """What was decided about a batch; None if nothing was.

        Raises:
            IngestError: The decision is about another batch of this number, or is no longer kept.
        """
        name = self._plan(batch.number)
        text = self._folder.read(name)
        last = max(self._numbers(), default=-1)
        if text is None:
            if last >= batch.number + KEPT:
                raise set_back(batch, f"{self._folder} has batch {last} already")
            return None
        kept = json.loads(text)
        found = Batch.from_json(batch.number, kept)
        check(batch, found, f"{self._folder}/{name}", is_last=batch.number == last)
        return [Move(*move) for move in kept["moves"]]

    def plan(self, batch: Batch, moves: list[Move]) -> None:
        """Decide about a batch.

        Raises:
            IngestError: Another driver has decided otherwise.
        """
        name = self._plan(batch.number)
        text = json.dumps({"batch": batch.number, **batch.to_json(), "moves": moves})
        # A rename can succeed and be reported as failed. No two attempts stage under the same name.
        if not self._folder.make(name, text) and self._folder.read(name) != text:
            raise IngestError(
                f"another job runs on this checkpoint: it has made {self._folder}/{name}. Stop one of the two; batch "
                f"{batch.number} is done by that plan at the next start"
            )

    def make(self, batch: int, moves: list[Move], *, again: bool) -> None:
        """Make the moves of a plan, and delete what attempts at this batch and earlier ones have staged.

        Args:
            batch: Its number.
            moves: Of its plan.
            again: Whether an earlier attempt may have made some of them.

        Raises:
            IngestError: A file is gone, or another one has its name.
        """
        for move in moves:
            self._make(batch, move, again=again)
        # Only now: until there is a plan, what another driver has staged may be what its plan will name.
        for name in self._folder.names(self._own):
            number, dash, _ = name.partition("-")
            if dash and number.isdigit() and int(number) <= batch:
                self._folder.delete(f"{self._own}/{name}")
        self._folder.delete(self._plan(batch - KEPT))

    def _make(self, batch: int, move: Move, *, again: bool) -> None:
        staged, there = self._folder.size(move.source), self._folder.size(move.target)
        if there is None:
            if staged is None:
                raise IngestError(
                    f"a file of batch {batch} is gone: neither {self._folder}/{move.source} nor {move.target} is "
                    "there. Restore it, or, if its rows are in the table under another name, take its move out of "
                    f"{self._plan(batch)}"
                )
            self._folder.move(move.source, move.target)
        elif not again or (staged is not None and staged != there):
            raise IngestError(
                f"{self._folder}/{move.target} is there already, with {there:,} bytes, where a file of batch {batch} "
                f"with {staged or 0:,} bytes is to stand. If no other job runs on this checkpoint, move it away"
            )
        elif staged is not None:
            # Where a rename is a copy, the attempt ended between the copy and this.
            self._folder.delete(move.source)

    def _numbers(self) -> list[int]:
        """The batches whose plans are kept."""
        names = (name.removesuffix(".json") for name in self._folder.names(f"{self._own}/plans"))
        return [int(name) for name in names if name.isdigit()]

    def _plan(self, batch: int) -> str:
        return f"{self._own}/plans/{batch}.json"
