"""What asyncio itself takes for each record: a coroutine, and a future that gets a result. Nothing is sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measurement import Job, Stopwatch


class _Message:
    def offset(self) -> int:
        return 0


class _Producer:
    """The signature of `AIOProducer.produce`, and no more."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def produce(
        self, _topic: str, _value: Any = None, _key: Any = None, *_args: Any, **_named: Any
    ) -> asyncio.Future[_Message]:
        return asyncio.Future(loop=self._loop)


def aio_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """The program of `confluent.aio_produce`, without a client."""
    return asyncio.run(_aio_produce(job, watch))


async def _aio_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    producer, message, values = _Producer(), _Message(), job.values()
    sent = 0
    watch.start()
    while job.wants_more(sent, watch):
        results = [await producer.produce(job.topic, value) for value in values]
        for result in results:
            result.set_result(message)
        for result in results:
            (await result).offset()
        sent += len(results)
    watch.stop()
    return sent, sent * job.size
