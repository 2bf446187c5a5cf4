"""The exceptions of ottla: one tree, with a class for each action of a handler.

```text
KafkaError                      anything ottla raises about Kafka
├── ConfigError                 correct the options            (a ValueError too)
├── ArgumentError               correct the call               (a ValueError too)
│   └── EncodeError             a row that does not fit its schema
├── TooLargeError               shrink or skip the record      (a ValueError too)
├── UnreachableError            check the address, or wait     (a ConnectionError too)
│   └── NotKafkaError           something else listens there
├── KafkaTimeoutError           wait longer, or try again      (a TimeoutError too)
├── AuthenticationError         correct the credentials, or the certificates
├── AuthorizationError          get the permission (an ACL)
├── NotFoundError               create it, or correct the name
├── AlreadyExistsError          continue, or choose another name
├── OffsetOutOfRangeError       seek to an offset that exists
│   └── LogTruncatedError       seek to divergent_offset, or continue after the lost records
├── TransactionAbortableError   abort the transaction, and do its work again
├── CommitFailedError           poll to join the group again, and continue from its committed offsets
├── FencedError                 stop: another instance took over
├── FatalError                  close the client, fix the cause, and make a new one
├── UnknownOutcomeError         check whether the transaction was committed    (a TimeoutError too)
├── UnsupportedError            use a newer broker, or do without
├── BrokerError                 any other error code of a broker; look at `code` and `retriable`
├── ProtocolError               bytes that do not decode       (a ValueError too)
│   ├── CorruptRecordError      records that are damaged
│   └── DecodeError             a record that does not fit its schema
├── ClosedError                 make a new client              (a RuntimeError too)
└── ForkedError                 make the client in the child   (a RuntimeError too)
```

All of them carry the same attributes, and all of them can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = [
    "AlreadyExistsError",
    "ArgumentError",
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "ClosedError",
    "CommitFailedError",
    "ConfigError",
    "CorruptRecordError",
    "DecodeError",
    "EncodeError",
    "FatalError",
    "FencedError",
    "ForkedError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncatedError",
    "NotFoundError",
    "NotKafkaError",
    "OffsetOutOfRangeError",
    "ProtocolError",
    "TooLargeError",
    "TransactionAbortableError",
    "UnknownOutcomeError",
    "UnreachableError",
    "UnsupportedError",
]


def __dir__() -> list[str]:
    return __all__


class KafkaError(Exception):
    """The root of all errors about Kafka.

    Attributes:
        kind: The precise failure, as a word: `"config"`, `"timeout"`, `"broker"`, ...
        code: The broker's error code, if a broker returned one.
        name: Kafka's name of that code, such as `"NOT_LEADER_OR_FOLLOWER"`.
        retriable: Whether the same call may succeed later.
        broker: The broker concerned, as `host:port`.
        api: The API of the Kafka protocol that was called, such as `"Produce"`.
        topic: The topic concerned.
        partition: The partition concerned.
        cause: The cause alone; `str()` also shows the other attributes.
        attempts: How many attempts were made; 0 where the number has no meaning.
        written: For a record that was not delivered: False if it is certainly not in the log, None if that is unknown.
        may_be_done: Whether a broker may have carried out what failed, by this attempt or by an earlier one whose
            response was lost. If False, nothing was changed.
        failures: For a call about several topics, partitions, groups or the like: the errors of those that failed, by
            name, by `TopicPartition`, or by the object that the call is about.
        results: What such a call would have returned of the others.
    """

    # Attributes live in the instance's dictionary, which is what makes the default pickling keep them.
    kind: str = "error"
    code: int | None = None
    name: str | None = None
    retriable: bool = False
    broker: str | None = None
    api: str | None = None
    topic: str | None = None
    partition: int | None = None
    cause: str = ""
    attempts: int = 0
    written: bool | None = None
    may_be_done: bool = False
    failures: Mapping[Any, KafkaError] = MappingProxyType({})
    results: Mapping[Any, Any] = MappingProxyType({})


class ConfigError(KafkaError, ValueError):
    """A property has an unknown name, or a value that is not allowed."""

    kind = "config"


class ArgumentError(KafkaError, ValueError):
    """An argument of the call is invalid, such as a negative offset."""

    kind = "argument"


class TooLargeError(KafkaError, ValueError):
    """A record is larger than a limit of the client, the topic or the broker."""

    kind = "too_large"


class UnreachableError(KafkaError, ConnectionError):
    """No broker could be reached, or the connection broke."""

    kind = "unreachable"


class NotKafkaError(UnreachableError):
    """Something listens at the address, but not a Kafka broker that speaks the security.protocol chosen."""

    kind = "not_kafka"


class KafkaTimeoutError(KafkaError, TimeoutError):
    """No response came in time."""

    kind = "timeout"


class AuthenticationError(KafkaError):
    """The broker rejects the client's credentials or certificate, or the client rejects the broker's certificate."""

    kind = "authentication"


class AuthorizationError(KafkaError):
    """The broker does not allow this client to do this."""


class NotFoundError(KafkaError):
    """The topic, partition or group does not exist."""


class AlreadyExistsError(KafkaError):
    """The resource that the call creates exists already."""


class OffsetOutOfRangeError(KafkaError):
    """The partition does not hold this offset: it was deleted already, or was never written."""


class LogTruncatedError(OffsetOutOfRangeError):
    """The partition's log was truncated, as after an unclean election: records that were read are lost (KIP-320).

    `Consumer.poll` raises it if `auto.offset.reset` is `none`. Seek to `divergent_offset` to read the records that
    the leader has instead, or to `offset` to continue after the lost ones.

    Attributes:
        offset: The position of the consumer: the offset after the last record that was read; -1 from elsewhere.
        leader_epoch: The leader epoch of the record before `offset`; None if it is not known.
        divergent_offset: The first offset where the leader's log differs from what was read. None if the leader does
            not know `leader_epoch`.
        divergent_epoch: The leader epoch of the record before `divergent_offset`; None if it is not known.
    """

    kind = "truncated"
    offset: int = -1
    leader_epoch: int | None = None
    divergent_offset: int | None = None
    divergent_epoch: int | None = None


class TransactionAbortableError(KafkaError):
    """Nothing of the transaction takes effect: abort it if it is still open, and do its work again in another one.

    A record that was not delivered before its transaction was aborted has this error, too.
    """

    kind = "abortable"


class CommitFailedError(KafkaError):
    """Offsets were not committed: the group removed this consumer, or rebalances.

    Call `poll`: the consumer joins the group again, and reads on from the group's committed offsets. Records that were
    read since then may be read again, by this consumer or by another one.
    """

    kind = "commit_failed"


class FencedError(KafkaError):
    """A newer instance with the same identity took over, or the broker ended this one's: close it."""

    kind = "fenced"


class FatalError(KafkaError):
    """The client cannot continue: close it, fix the cause, and make a new one."""

    kind = "fatal"


class UnknownOutcomeError(KafkaError, TimeoutError):
    """Whether a transaction was committed, or an acknowledgement counts, is not known: no broker confirmed it.

    An attempt may have been carried out, even if `code` is the error of a retry.
    A producer settles its transaction before the next one begins, and logs how it ended. Records of a share group whose
    acknowledgement does not count are delivered again.
    """

    kind = "outcome_unknown"


class UnsupportedError(KafkaError):
    """The broker does not support a version of the protocol that the call needs."""

    kind = "unsupported"


class BrokerError(KafkaError):
    """The broker returned an error code that has no class of its own."""

    kind = "broker"


class ProtocolError(KafkaError, ValueError):
    """Bytes do not decode, values do not encode, or a peer broke the protocol."""

    kind = "protocol"


class CorruptRecordError(ProtocolError):
    """Records do not decode, or their checksum is wrong; or a record cannot be shown, as a header's key is not UTF-8.

    Attributes:
        offset: The first offset that a consumer could not read, where its partition stays; None from elsewhere.
        next_offset: The offset after the damaged batch, or after the record that cannot be shown: a seek there skips
            it, and nothing else. None if the end of the batch is unknown.
        data: The batch that holds the records, as the broker sent it; of bytes that are no batch, the first 64 KiB.
    """

    kind = "corrupt"
    offset: int | None = None
    next_offset: int | None = None
    data: bytes = b""


class DecodeError(ProtocolError):
    """A key or value does not decode to the columns of its schema.

    Attributes:
        offset: The record's offset.
        column: The place in the schema, such as `"order.items[3].price"`; empty if it is the value as a whole.
    """

    kind = "decode"
    offset: int = -1
    column: str = ""


class EncodeError(ArgumentError):
    """A row does not become a key or value of its schema.

    Attributes:
        row: Counted from 0 within what was encoded.
        column: Where in the columns, such as `"order.items[3].price"`; empty if it is the row as a whole.
    """

    kind = "encode"
    row: int = -1
    column: str = ""


class ClosedError(KafkaError, RuntimeError):
    """The client was closed."""

    kind = "closed"


class ForkedError(KafkaError, RuntimeError):
    """The object was made before this process was forked from its parent."""

    kind = "forked"


_BY_KIND: dict[str, type[KafkaError]] = {
    cls.kind: cls
    for cls in (
        ConfigError,
        ArgumentError,
        TooLargeError,
        UnreachableError,
        NotKafkaError,
        AuthenticationError,
        KafkaTimeoutError,
        UnsupportedError,
        BrokerError,
        ProtocolError,
        CorruptRecordError,
        DecodeError,
        EncodeError,
        ClosedError,
        ForkedError,
        TransactionAbortableError,
        CommitFailedError,
        LogTruncatedError,
        FencedError,
        FatalError,
        UnknownOutcomeError,
    )
}

# Handlers do the same for every code of these kinds.
_WHATEVER_CODE = frozenset({"abortable", "commit_failed", "fenced", "fatal", "outcome_unknown"})

_BY_CODE: dict[str, type[KafkaError]] = {
    "CLUSTER_AUTHORIZATION_FAILED": AuthorizationError,
    "CORRUPT_MESSAGE": CorruptRecordError,
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": AuthorizationError,
    "FENCED_INSTANCE_ID": FencedError,
    "GROUP_AUTHORIZATION_FAILED": AuthorizationError,
    "GROUP_ID_NOT_FOUND": NotFoundError,
    "ILLEGAL_SASL_STATE": AuthenticationError,
    "INVALID_PRODUCER_EPOCH": FencedError,
    "MESSAGE_TOO_LARGE": TooLargeError,
    "OFFSET_OUT_OF_RANGE": OffsetOutOfRangeError,
    "PRODUCER_FENCED": FencedError,
    "RECORD_LIST_TOO_LARGE": TooLargeError,
    "REQUEST_TIMED_OUT": KafkaTimeoutError,
    "SASL_AUTHENTICATION_FAILED": AuthenticationError,
    "TOPIC_ALREADY_EXISTS": AlreadyExistsError,
    "TOPIC_AUTHORIZATION_FAILED": AuthorizationError,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": AuthorizationError,
    "TRANSACTIONAL_ID_NOT_FOUND": NotFoundError,
    "UNKNOWN_TOPIC_ID": NotFoundError,
    "UNKNOWN_TOPIC_OR_PARTITION": NotFoundError,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": UnsupportedError,
    "UNSUPPORTED_SASL_MECHANISM": AuthenticationError,
    "UNSUPPORTED_VERSION": UnsupportedError,
}


def _from_native(text: str, facts: dict[str, object]) -> KafkaError:
    """Make the exception for an error of the Rust core, which calls this.

    Args:
        text: The text that `str()` of the exception returns.
        facts: Attributes of the exception, `kind` among them.

    Returns:
        An instance of the class of the broker's code or, without one, of the kind.
    """
    kind = str(facts["kind"])
    by_kind = _BY_KIND[kind]
    by_code = by_kind if kind in _WHATEVER_CODE else _BY_CODE.get(str(facts.get("name")), by_kind)
    error = by_code(text)
    error.__dict__.update(facts)
    return error
