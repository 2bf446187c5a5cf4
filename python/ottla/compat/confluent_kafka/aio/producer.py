"""`AIOProducer`: a record goes straight to ottla's producer, and its report straight to its future."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from ottla import _ottla
from ottla.compat.confluent_kafka.aio.reports import Reports
from ottla.compat.confluent_kafka.callbacks import SLICE, deadline_of
from ottla.compat.confluent_kafka.errors import KafkaException
from ottla.compat.confluent_kafka.outbox import delivery_error
from ottla.compat.confluent_kafka.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.compat.confluent_kafka.producer import State

# Records after which `produce` lets other tasks run.
_TURN: Final = 1000
_CLOSED: Final = "Producer has been closed"
_NO_HEADERS: Final = "AIOProducer takes no headers: use Producer.produce()"


def on_ottla(base: type[Any]) -> type[Any]:
    """Derive the class that takes the place of confluent-kafka's `AIOProducer`."""
    names = {"__doc__": base.__doc__, "__module__": base.__module__, "__qualname__": base.__qualname__}
    return type(base.__name__, (_Straight, base), names)


class _Straight:
    """Methods that take the place of those of confluent-kafka's class.

    That class keeps records in a buffer, and hands the buffer to its producer on another thread. Here the buffer stays
    empty. Calls without such a method, as those of transactions, still run on its threads. With a producer that is not
    ottla's, such as a mock in the tests of a program, the class works as it does without ottla.
    """

    # Queues a record at once, and returns its future: None if the producer is closed or not ottla's, or while records
    # wait for space.
    __add: Callable[..., asyncio.Future[Any] | None] | None = None
    __reports: Reports | None = None
    __futures: _ottla.FutureOutbox
    __state: State
    _is_closed: bool

    def __init__(self, producer_conf: dict[str, Any], *args: Any, **named: Any) -> None:
        super().__init__(producer_conf, *args, **named)  # type: ignore[call-arg]
        producer: Any = self._producer  # type: ignore[attr-defined]
        if not isinstance(producer, Producer):
            return
        state = self.__state = producer._ottla_state()
        loop = asyncio.get_running_loop()
        self.__reports = Reports(loop, state.outbox)
        self.__futures = _ottla.FutureOutbox(state.outbox, loop)
        self.__add = self.__futures.add
        self.__left = _TURN
        # Tasks whose records wait for space, in their order.
        self.__line, self.__waiting = asyncio.Lock(), 0
        if state.core is not None and not state.is_watched:
            # The loop notices all that happens: there is nothing to look for now and then.
            self._buffer_timeout_manager.stop_timeout_monitoring()  # type: ignore[attr-defined]

    async def produce(
        self, topic: str, value: Any = None, key: Any = None, *args: Any, partition: Any = -1, **named: Any
    ) -> asyncio.Future[Any]:
        """Queue a record. If the queue is full, wait until it has space.

        Args:
            topic: The topic's name.
            value: bytes, str or None.
            key: bytes, str or None.
            args: Ignored, as in confluent-kafka.
            partition: The partition; -1 lets the partitioner choose.
            named: timestamp in milliseconds since 1970 UTC. Other names are ignored, as in confluent-kafka.

        Returns: A future of the delivered message, or of a KafkaException.

        Raises:
            NotImplementedError: There are headers.
            RuntimeError: The producer is closed.
        """
        add = self.__add
        future = None if add is None or named else add(topic, value, key, partition)
        if future is None:
            return await self.__produce(topic, value, key, *args, partition=partition, **named)
        self.__left -= 1
        if not self.__left:
            await self.__turn()
        return future

    async def __produce(
        self, topic: Any, value: Any, key: Any, *args: Any, partition: Any, timestamp: Any = 0, **named: Any
    ) -> asyncio.Future[Any]:
        """Queue a record that has a timestamp, or that has to wait; let confluent-kafka's class queue it for a mock."""
        if self._is_closed and isinstance(self._producer, Producer):  # type: ignore[attr-defined]
            raise RuntimeError(_CLOSED)
        if self.__reports is None:
            named |= {"partition": partition} if partition != -1 else {}
            named |= {"timestamp": timestamp} if timestamp else {}
            return await super().produce(topic, value, key, *args, **named)  # type: ignore[misc,no-any-return]
        if "headers" in named:
            raise NotImplementedError(_NO_HEADERS)
        future: asyncio.Future[Any] = asyncio.Future(loop=asyncio.get_running_loop())
        record = (future, topic, value, key, partition, timestamp)
        if not self.__is_here():
            await self.__wait_for_space(record)
            return future
        self.__add = None
        self.__waiting += 1
        try:
            async with self.__line:
                await self.__wait_for_space(record)
        finally:
            self.__waiting -= 1
            if not self.__waiting and not self._is_closed:
                self.__add = self.__futures.add
        return future

    def __is_here(self) -> bool:
        """Whether this is the loop in which the producer was made, which serves its reports."""
        return self.__reports is not None and self.__futures.is_here()

    async def __wait_for_space(self, record: tuple[asyncio.Future[Any], Any, Any, Any, Any, Any]) -> None:
        """Queue a record as soon as there is space."""
        deadline = time.monotonic() + self.__state.timeout
        while not self.__futures.queue(*record):
            if not await self.__wait(deadline):
                record[0].set_exception(KafkaException(delivery_error("_QUEUE_FULL")))
                return

    async def __turn(self) -> None:
        """Let other tasks run, and serve reports and events."""
        self.__left = _TURN
        if self.__state.is_watched:
            await self.__serve_events()
        else:
            await asyncio.sleep(0)

    async def __serve_events(self) -> int:
        """Call callbacks of events. Each waits for its coroutine on the loop, so another thread calls it."""
        if not self.__state.is_watched:
            return 0
        served: int = await self._call(self.__state.serve_events)  # type: ignore[attr-defined]
        return served

    async def __wait(self, deadline: float) -> bool:
        """Wait for reports and events, at most a slice.

        Returns: False if the time is up.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if self.__reports is None or not self.__is_here():
            await asyncio.sleep(min(left, SLICE))
        else:
            await self.__reports.wait(min(left, SLICE) if self.__state.is_watched else left)
        return True

    async def poll(self, timeout: Any = 0, *args: Any, **named: Any) -> int:
        """Wait for reports and events.

        Args:
            timeout: Seconds to wait at most; negative waits without end.
            args: As in confluent-kafka.
            named: As in confluent-kafka.

        Returns: How many there were since the last call. The loop settles futures without it.
        """
        reports = self.__reports
        if reports is None or not self.__is_here():
            return await super().poll(timeout, *args, **named)  # type: ignore[misc,no-any-return]
        deadline = deadline_of(-1 if timeout is None else timeout)
        while True:
            events = await self.__serve_events()
            reports.serve()
            served = events + reports.take_count()
            if served or not deadline or not await self.__wait(deadline):
                return served

    async def flush(self, *args: Any, **named: Any) -> Any:
        """Wait until all records have a result.

        Args:
            args: Seconds to wait at most; negative waits without end, as by default.
            named: The same, as timeout.

        Returns: The number of records that have no result.
        """
        if self.__reports is None or not self.__is_here():
            return await super().flush(*args, **named)  # type: ignore[misc]
        return await self.__flush(self.__reports, *args, **named)

    async def __flush(self, reports: Reports, timeout: Any = -1) -> int:
        await self.__serve_events()
        reports.serve()
        for seconds in self.__state.waits_of_flush(deadline_of(-1 if timeout is None else timeout)):
            await self.__wait(time.monotonic() + seconds)
            await self.__serve_events()
            reports.serve()
        reports.take_count()
        return len(self.__state.outbox)

    async def purge(self, *args: Any, **named: Any) -> Any:
        """Purge records. Their futures get _PURGE_QUEUE or _PURGE_INFLIGHT.

        Args:
            args: As of Producer.purge.
            named: As of Producer.purge.
        """
        purged = await super().purge(*args, **named)  # type: ignore[misc]
        if self.__reports is not None and self.__is_here():
            self.__reports.serve()
        return purged

    async def close(self) -> None:
        """Wait until all records have a result, and disconnect. A second call does nothing."""
        if self.__reports is None and isinstance(self._producer, Producer):  # type: ignore[attr-defined]
            return
        self.__add = None
        await super().close()  # type: ignore[misc]
        if self.__reports is not None:
            reports, self.__reports = self.__reports, None
            reports.close()
            await asyncio.get_running_loop().run_in_executor(None, self._producer.close)  # type: ignore[attr-defined]
