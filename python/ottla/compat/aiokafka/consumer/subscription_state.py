"""What a consumer reads: topics, a pattern or partitions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from enum import Enum

from ottla.compat.aiokafka.abc import ConsumerRebalanceListener
from ottla.compat.aiokafka.errors import IllegalStateError
from ottla.compat.aiokafka.structs import TopicPartition

__all__ = ["SubscriptionState"]


class Kind(Enum):
    """How partitions come to a consumer."""

    NONE = 0
    TOPICS = 1
    PATTERN = 2
    PARTITIONS = 3


class SubscriptionState:
    """The current subscription.

    Attributes:
        kind: How partitions come.
        topics: The topics that are subscribed to, or that the pattern matches.
        pattern: The pattern.
        partitions: What was assigned by hand.
        listener: The program's listener.
        is_assigned: Whether the partitions are known, and no rebalance goes on.
        current: The partitions of the last assignment; None before the first one of this subscription.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.kind = Kind.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.partitions: tuple[TopicPartition, ...] = ()
        self.listener: ConsumerRebalanceListener | None = None
        self.is_assigned = False
        self.current: frozenset[TopicPartition] | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def subscription(self) -> SubscriptionState | None:
        """The subscription; None if the consumer has no subscription."""
        return None if self.kind is Kind.NONE else self

    @property
    def is_automatic(self) -> bool:
        """Whether topics or a pattern are subscribed to."""
        return self.kind in {Kind.TOPICS, Kind.PATTERN}

    def subscribe(
        self,
        topics: Iterable[str],
        pattern: re.Pattern[str] | None,
        listener: ConsumerRebalanceListener | None,
    ) -> None:
        """Subscribe to topics or to a pattern.

        Raises:
            IllegalStateError: There is a subscription of another kind.
        """
        self._change(Kind.TOPICS if pattern is None else Kind.PATTERN)
        self.topics, self.pattern, self.listener = frozenset(topics), pattern, listener

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read partitions.

        Raises:
            IllegalStateError: Topics or a pattern are subscribed to.
        """
        self._change(Kind.PARTITIONS)
        self.partitions = tuple(partitions)
        self.topics = frozenset(each.topic for each in self.partitions)
        self.is_assigned, self.current = True, frozenset(self.partitions)

    def _change(self, kind: Kind) -> None:
        if self.kind not in {Kind.NONE, kind}:
            raise IllegalStateError(
                "Subscription to topics, partitions and pattern are mutually exclusive: call unsubscribe() first"
            )
        self.kind, self.is_assigned, self.current = kind, False, None

    def clear(self) -> None:
        """Unsubscribe."""
        self.kind, self.topics, self.pattern, self.partitions = Kind.NONE, frozenset(), None, ()
        self.listener, self.is_assigned, self.current = None, False, None
        self.wake(None)

    def assigned(self) -> None:
        """The partitions are known."""
        self.is_assigned = True
        self.wake(None)

    def wake(self, failure: BaseException | None) -> None:
        """End the waits for an assignment, with an exception or without."""
        waiters, self._waiters = self._waiters, set()
        for each in waiters:
            if each.done():
                continue
            if failure is None:
                each.set_result(None)
            else:
                each.set_exception(failure)

    async def wait_for_assignment(self) -> None:
        """Wait until the partitions are known, or there is no subscription any more.

        Raises:
            KafkaError: The group cannot be joined.
        """
        while self.subscription is not None and not self.is_assigned:
            waiter = self._loop.create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
