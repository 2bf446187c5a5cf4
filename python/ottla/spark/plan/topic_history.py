"""What a stream remembers of the topics and logs that it reads, so that others in their place are noticed.

A checkpoint holds offsets and nothing else, so that either source can take it up, and an offset fits another topic of
the same name as well as it fits the old one. So a query also stores the id of each topic (KIP-516), and of each
partition the last record before the offset where it stands, with the epoch of the leader that wrote it (KIP-320).
Over restarts `checkpoint` keeps it for `stream_kafka`, and `topic_history_file` for `format("ottla")`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.spark.shared.offsets import Offsets, Partition
from ottla.spark.shared.ranges import Range, Seen


class Replaced(NamedTuple):
    """A topic that another one stands for now.

    Attributes:
        topic: The name of both.
        was: The id of the one that was read.
        now: The id of the other one.
    """

    topic: str
    was: str
    now: str


class TopicHistory:
    """What one query remembers. Tasks get none of it but what is in their ranges."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        # By the partition, and the offset at which the stream stood behind the record: where the last batch ends, and
        # where it begins, as it may be given again after a restart.
        self._seen: dict[tuple[Partition, int], Seen] = {}

    def __reduce__(self) -> "tuple[type[TopicHistory], tuple[()]]":
        return TopicHistory, ()

    def replaced(self, ids: Mapping[str, str]) -> list[Replaced]:
        """The topics of these that had another id when they were read."""
        was = self._ids
        return [Replaced(topic, was[topic], now) for topic, now in sorted(ids.items()) if was.get(topic, now) != now]

    def topics_are(self, ids: Mapping[str, str]) -> None:
        """Remember the ids of topics; what was known of logs of another id is forgotten."""
        gone = {found.topic for found in self.replaced(ids)}
        self._seen = {at: seen for at, seen in self._seen.items() if at[0][0] not in gone}
        self._ids.update(ids)

    def marked(self, spans: Iterable[Range]) -> list[Range]:
        """Ranges with the record before each, as far as it is known."""
        return [span._replace(seen=self._seen.get(((span.topic, span.partition), span.start))) for span in spans]

    def stands(self, start: Offsets, end: Offsets, last: Mapping[Partition, Seen]) -> None:
        """Remember the last records before a batch's end, where the stream goes on; those before its start are kept."""
        known = self._seen.items()
        self._seen = {(of, at): seen for (of, at), seen in known if at in (start.get(of), end.get(of))}
        self._seen.update({(of, end[of]): seen for of, seen in last.items()})

    def to_json(self) -> dict[str, Any]:
        """What `from_json` takes."""
        seen = [[topic, partition, at, *known] for ((topic, partition), at), known in sorted(self._seen.items())]
        return {"ids": self._ids, "seen": seen}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "TopicHistory":
        """What was remembered.

        Raises:
            KeyError, TypeError, ValueError: It is not what `to_json` made.
        """
        past = cls()
        past._ids = {str(topic): str(known) for topic, known in kept["ids"].items()}
        past._seen = {
            ((str(topic), int(partition)), int(at)): Seen(int(next_offset), int(epoch))
            for topic, partition, at, next_offset, epoch in kept["seen"]
        }
        return past
