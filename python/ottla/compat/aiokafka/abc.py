"""The classes that programs derive from: rebalance listeners and providers of tokens."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Collection, Mapping
from typing import Any

from ottla.compat.aiokafka.structs import TopicPartition

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener(abc.ABC):
    """Is called in each rebalance of the group. Its methods may be functions or coroutine functions.

    A rebalance waits for them. What they raise is logged, and the rebalance continues.
    """

    @abc.abstractmethod
    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Awaitable[Any] | None:
        """Called before a rebalance, when no further record is returned.

        Args:
            revoked: The partitions of the last assignment; empty before the first one.
        """

    @abc.abstractmethod
    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Awaitable[Any] | None:
        """Called after a rebalance, before the first record is returned.

        Args:
            assigned: All partitions that are assigned now.
        """


class AbstractTokenProvider(abc.ABC):
    """Provides bearer tokens for OAUTHBEARER."""

    @abc.abstractmethod
    async def token(self) -> str:
        """Return a token that has not expired."""

    def extensions(self) -> Mapping[str, str]:
        """The SASL extensions that are sent with the token."""
        return {}
