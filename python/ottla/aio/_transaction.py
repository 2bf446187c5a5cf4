"""A transaction as an async context manager."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from ottla._closing import NOT_ABORTED, Interruptible, exit_timeout, noting
from ottla._types import GroupMetadata, Offsets
from ottla.errors import KafkaTimeoutError, TransactionAbortableError


class _Verbs(Protocol):
    async def begin_transaction(self) -> None: ...
    async def send_offsets(
        self, offsets: Offsets, group: str | GroupMetadata, timeout: float | None = None
    ) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self, timeout: float | None = None) -> None: ...


class Core(Interruptible, Protocol):
    """The core of a producer."""

    def is_transaction_settled(self) -> bool:
        """Whether no transaction is open that can be committed or aborted without a decision of its owner."""


class Transaction:
    """What happens in the block takes effect as a whole, or not at all. `Producer.transaction` makes it."""

    __slots__ = ("_core", "_producer")

    def __init__(self, producer: _Verbs, core: Core) -> None:
        self._producer = producer
        self._core = core

    async def send_offsets(self, offsets: Offsets, group: str | GroupMetadata, timeout: float | None = None) -> None:
        """Make offsets of a group part of the transaction, as `Producer.send_offsets` does."""
        await self._producer.send_offsets(offsets, group, timeout)

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            with noting(exc, NOT_ABORTED):
                if not self._is_settled():
                    await self._producer.abort_transaction(exit_timeout(self._core, exc))
            return
        if self._is_settled():
            return
        try:
            await self._producer.commit_transaction()
        except (TransactionAbortableError, KafkaTimeoutError) as error:
            # It is still open, and the block that could retry has ended.
            with noting(error, NOT_ABORTED):
                await self._producer.abort_transaction()
            raise

    def _is_settled(self) -> bool:
        """Whether it was ended in the block, or is prepared: then only its owner knows how it is to end."""
        return self._core.is_transaction_settled()
