"""`KafkaError`, `KafkaException` and the exceptions of share consumers, and how ottla's errors become them."""

from __future__ import annotations

from typing import Final

from ottla import errors
from ottla.compat.confluent_kafka.codes import NAMES, text_of

_MODULE: Final = "confluent_kafka.cimpl"
_CODES: Final = {name: code for code, name in NAMES.items()}


class KafkaError:
    """An error of Kafka or of the client: a code, a text and what to do about it.

    It compares and hashes as its code, so `error == KafkaError._PARTITION_EOF` works.

    Args:
        code: One of the codes below.
        reason: The text; without it, the text of the code.
        fatal: Whether the client cannot continue.
        retriable: Whether the same call may succeed later.
        txn_requires_abort: Whether the transaction has to be aborted.
    """

    def __init__(
        self,
        code: int,
        reason: str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self.__code = int(code)
        self.__reason = reason
        self.__flags = (bool(fatal), bool(retriable), bool(txn_requires_abort))

    def code(self) -> int:
        """Return the code.

        Returns: The number of the code.
        """
        return self.__code

    def name(self) -> str:
        """Return the name of the code.

        Returns: The name, such as `_TIMED_OUT`.
        """
        return NAMES.get(self.__code) or f"ERR_{self.__code}?"

    def str(self) -> str:
        """Return the text.

        Returns: The reason, or the text of the code.
        """
        return text_of(self.__code) if self.__reason is None else self.__reason

    def fatal(self) -> bool:
        """Return whether the client cannot continue.

        Returns: True for a fatal error.
        """
        return self.__flags[0]

    def retriable(self) -> bool:
        """Return whether the same call may succeed later.

        Returns: True for a temporary error.
        """
        return self.__flags[1]

    def txn_requires_abort(self) -> bool:
        """Return whether the transaction has to be aborted.

        Returns: True if `abort_transaction` is the only way to continue.
        """
        return self.__flags[2]

    def __repr__(self) -> _str:
        fatal = "FATAL," if self.__flags[0] else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self.__code},str="{self.str()}"}}'

    __str__ = __repr__

    def __hash__(self) -> int:
        return hash(self.__code)

    def __eq__(self, other: object) -> bool:
        code = _code_of(other)
        return code is not None and self.__code == code

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: KafkaError | int) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self.__code < code

    def __le__(self, other: KafkaError | int) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self.__code <= code

    def __gt__(self, other: KafkaError | int) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self.__code > code

    def __ge__(self, other: KafkaError | int) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self.__code >= code

    def __reduce__(self) -> tuple[type[KafkaError], tuple[int, _str, bool, bool, bool]]:
        return KafkaError, (self.__code, self.str(), *self.__flags)


_str = str


def _code_of(other: object) -> int | None:
    if isinstance(other, KafkaError):
        return other.code()
    return other if isinstance(other, int) else None


for _name, _code in _CODES.items():
    setattr(KafkaError, _name, _code)
KafkaError.__doc__ = f"{KafkaError.__doc__}\n    Codes: {', '.join(_CODES)}.\n    "


class KafkaException(Exception):
    """A call that failed: `args[0]` is the `KafkaError`."""


class IllegalStateException(RuntimeError):
    """A call that the state of a share consumer does not allow: it is closed, or not subscribed."""


class ConcurrentModificationException(RuntimeError):
    """A call of a share consumer while another thread uses it: a share consumer belongs to one thread at a time."""


for _class in (KafkaError, KafkaException, IllegalStateException, ConcurrentModificationException):
    _class.__module__ = _MODULE


def code(name: str) -> int:
    """The number of an error code."""
    return _CODES[name]


def failure(name: str, reason: str | None = None, *, retriable: bool = False) -> KafkaException:
    """Make the exception for a code by its name."""
    return KafkaException(KafkaError(_CODES[name], reason, retriable=retriable))


# Where Kafka and librdkafka name a code differently.
_RENAMED: Final = {
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
    "CORRUPT_MESSAGE": "INVALID_MSG",
    "INVALID_TOPIC_EXCEPTION": "TOPIC_EXCEPTION",
}
# By ottla's class, for errors without a code of Kafka. The first that fits counts.
_LOCAL: Final[tuple[tuple[type[errors.KafkaError], str], ...]] = (
    (errors.ConfigError, "_INVALID_ARG"),
    (errors.TooLargeError, "MSG_SIZE_TOO_LARGE"),
    (errors.ArgumentError, "_INVALID_ARG"),
    (errors.UnreachableError, "_TRANSPORT"),
    (errors.AuthenticationError, "_AUTHENTICATION"),
    (errors.AuthorizationError, "TOPIC_AUTHORIZATION_FAILED"),
    (errors.NotFoundError, "UNKNOWN_TOPIC_OR_PART"),
    (errors.LogTruncatedError, "_LOG_TRUNCATION"),
    (errors.OffsetOutOfRangeError, "_AUTO_OFFSET_RESET"),
    (errors.CommitFailedError, "ILLEGAL_GENERATION"),
    (errors.FencedError, "_FENCED"),
    (errors.FatalError, "_FATAL"),
    (errors.UnsupportedError, "_UNSUPPORTED_FEATURE"),
    (errors.CorruptRecordError, "_BAD_MSG"),
    (errors.ProtocolError, "_BAD_MSG"),
    (errors.ClosedError, "_DESTROY"),
    (errors.ForkedError, "_STATE"),
    (errors.TransactionAbortableError, "_INCONSISTENT"),
    (errors.KafkaTimeoutError, "_TIMED_OUT"),
    (errors.UnknownOutcomeError, "_TIMED_OUT"),
)


def to_kafka_error(error: BaseException, *, at_deadline: str | None = None) -> KafkaError:
    """Translate an error of ottla.

    Args:
        error: The error.
        at_deadline: The name of the code for a timeout or an unreachable cluster, where the call has its own.
    """
    if not isinstance(error, errors.KafkaError):
        return KafkaError(_CODES["_FAIL"], str(error))
    name = _RENAMED.get(error.name or "", error.name or "")
    number = _CODES.get(name) if error.code else None
    if number is None and error.code:
        number = error.code
    if number is None:
        unreachable = isinstance(error, errors.UnreachableError | TimeoutError)
        local = next((name for kind, name in _LOCAL if isinstance(error, kind)), "_FAIL")
        number = _CODES[at_deadline if unreachable and at_deadline else local]
    return KafkaError(
        number,
        str(error),
        fatal=isinstance(error, errors.FatalError | errors.FencedError),
        retriable=error.retriable,
        txn_requires_abort=isinstance(error, errors.TransactionAbortableError),
    )


def to_exception(error: BaseException, *, at_deadline: str | None = None) -> KafkaException:
    """The exception that a call raises for an error of ottla."""
    return KafkaException(to_kafka_error(error, at_deadline=at_deadline))


class raised:  # noqa: N801 a context manager, used like a function
    """Raise errors of ottla as `KafkaException`.

    Args:
        at_deadline: The code of an error that means that no time is left.
    """

    def __init__(self, *, at_deadline: str | None = None) -> None:
        self._at_deadline = at_deadline

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, errors.KafkaError):
            raise to_exception(error, at_deadline=self._at_deadline) from error
