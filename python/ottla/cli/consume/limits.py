"""When `consume` ends by itself: no more records for a while, the end of the partitions, or nobody reads its output."""

from __future__ import annotations

import bisect
import math
import select
import sys
import time
from io import UnsupportedOperation

import ottla
from ottla.cli import settings
from ottla.cli.formats.rows import Rows
from ottla.errors import KafkaTimeoutError

# Seconds between two checks whether anything reads the output.
LOOK = 0.2
# Seconds that partitions may go without a response to their first Fetch before the command finds
# out why.
PATIENCE = settings.PATIENCE_MS / 1000


class Idle:
    """How long a consumer has been without a record although it reads all of its partitions."""

    def __init__(self, consumer: ottla.Consumer, limit: float) -> None:
        self._consumer = consumer
        self._limit = limit
        self._reading: list[ottla.TopicPartition] | None = None
        self._since = time.monotonic()

    def left(self) -> float:
        """Seconds until the limit; infinite while partitions have not been read yet."""
        return math.inf if self._reading is None else max(0.0, self._since + self._limit - time.monotonic())

    def is_over(self, batch: ottla.Batch) -> bool:
        """Whether this batch, which a poll returned, ends the command.

        Raises:
            KafkaError: Brokers do not respond. Missing records are no end then.
        """
        now = time.monotonic()
        assigned = self._consumer.assignment()
        if len(batch):
            self._since = now
        elif self._reading is None or self._reading != assigned:
            # Before the first Fetch response of each assigned partition it is unknown whether it
            # has records.
            reading = self._is_reading(assigned)
            self._reading = assigned if reading else None
            if reading:
                self._since = now
            elif assigned and now - self._since >= PATIENCE:
                self._consumer.end_offsets(assigned, timeout=PATIENCE)
                self._since = now
        elif now - self._since >= self._limit:
            self._consumer.end_offsets(assigned, timeout=max(self._limit, 1.0))
            return True
        return False

    def _is_reading(self, assigned: list[ottla.TopicPartition]) -> bool:
        member = self._consumer.group_metadata()
        if member is not None and member.generation < 0:
            return False
        if member is None and not assigned:
            return False
        # It is NaN until the first response that has the partition.
        lags = self._consumer.metrics().select("records-lag")
        read = {(name.tag("topic"), name.tag("partition")) for name, lag in lags.items() if not math.isnan(lag)}
        return all((partition.topic, str(partition.partition)) in read for partition in assigned)


class Ends:
    """The offsets at which a read of partitions ends. A partition that is there is paused.

    Args:
        consumer: A consumer to which the partitions are assigned.
        ends: The offset after the last record to read, by partition.
        waits: Whether some of the records are not written yet.
    """

    def __init__(self, consumer: ottla.Consumer, ends: dict[ottla.TopicPartition, int], *, waits: bool) -> None:
        self._consumer = consumer
        self._ends = dict(ends)
        self._left = set(ends)
        self._waits = waits
        self._progress = time.monotonic()
        self._positions: dict[ottla.TopicPartition, int] = {}

    def cut(self, batch: ottla.Batch) -> Rows:
        """The records before the ends."""
        spans = batch.spans
        if all(at in self._left and span.stop <= self._ends[at] for at, span in spans.items()):
            return Rows(batch)
        if len(spans) == 1:
            ((at, _),) = spans.items()
            end = self._ends[at] if at in self._left else -1
            return Rows(batch[: bisect.bisect_left(range(len(batch)), end, key=lambda row: batch[row].offset)])
        ends = {(at.topic, at.partition): end for at, end in self._ends.items() if at in self._left}
        return Rows(batch).keep([r.offset < ends.get((r.topic, r.partition), -1) for r in batch])

    def are_reached(self, batch: ottla.Batch) -> bool:
        """Whether all partitions are at their ends.

        Args:
            batch: What the last poll returned.

        Raises:
            KafkaError: Brokers do not respond, or nothing more comes though it must be there.
        """
        # Behind the last record can be markers of transactions, which only move the position.
        found = batch.next_offsets if len(batch) else {at: self._consumer.position(at, PATIENCE) for at in self._left}
        done = [at for at, position in found.items() if at in self._left and position >= self._ends[at]]
        self._left.difference_update(done)
        if not self._left:
            return True
        if done:
            self._consumer.pause(done)
        if len(batch) or found != self._positions:
            self._progress, self._positions = time.monotonic(), found
        elif not self._waits and time.monotonic() - self._progress > PATIENCE:
            # If brokers are away, this fails and reports the cause.
            self._consumer.end_offsets(self._left, timeout=PATIENCE)
            at = min(self._left)
            raise KafkaTimeoutError(
                f"nothing was read of {at.topic}[{at.partition}] from offset {found[at]} on for {PATIENCE:g} seconds, "
                f"though it ends at {self._ends[at]}"
            )
        return False


class GroupEnd:
    """Whether a member of a group has read its partitions up to the ends that they had when it got them."""

    def __init__(self, consumer: ottla.Consumer) -> None:
        self._consumer = consumer
        self._assigned: list[ottla.TopicPartition] = []
        self._ends: dict[ottla.TopicPartition, int] = {}
        self._without = math.inf

    def is_reached(self, batch: ottla.Batch) -> bool:
        """Whether it has, after this poll. A member that gets no partitions for a while has nothing to read."""
        member = self._consumer.group_metadata()
        if member is None or member.generation < 0:
            return False
        assigned = self._consumer.assignment()
        if assigned != self._assigned or (assigned and not self._ends):
            self._assigned = assigned
            self._ends = self._consumer.end_offsets(assigned, PATIENCE) if assigned else {}
        if not assigned:
            self._without = min(self._without, time.monotonic())
            return time.monotonic() - self._without > PATIENCE
        self._without = math.inf
        if len(batch) and any(position < self._ends.get(at, 0) for at, position in batch.next_offsets.items()):
            return False
        return all(self._consumer.position(at, PATIENCE) >= end for at, end in self._ends.items())


def check_reader() -> None:
    """Raise if no process reads the output any more: the next poll may commit what is still in the pipe."""
    if not hasattr(select, "poll"):
        return  # on Windows
    try:
        descriptor = sys.stdout.fileno()
    except UnsupportedOperation:
        return  # a program has put another object in its place
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError
