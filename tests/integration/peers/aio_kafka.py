"""aiokafka: pure Python, asyncio; each use runs a loop of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.integration.messages import Message
from tests.integration.peers.base import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Sequence


def _message(m: Any) -> Message:
    return Message(m.key, m.value, tuple(m.headers), m.timestamp, m.partition, m.offset)


class AioKafka:
    """See `Peer`."""

    name = "aiokafka"

    def as_written(self, message: Message) -> Message | None:
        # Its API asks for a key or a value.
        return None if message.key is None and message.value is None else message

    def produce(self, bootstrap: str, topic: str, codec: str, messages: Sequence[Message]) -> None:
        async def run() -> None:
            async with AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=True,
                linger_ms=50,
            ) as producer:
                sent = [
                    await producer.send(
                        topic,
                        value=m.value,
                        key=m.key,
                        headers=list(m.headers),
                        partition=m.partition,
                        timestamp_ms=m.timestamp,
                    )
                    for m in messages
                ]
                await asyncio.gather(*sent)

        asyncio.run(asyncio.wait_for(run(), DEADLINE))

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Message]:
        async def run() -> list[Message]:
            out: list[Message] = []
            async with AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False) as consumer:
                consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
                await consumer.seek_to_beginning()
                for _ in until(DEADLINE, f"{count} messages"):
                    got = await consumer.getmany(timeout_ms=200)
                    out += [_message(m) for ms in got.values() for m in ms]
                    if len(out) >= count:
                        break
            return out

        return asyncio.run(run())

    def member(self, bootstrap: str, topic: str, group: str) -> AioKafkaMember:
        return AioKafkaMember(bootstrap, topic, group)


class AioKafkaMember:
    """See `Member`."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.loop = asyncio.new_event_loop()

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=10000,
                heartbeat_interval_ms=500,
            )
            await consumer.start()
            return consumer

        self.consumer = self.loop.run_until_complete(asyncio.wait_for(start(), DEADLINE))

    def poll(self) -> list[Message]:
        async def read() -> list[Message]:
            got = await self.consumer.getmany(timeout_ms=200)
            if got:
                await self.consumer.commit()
            return [_message(m) for ms in got.values() for m in ms]

        return self.loop.run_until_complete(asyncio.wait_for(read(), DEADLINE))

    def assignment(self) -> set[int]:
        return {p.partition for p in self.consumer.assignment()}

    def close(self) -> list[Message]:
        self.loop.run_until_complete(asyncio.wait_for(self.consumer.stop(), DEADLINE))
        self.loop.close()
        return []
