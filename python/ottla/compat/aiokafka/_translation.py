"""From ottla's errors to aiokafka's."""

from __future__ import annotations

from typing import Final

from ottla import errors as native
from ottla.compat.aiokafka import errors

# By ottla's class, for errors without a code of Kafka. The first that fits counts.
_LOCAL: Final[tuple[tuple[type[native.KafkaError], type[errors.KafkaError]], ...]] = (
    (native.CommitFailedError, errors.CommitFailedError),
    (native.TooLargeError, errors.MessageSizeTooLargeError),
    (native.ConfigError, errors.KafkaConfigurationError),
    (native.ArgumentError, errors.IllegalStateError),
    (native.UnreachableError, errors.KafkaConnectionError),
    (native.AuthenticationError, errors.AuthenticationFailedError),
    (native.AuthorizationError, errors.TopicAuthorizationFailedError),
    (native.NotFoundError, errors.UnknownTopicOrPartitionError),
    (native.OffsetOutOfRangeError, errors.OffsetOutOfRangeError),
    (native.FencedError, errors.ProducerFenced),
    (native.UnsupportedError, errors.UnsupportedVersionError),
    (native.CorruptRecordError, errors.CorruptRecordException),
    (native.ProtocolError, errors.KafkaProtocolError),
    (native.UnknownOutcomeError, errors.KafkaTimeoutError),
    (native.KafkaTimeoutError, errors.KafkaTimeoutError),
)


def translate(error: BaseException) -> BaseException:
    """The exception that aiokafka raises where ottla raises `error`; any other exception is returned as it is."""
    if not isinstance(error, native.KafkaError):
        return error
    text = str(error)
    kind: type[errors.KafkaError] = errors.KafkaError
    if isinstance(error, native.FencedError):
        kind = errors.ProducerFenced
    elif isinstance(error, native.CommitFailedError):
        kind = errors.CommitFailedError
    elif error.code:
        kind = errors.for_code(error.code)
    else:
        kind = next((theirs for ours, theirs in _LOCAL if isinstance(error, ours)), errors.KafkaError)
    made = kind(text)
    if isinstance(made, errors.UnknownError) and error.code is not None:
        made.errno = error.code
    made.__cause__ = error
    return made


class translated:  # noqa: N801 a context manager, used like a function
    """Raise errors of ottla as aiokafka's."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, native.KafkaError):
            raise translate(error) from error
