"""Reads for a consumer: a task polls, so that the group rebalances and commits while the program does something else.

aiokafka's consumer works in the background, and ottla's works in its polls. The task here calls `poll_to_iterate`,
which calls listeners, commits and fetches, but leaves the records in the core. The program's calls take them from
there. So positions, seeks, pauses and commits are those of the core, and count what the program received.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ottla import aio
from ottla import errors as native
from ottla._ottla import Record
from ottla.compat.aiokafka._connection import as_value_error
from ottla.compat.aiokafka._translation import translate
from ottla.compat.aiokafka.client import AIOKafkaClient
from ottla.compat.aiokafka.consumer._ends import Ends
from ottla.compat.aiokafka.consumer._settings import Settings
from ottla.compat.aiokafka.consumer.subscription_state import Kind, SubscriptionState
from ottla.compat.aiokafka.coordinator._bridge import notify
from ottla.compat.aiokafka.errors import ConsumerStoppedError, KafkaError, NoOffsetForPartitionError
from ottla.compat.aiokafka.structs import TopicPartition

_log = logging.getLogger("aiokafka.consumer")
# Seconds between two polls while records wait for the program, and after an error.
_PAUSE: Final = 0.1
_ALL: Final = 1 << 60
# Errors that may have ended when the next poll responds.
_PASSING: Final = (native.BrokerError, native.UnreachableError, native.KafkaTimeoutError)
# Errors of a partition that cannot be read until a seek.
_UNTIL_SEEK: Final = (native.OffsetOutOfRangeError, native.CorruptRecordError, native.ArgumentError)
Filter = frozenset[TopicPartition] | None


class Reader:
    """Polls while the consumer lives.

    Args:
        loop: The consumer's loop.
        settings: The consumer's settings.
        metadata: Finds topics.
        subscription: What is read.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        metadata: AIOKafkaClient,
        subscription: SubscriptionState,
    ) -> None:
        self._loop, self.settings, self._metadata, self.subscription = loop, settings, metadata, subscription
        self.client: aio.Consumer | None = None
        is_committed = settings.properties["isolation.level"] == "read_committed"
        self.ends = Ends(metadata._administrator if is_committed else None, lambda: bool(self._waiters))
        # The last poll's error, and whether a call raised it.
        self._failure: BaseException | None = None
        self._is_raised = False
        # Whether the last poll raised an error that may have ended. While it lasts, the core raises it again at the end
        # of a poll, so the polls after it are short.
        self._is_troubled = False
        self._run: Iterator[Record] = iter(())
        self._task: asyncio.Task[None] | None = None
        self._resolving: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[bool] | None = None
        self._is_restarted = False
        self._closing: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()
        self._waiters: dict[asyncio.Future[None], Filter] = {}
        # Partitions that are paused by the program, and here while the task polls for others.
        self.paused: set[TopicPartition] = set()
        self._held: frozenset[TopicPartition] = frozenset()
        # Listeners of an earlier subscription or client are not called any more.
        self._generation = 0
        self._previous: frozenset[TopicPartition] = frozenset()
        self._is_revoked = False
        # What the group's subscription was made with: topics, or a pattern.
        self._subscribed: frozenset[str] | re.Pattern[str] = frozenset()
        self._calls = 0
        self._taken_at = loop.time()
        # It has left the group, because the program asked for no records in time.
        self._is_dormant = False
        self._repeating: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def start(self) -> None:
        """Find the partitions, and begin to poll.

        Raises:
            ValueError: A property has a value that is not allowed.
            KafkaError: A topic or the group is not available.
        """
        self._renew()
        if self.subscription.kind is Kind.TOPICS:
            for topic in self.subscription.topics:
                await self._metadata._wait_on_metadata(topic)
        if self._resolves:
            await self._resolve()
        self.apply()
        self._task = self._loop.create_task(self._pump())
        if self.subscription.is_automatic and (self.settings.group_id is None or self._subscribed):
            await self.subscription.wait_for_assignment()
            await self._find_positions()

    async def _find_positions(self) -> None:
        """Wait until it is known where partitions begin, so that a record that is sent after `start` is read."""
        client, partitions = self.client, self.subscription.current or frozenset()
        if client is not None:
            # What is wrong with a position, the calls for records raise.
            await asyncio.gather(*map(client.position, partitions), return_exceptions=True)

    def _renew(self) -> None:
        """Begin with another client: the one before leaves its group."""
        before = self.client
        try:
            self.client = aio.Consumer(config=self.settings.properties)
        except native.ConfigError as error:
            raise as_value_error(error) from error
        self._run = self.client._core.run(_ALL)
        self._generation += 1
        self._subscribed = frozenset()
        self._held = frozenset()
        self._failure = None
        if before is not None:
            closing = self._loop.create_task(_close(before))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        self._restart()

    @property
    def _resolves(self) -> bool:
        """Whether topics and partitions are found here, not by the core: for patterns, and without a group."""
        subscription = self.subscription
        return subscription.kind is Kind.PATTERN or (
            subscription.kind is Kind.TOPICS and self.settings.group_id is None
        )

    @property
    def _topics(self) -> frozenset[str]:
        return self.subscription.topics

    def apply(self) -> None:
        """Read what is subscribed to now."""
        self._is_dormant, self._failure = False, None
        self._taken_at = self._loop.time()
        client = self.client
        if client is None:
            return
        if self.subscription.kind is Kind.PARTITIONS:
            client.assign(self.subscription.partitions)
            self.ends.forget()
            self.ends.fetched(client)
        elif self._resolves:
            self._subscribe_to_pattern()
            if self._resolving is None or self._resolving.done():
                self._resolving = self._loop.create_task(self._keep_resolving())
        elif self.subscription.kind is Kind.TOPICS:
            self._subscribe(self._topics)
        self._change.set()

    def _subscribe_to_pattern(self) -> None:
        """Let the core follow the pattern if it can: it has no look-around, and matches no internal topics."""
        pattern = self.subscription.pattern
        if pattern is None or self.settings.group_id is None or self.settings.with_internal:
            return
        with contextlib.suppress(re.error, native.ArgumentError):
            # aiokafka matches the beginning of a name, and ottla the whole name.
            self._subscribe(re.compile(f"(?:{pattern.pattern}).*"))

    def _subscribe(self, wanted: frozenset[str] | re.Pattern[str]) -> None:
        client = self.client
        if client is None or not wanted:
            return
        self._generation += 1
        generation = self._generation
        is_repeated = wanted == self._subscribed and bool(client.assignment())
        self._subscribed = wanted

        def current(listener: Callable[[Iterable[Any]], Any]) -> Callable[[Iterable[Any]], Any]:
            def call(partitions: Iterable[Any]) -> Any:
                return listener(partitions) if generation == self._generation else None

            return call

        client.subscribe(
            wanted if isinstance(wanted, re.Pattern) else sorted(wanted),
            on_assign=current(self._on_assign),
            on_revoke=current(self._on_revoke),
            on_lost=current(self._on_revoke),
        )
        if is_repeated:
            self._repeating = self._loop.create_task(self._repeat(generation))

    async def _repeat(self, generation: int) -> None:
        """Call the listener for what is assigned: aiokafka joins again, and ottla keeps the membership."""
        if generation == self._generation and not self.subscription.is_assigned and not self._is_revoked:
            await self._on_revoke(self._previous)
            if generation == self._generation:
                await self._on_assign(())

    async def _on_revoke(self, partitions: Iterable[Any]) -> None:
        revoked = frozenset(TopicPartition(*each) for each in partitions)
        self._is_revoked = True
        self._previous = frozenset()
        self.paused -= revoked
        await self._tell("on_partitions_revoked", set(revoked))
        self.subscription.is_assigned = False

    async def _on_assign(self, _added: Iterable[Any]) -> None:
        if not self._is_revoked:
            await self._tell("on_partitions_revoked", set(self._previous))
        self._is_revoked = False
        client = self.client
        assigned = (
            frozenset(TopicPartition(*each) for each in client.assignment()) if client is not None else frozenset()
        )
        self._previous = self.subscription.current = assigned
        self.subscription.is_assigned = True
        self._taken_at = self._loop.time()
        self.ends.forget()
        if client is not None:
            self.ends.fetched(client)
        notify(self.settings.assignors, assigned)
        await self._tell("on_partitions_assigned", set(assigned))
        self.subscription.assigned()
        self.wake()

    async def _tell(self, method: str, partitions: set[TopicPartition]) -> None:
        listener = self.subscription.listener
        if listener is None:
            return
        try:
            result = getattr(listener, method)(partitions)
            if inspect.isawaitable(result):
                await result
        except Exception:  # noqa: BLE001 it is logged with its traceback
            _log.exception("%s of %r failed for %s", method, listener, partitions)

    async def _keep_resolving(self) -> None:
        """Look for topics and partitions now, and whenever metadata are old."""
        while self._resolves:
            try:
                await self._resolve()
            except (native.KafkaError, KafkaError) as error:
                self._fail(error)
            await asyncio.sleep(self.settings.metadata_max_age)

    async def _resolve(self) -> None:
        subscription, client = self.subscription, self.client
        if subscription.kind is Kind.PATTERN:
            if not await self._metadata._update():
                return
            if subscription is not self.subscription or subscription.pattern is None:
                return
            known = self._metadata.cluster.topics(exclude_internal_topics=not self.settings.with_internal)
            subscription.topics = frozenset(filter(subscription.pattern.match, known))
        if client is None or not self._resolves:
            return
        topics = self._topics
        if self.settings.group_id is not None:
            if not isinstance(self._subscribed, re.Pattern) and topics and topics != self._subscribed:
                self._subscribe(topics)
                self._change.set()
            return
        found = [TopicPartition(topic, n) for topic in topics for n in await self._metadata._wait_on_metadata(topic)]
        if client is not self.client or topics != self._topics:
            return
        if subscription.current != frozenset(found):
            subscription.current = frozenset(found)
            client.assign(found)
            self.ends.forget()
            self.ends.fetched(client)
        subscription.assigned()
        self._change.set()

    async def _pump(self) -> None:
        """Poll until the consumer stops."""
        while not self._is_stopped:
            client, subscription = self.client, self.subscription
            if client is None or self._is_idle(client):
                await self._pause(None)
                continue
            try:
                is_rebalance = await self._poll(client)
                if is_rebalance:
                    await client._tell()
                    continue
            except native.KafkaError as error:
                if client is self.client:
                    self._is_troubled = isinstance(error, _PASSING)
                    self._fail(error)
                    await self._pause(_PAUSE)
                continue
            except Exception:  # noqa: BLE001 it is logged with its traceback
                # Of a listener that took too long, or of an assignor.
                _log.exception("a rebalance of group %s", self.settings.group_id)
                continue
            if is_rebalance is None:
                continue
            self._is_troubled = False
            if self._failure is not None and not self._lasts(self._failure, client):
                self._failure = None
            if subscription.is_assigned:
                self.ends.fetched(client)
                self.wake()
            await self._pause(_PAUSE)
            self._check_interval()

    def _lasts(self, failure: BaseException, client: aio.Consumer) -> bool:
        """Whether an error lasts until a seek: the core raises it again only if it has nothing else to poll."""
        return isinstance(failure.__cause__, _UNTIL_SEEK) and _partition_of(failure) in self._reading(client)

    def _is_idle(self, client: aio.Consumer) -> bool:
        """Whether there is nothing to poll for."""
        subscription = self.subscription
        if subscription.subscription is None or self._is_dormant:
            return True
        if subscription.is_automatic and self.settings.group_id is not None:
            return not self._subscribed
        return not client.assignment()

    async def _poll(self, client: aio.Consumer) -> bool | None:
        """Poll: whether listeners have to be called; None if other partitions are to be polled."""
        self._change.clear()
        self._is_restarted = False
        self._held = self._unwanted(client)
        if self._held:
            client.pause(self._held)
        self._polling = self._loop.create_task(
            _await(client._core.poll_to_iterate(_PAUSE if self._is_troubled else None))
        )
        try:
            return await self._polling
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_restarted and self._polling.cancelled() and task is not None and not task.cancelling():
                return None
            self._polling.cancel()
            raise
        finally:
            self._polling = None
            self._release(client, self._held)
            self._held = frozenset()

    def _unwanted(self, client: aio.Consumer) -> frozenset[TopicPartition]:
        """The partitions that nobody waits for, if all waits are for certain partitions."""
        filters = list(self._waiters.values())
        if not filters or None in filters:
            return frozenset()
        wanted = frozenset[TopicPartition]().union(*(each for each in filters if each is not None))
        return self._reading(client) - wanted

    def _reading(self, client: aio.Consumer) -> frozenset[TopicPartition]:
        """The assigned partitions that the program has not paused."""
        return frozenset(TopicPartition(*each) for each in client.assignment()) - self.paused

    @staticmethod
    def _release(client: aio.Consumer, held: frozenset[TopicPartition]) -> None:
        for each in held:
            # It may have been revoked meanwhile, or the client closed.
            with contextlib.suppress(native.ArgumentError, native.ClosedError):
                client.resume([each])

    def _restart(self) -> None:
        """Let the task look again at what to poll."""
        self._change.set()
        if self._polling is not None:
            self._is_restarted = True
            self._polling.cancel()

    async def _pause(self, seconds: float | None) -> None:
        """Wait until something changes, at most so long."""
        timer = None if seconds is None else self._loop.call_later(seconds, self._change.set)
        try:
            await self._change.wait()
        finally:
            self._change.clear()
            if timer is not None:
                timer.cancel()

    def _fail(self, error: BaseException) -> None:
        """Raise an error in the waiting calls that it concerns, or in the program's next one."""
        if isinstance(error, native.ArgumentError) and error.partition is not None:
            raised: BaseException = NoOffsetForPartitionError(str(error))
            raised.__cause__ = error
        else:
            raised = translate(error)
        self.subscription.wake(raised)
        waiting = [each for each, wanted in self._waiters.items() if not each.done() and _concerns(raised, wanted)]
        for each in waiting:
            del self._waiters[each]
            each.set_exception(raised)
        self._is_raised = bool(waiting)
        self._failure = None if waiting and isinstance(raised.__cause__, _PASSING) else raised

    def _check_interval(self) -> None:
        """Leave the group if the program has not asked for records for too long."""
        limit = self.settings.max_poll_interval
        if self.settings.group_id is None or not self.subscription.is_automatic or self._calls:
            return
        if not self.subscription.is_assigned or self._loop.time() - self._taken_at <= limit:
            return
        _log.warning(
            "the program has not asked for records for %.1f s (max_poll_interval_ms): the consumer leaves group %s and "
            "joins it again with the next getone or getmany",
            limit,
            self.settings.group_id,
        )
        self._is_dormant = True
        self.subscription.is_assigned = False
        self._renew()

    def wake(self) -> None:
        """Let the waiting calls look for records."""
        waiters, self._waiters = self._waiters, {}
        for each in waiters:
            if not each.done():
                each.set_result(None)

    def check(self, wanted: Filter) -> None:
        """Raise the error of the last poll, unless a call raised it or it is of another partition.

        Raises:
            KafkaError: A partition or the group is not available.
        """
        failure = self._failure
        if failure is None or self._is_raised or not _concerns(failure, wanted):
            return
        self._is_raised = True
        if isinstance(failure.__cause__, _PASSING):
            self._failure = None
        raise failure

    def take(self, wanted: Filter) -> Record | None:
        """The next record that the core has; None if a poll is needed first."""
        if not self.subscription.is_assigned:
            return None
        if wanted is None:
            return next(self._run, None)
        with self._only(wanted):
            return next(self._run, None)

    def take_many(self, wanted: Filter, most: int | None) -> list[Record]:
        """The next records that the core has."""
        if not self.subscription.is_assigned or self.client is None:
            return []
        run = self.client._core.run(_ALL if most is None else most)
        if wanted is None:
            return list(run)
        with self._only(wanted):
            return list(run)

    @contextlib.contextmanager
    def _only(self, wanted: frozenset[TopicPartition]) -> Iterator[None]:
        client = self.client
        if client is None:
            yield
            return
        unwanted = self._reading(client) - wanted - self._held
        held = self._held & wanted
        if unwanted:
            client.pause(unwanted)
        if held:
            client.resume(held)
        try:
            yield
        finally:
            self._release(client, unwanted)
            if held:
                client.pause(held)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Around a call for records."""
        if self._is_dormant:
            self.apply()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._taken_at = self._loop.time()

    async def wait(self, wanted: Filter, timeout: float | None) -> bool:
        """Wait until there may be records.

        An error that stays until somebody acts is raised again after a while, in which the task polls.

        Returns: Whether the time is not up.

        Raises:
            KafkaError: A partition or the group is not available.
        """
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters[waiter] = wanted
        if self._failure is not None and _concerns(self._failure, wanted):
            timeout = _PAUSE if timeout is None else min(timeout, _PAUSE)
        client = self.client
        if self._polling is not None and client is not None and not self._is_restarted:
            if self._unwanted(client) != self._held:
                self._restart()
        else:
            self._change.set()
        try:
            if timeout is None:
                await waiter
            else:
                await asyncio.wait([waiter], timeout=timeout)
            if waiter.done():
                waiter.result()
            elif self._failure is not None and _concerns(self._failure, wanted):
                raise self._failure
            return waiter.done()
        finally:
            self._waiters.pop(waiter, None)
            if waiter.done() and not waiter.cancelled():
                # A cancelled call does not raise it.
                waiter.exception()

    def unsubscribe(self) -> None:
        """Leave the group, or forget the partitions."""
        self.subscription.clear()
        self._previous, self._is_revoked = frozenset(), False
        self.paused = set()
        if self.client is not None:
            self._renew()

    async def leave_before(self) -> None:
        """Wait until an earlier client has left the group, which accepts no commits of strangers until then."""
        if self._closing:
            await asyncio.wait(self._closing)

    def moved(self) -> None:
        """A position was set: an error of the position before does not count any more."""
        self._failure = None
        self._change.set()

    async def stop(self) -> None:
        """End the task, commit with auto commit, leave the group, and disconnect."""
        self._generation += 1
        tasks = [each for each in (self._task, self._resolving, self._repeating) if each is not None]
        self.cancel()
        if tasks:
            await asyncio.wait(tasks)
        client, self.client = self.client, None
        if client is not None:
            await _close(client)
        if self._closing:
            await asyncio.wait(self._closing)

    def cancel(self) -> None:
        """End the tasks without waiting for them."""
        self._is_stopped = True
        self._run = iter(())
        self.subscription.wake(ConsumerStoppedError("the consumer is stopped"))
        self.wake()
        self.ends.cancel()
        for each in (self._task, self._resolving, self._repeating):
            if each is not None:
                each.cancel()


def _partition_of(failure: BaseException) -> TopicPartition | None:
    """The partition of an error that stays. One that passes names the first of several, and concerns all calls."""
    error = failure.__cause__
    if not isinstance(error, native.KafkaError) or isinstance(error, _PASSING):
        return None
    if error.topic is None or error.partition is None:
        return None
    return TopicPartition(error.topic, error.partition)


def _concerns(failure: BaseException, wanted: Filter) -> bool:
    """Whether an error is one of the group, or of a partition that a call reads."""
    partition = _partition_of(failure)
    return wanted is None or partition is None or partition in wanted


async def _await(operation: Any) -> bool:
    return bool(await operation)


async def _close(client: aio.Consumer) -> None:
    try:
        await client.close()
    except native.KafkaError as error:
        _log.warning("closing a consumer: %s", error)
