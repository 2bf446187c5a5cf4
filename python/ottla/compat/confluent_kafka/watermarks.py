"""The first and last offsets of a consumer's partitions, as its last look at them found them."""

from __future__ import annotations

import time
from typing import Final

import ottla
from ottla import _ottla, errors
from ottla.compat.confluent_kafka.constants import OFFSET_INVALID
from ottla.compat.confluent_kafka.offsets import Pair

# Seconds for which a look counts, for which a call waits, until a look is abandoned, and from a failure to the next.
_FRESH: Final = 0.1
_MOMENT: Final = 0.25
_LOOK: Final = 5.0
_BETWEEN_FAILURES: Final = 1.0
_STEP: Final = 0.002
_UNKNOWN: Final = (OFFSET_INVALID, OFFSET_INVALID)


class Watermarks:
    """Offsets that `get_watermark_offsets(cached=True)` returns.

    librdkafka keeps those of its last fetch. ottla's responses do not reach Python, so a call requests what is older
    than a tenth of a second, for all assigned partitions at once. It waits for a moment only, and returns what is known
    then.

    Args:
        client: The consumer, or None without brokers.
    """

    def __init__(self, client: ottla.Consumer | None) -> None:
        self._client = client
        self._known: dict[Pair, tuple[int, int]] = {}
        self._queue = _ottla.CompletionQueue()
        # Of the first offsets and of the last ones, until both responded.
        self._look: tuple[_ottla.Operation, _ottla.Operation] | None = None
        self._next = 0.0

    def of(self, partition: Pair, assigned: list[Pair]) -> tuple[int, int]:
        """The first offset and the one after the last record; OFFSET_INVALID if they are not known.

        Args:
            partition: The partition.
            assigned: The assigned partitions.
        """
        if self._client is not None and partition in assigned:
            if self._look is None and time.monotonic() >= self._next:
                first = self._client._core.beginning_offsets(assigned, _LOOK)
                self._look = first, self._client._core.end_offsets(assigned, _LOOK)
                until = time.monotonic() + _MOMENT
                while not self._take() and time.monotonic() < until:
                    time.sleep(_STEP)
            else:
                self._take()
        return self._known.get(partition, _UNKNOWN)

    def _take(self) -> bool:
        """Take what a look found, if it ended."""
        if self._look is None:
            return True
        self._queue.drain()
        first, last = self._look
        # Both are polled, so that both are under way.
        has_first, has_last = first.poll(self._queue, 0), last.poll(self._queue, 0)
        if not (has_first and has_last):
            return False
        self._look = None
        try:
            begins, ends = first.take(), last.take()
        except errors.KafkaError:
            self._next = time.monotonic() + _BETWEEN_FAILURES
            return True
        self._known.update({(at.topic, at.partition): (begins[at], ends[at]) for at in begins})
        self._next = time.monotonic() + _FRESH
        return True
