"""Records that say where they belong, so that what a log holds can be judged without knowing who wrote it.

The invariants are those that a messaging client is held to: no acknowledged record lost (R1) or doubled (R2), one value
per offset and the offset that was reported (R3), the order of sending kept in a partition (R4), every send resolved
once and in time (R6), a record only where it says it belongs, and unharmed (R7).
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ottla
    from tests.integration.messages import Message

PADDING = b"." * 200


def stamp(run: str, topic: str, partition: int, sequence: int) -> bytes:
    """A value that names its run, topic, partition and sequence, with a checksum over all of it."""
    body = b"|".join([run.encode(), topic.encode(), b"%d" % partition, b"%d" % sequence, PADDING])
    return b"%08x|" % zlib.crc32(body) + body


def read_stamp(value: bytes | None) -> tuple[str, str, int, int]:
    """Run, topic, partition and sequence; fails if the value is harmed."""
    assert value is not None
    checksum, body = value.split(b"|", 1)
    assert int(checksum, 16) == zlib.crc32(body), f"harmed value: {value[:80]!r}"
    run, topic, partition, sequence, padding = body.split(b"|")
    assert padding == PADDING
    return run.decode(), topic.decode(), int(partition), int(sequence)


@dataclass
class Sent:
    """What one producer sent to one topic, and how each send ended."""

    run: str
    topic: str
    deliveries: list[tuple[int, int, ottla.Delivery]] = field(default_factory=list)
    resolved: Counter[tuple[int, int]] = field(default_factory=Counter)

    def send(self, producer: ottla.Producer, partition: int, sequence: int) -> None:
        delivery = producer.send(self.topic, stamp(self.run, self.topic, partition, sequence), partition=partition)
        delivery.add_done_callback(lambda _: self.resolved.update([(partition, sequence)]))
        self.deliveries.append((partition, sequence, delivery))

    def check(self, log: list[Message]) -> None:
        """Hold the whole log of the topic against what was sent; all sends must have been acknowledged.

        Args:
            log: Every message of every partition, with its offset, in the order of each partition.
        """
        for partition, sequence, delivery in self.deliveries:
            assert delivery.done(), f"unresolved: partition {partition}, sequence {sequence}"
            assert delivery.exception() is None, f"partition {partition}, sequence {sequence}: {delivery.exception()!r}"
        assert set(self.resolved.values()) == {1}, "every send resolves exactly once"
        assert len(self.resolved) == len(self.deliveries)

        places: dict[tuple[int, int], int] = {}
        last: dict[int, int] = {}
        for m in log:
            run, topic, partition, sequence = read_stamp(m.value)
            assert (run, topic, partition) == (self.run, self.topic, m.partition), "a record in a strange place"
            assert (partition, sequence) not in places, (
                f"doubled: partition {partition}, sequence {sequence}, at {places[partition, sequence]} and {m.offset}"
            )
            assert sequence > last.get(partition, -1), (
                f"out of order: partition {partition}, sequence {sequence} after {last[partition]} at offset {m.offset}"
            )
            places[partition, sequence], last[partition] = m.offset, sequence
        reported = {(p, s): d.result(0).offset for p, s, d in self.deliveries}
        assert places == reported
