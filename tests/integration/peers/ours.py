"""ottla itself, behind the same interface; reading goes once over records and once over Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ottla
from tests.integration.messages import Message
from tests.integration.peers.base import DEADLINE, Member, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


class Ottla:
    """See `Peer`."""

    name = "ottla"

    def as_written(self, message: Message) -> Message | None:
        return message

    def produce(self, bootstrap: str, topic: str, codec: str, messages: Sequence[Message], **properties: Any) -> None:
        with ottla.Producer(bootstrap, compression_type=codec, linger_ms=50, **properties) as producer:
            sent = [
                producer.send(
                    topic,
                    m.value,
                    key=m.key,
                    partition=m.partition,
                    timestamp=m.timestamp,
                    headers=list(m.headers),
                )
                for m in messages
            ]
            for delivery in sent:
                delivery.result(DEADLINE)

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Message]:
        return [
            Message(r.key, r.value, tuple(r.headers), r.timestamp, r.partition, r.offset)
            for batch in self._batches(bootstrap, topic, partitions, count)
            for r in batch
        ]

    def consume_columns(self, bootstrap: str, topic: str, partitions: int, count: int) -> pa.Table:
        """The same as one Arrow table."""
        import pyarrow as pa

        return pa.concat_tables([b.to_arrow() for b in self._batches(bootstrap, topic, partitions, count)])

    def _batches(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[ottla.Batch]:
        out: list[ottla.Batch] = []
        with ottla.Consumer(bootstrap) as consumer:
            consumer.assign([ottla.TopicPartition(topic, p, 0) for p in range(partitions)])
            for _ in until(DEADLINE, f"{count} messages"):
                batch = consumer.poll(0.5)
                if len(batch):
                    out.append(batch)
                if sum(map(len, out)) >= count:
                    break
        return out

    def member(self, bootstrap: str, topic: str, group: str) -> Member:
        raise NotImplementedError("test_members.py has groups with this client")


def from_columns(table: pa.Table) -> list[Message]:
    """An Arrow table in the columns of Spark's Kafka source, as messages."""
    return [
        Message(
            row["key"],
            row["value"],
            tuple((h["key"], h["value"]) for h in row["headers"] or ()),
            round(row["timestamp"].timestamp() * 1000),
            row["partition"],
            row["offset"],
        )
        for row in table.to_pylist()
    ]
