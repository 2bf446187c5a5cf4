"""The state of a producer's transactions."""

from __future__ import annotations

import enum
from collections.abc import Callable

from ottla import errors as native
from ottla.compat.aiokafka._translation import translate
from ottla.compat.aiokafka.errors import IllegalOperation, ProducerFenced

__all__ = ["TransactionManager", "TransactionState"]


class TransactionState(enum.Enum):
    """Where a producer is between `start` and the end of a transaction."""

    UNINITIALIZED = 1
    READY = 2
    IN_TRANSACTION = 3
    COMMITTING_TRANSACTION = 4
    ABORTING_TRANSACTION = 5
    ABORTABLE_ERROR = 6
    FATAL_ERROR = 7


class TransactionManager:
    """Which calls the state of the transaction allows.

    Args:
        transactional_id: The id; None if the producer is only idempotent.
        on_fatal: Called with the error after which the producer can have no further transaction.

    Attributes:
        state: The state.
    """

    def __init__(self, transactional_id: str | None, on_fatal: Callable[[BaseException], None]) -> None:
        self.transactional_id = transactional_id
        self._on_fatal = on_fatal
        self.state = TransactionState.UNINITIALIZED
        self._failure: BaseException | None = None

    def is_in_transaction(self) -> bool:
        """Whether records can be sent."""
        return self.state is TransactionState.IN_TRANSACTION

    def is_fatal_error(self) -> bool:
        """Whether the producer can have no further transaction."""
        return self.state is TransactionState.FATAL_ERROR

    def require(self, *states: TransactionState, call: str) -> None:
        """Check that a call is allowed.

        Raises:
            IllegalOperation: It is not.
            KafkaError: The transaction, or the producer, has failed.
        """
        if self.state in states:
            return
        if self._failure is not None and self.state in {TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR}:
            raise self._failure
        raise IllegalOperation(f"{call} is not possible in state {self.state.name}")

    def fail(self, error: BaseException) -> BaseException:
        """Take note of an error, and return what is raised for it."""
        raised = translate(error)
        if isinstance(raised, ProducerFenced) or isinstance(error, native.FatalError):
            self.state, self._failure = TransactionState.FATAL_ERROR, raised
            self._on_fatal(raised)
        elif self.state is not TransactionState.FATAL_ERROR and isinstance(error, native.KafkaError):
            self.state, self._failure = TransactionState.ABORTABLE_ERROR, raised
        return raised
