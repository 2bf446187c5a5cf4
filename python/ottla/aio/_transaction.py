"""A transaction as an async context manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.errors import KafkaError, KafkaTimeoutError, TransactionAbortableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from ottla._ottla import Offsets
    from ottla._types import GroupMetadata


class _Verbs(Protocol):
    async def begin_transaction(self) -> None: ...
    async def send_offsets(
        self, offsets: Offsets, group: str | GroupMetadata, timeout: float | None = None
    ) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self) -> None: ...


class Transaction:
    """What happens in the block takes effect as a whole, or not at all. `Producer.transaction` makes it."""

    __slots__ = ("_is_settled", "_producer")

    def __init__(self, producer: _Verbs, is_settled: Callable[[], bool]) -> None:
        self._producer = producer
        self._is_settled = is_settled

    async def send_offsets(self, offsets: Offsets, group: str | GroupMetadata, timeout: float | None = None) -> None:
        """Makes offsets of a group part of the transaction, as `Producer.send_offsets` does."""
        await self._producer.send_offsets(offsets, group, timeout)

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_settled():
            # It was ended in the block, or it is prepared: then only its owner knows how it is to end.
            return
        if exc is not None:
            await self._abort(exc)
            return
        try:
            await self._producer.commit_transaction()
        except (TransactionAbortableError, KafkaTimeoutError) as error:
            # It is still open, and nobody is left who could do anything else with it.
            await self._abort(error)
            raise

    async def _abort(self, cause: BaseException) -> None:
        """Abort the transaction because of `cause`, which is what the caller must hear of in any case."""
        try:
            await self._producer.abort_transaction()
        except KafkaError as error:
            if hasattr(cause, "add_note"):
                cause.add_note(f"the transaction was not aborted: {error}")
