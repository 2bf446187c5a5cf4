"""Who was told what of which record, and what the log says to it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.integration.peers.base import until
from tests.pace import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    import ottla
    import ottla.aio
    from ottla.testing import Broker
    from tests.integration.messages import Message

DEADLINE = patience(20)
"""Seconds that any wait may take; what is tested takes a fraction of a second."""

# Fates are decided within these, whatever the broker does.
QUICK = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 3_000, "max_block_ms": 2_000, "linger_ms": 0}
TOPIC, PARTITIONS = "moments", 2


class Fates:
    """The deliveries of records, by their values; each must be told exactly one fate, and a true one."""

    def __init__(self) -> None:
        self.deliveries: dict[bytes, ottla.Delivery | ottla.aio.Delivery] = {}
        # Their callers were interrupted before they held a delivery: such a record may be written or not.
        self.unheard: set[bytes] = set()
        self._told: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def add(self, value: bytes, delivery: ottla.Delivery | ottla.aio.Delivery) -> None:
        with self._lock:
            self.deliveries[value] = delivery
        delivery.add_done_callback(lambda _: self._tell(value))

    def _tell(self, value: bytes) -> None:
        with self._lock:
            self._told[value] += 1

    def check(self, log: list[Message], *, heard: bool = True) -> None:
        """Hold what was told against the whole log of the topic.

        Args:
            log: All records of the topic.
            heard: Whether the loops that callbacks belong to are still there to run them.
        """
        places = {(r.partition, r.offset): r.value for r in log}
        written = Counter(r.value for r in log)
        doubled = [value for value, times in written.items() if times > 1]
        assert not doubled, f"written twice: {doubled}"
        for value, delivery in self.deliveries.items():
            wait_for(delivery.done, f"the fate of {value!r}")
            if delivery.exception() is None:
                place = delivery.result()
                assert places.get((place.partition, place.offset)) == value, f"{value!r} is not at {place}"
        # Callbacks run on a thread of their own, after the fate is known.
        if heard:
            wait_for(lambda: len(self._told) >= len(self.deliveries), "callbacks")
            assert set(self._told) == set(self.deliveries)
        assert set(self._told.values()) <= {1}, "a fate is told once"
        strangers = set(written) - set(self.deliveries) - self.unheard
        assert not strangers, f"nobody sent {strangers}"


def wait_for(happened: Callable[[], bool], what: str) -> None:
    """Wait for it, but not for ever."""
    for _ in until(DEADLINE, what):
        if happened():
            return
        time.sleep(0.002)


def disturb(broker: Broker, chance: Random) -> None:
    """Let the broker misbehave for a few of the next requests, or not at all."""
    count = chance.randint(1, 3)
    what = chance.randrange(6)
    if what == 0:
        broker.disconnect("Produce", applied=chance.random() < 0.5, count=count)
    elif what == 1:
        broker.delay("Produce", chance.random() / 5, count=count)
    elif what == 2:
        broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", count=count)
    elif what == 3:
        broker.cut("Produce", chance.randint(1, 30), count=count)
    elif what == 4:
        broker.delay("Metadata", chance.random() / 5, count=count)
