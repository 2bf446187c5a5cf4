"""Exceptions by aiokafka's names. `for_code` finds the class of a broker's error code, which is its `errno`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final


class KafkaError(RuntimeError):
    """The root of most errors about Kafka.

    Attributes:
        retriable: Whether the same call may succeed later.
        invalid_metadata: Whether new metadata may help.
    """

    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False

    def __str__(self) -> str:
        text = super().__str__()
        return f"{type(self).__name__}: {text}" if text else type(self).__name__


class IllegalStateError(KafkaError):
    """A call that the state of the client does not allow, such as a seek in a partition that is not assigned."""


class IllegalArgumentError(KafkaError):
    """A call with an argument that can never work."""


class NoBrokersAvailable(KafkaError):
    """No broker is known."""

    retriable = True
    invalid_metadata = True


class NodeNotReadyError(KafkaError):
    """There is no connection to the broker yet."""

    retriable = True


class KafkaProtocolError(KafkaError):
    """A response that does not follow the protocol."""

    retriable = True


class CorrelationIdError(KafkaProtocolError):
    """A response to a request that was not sent."""

    retriable = True


class Cancelled(KafkaError):
    """The request was cancelled."""

    retriable = True


class TooManyInFlightRequests(KafkaError):
    """The connection has too many requests without a response."""

    retriable = True


class StaleMetadata(KafkaError):
    """The client's metadata is too old."""

    retriable = True
    invalid_metadata = True


class MetadataEmptyBrokerList(KafkaError):
    """The metadata lists no brokers."""

    retriable = True


class UnrecognizedBrokerVersion(KafkaError):
    """The broker's version could not be found out."""


class IncompatibleBrokerVersion(KafkaError):
    """The broker does not have a version of the API that the call needs."""


class CommitFailedError(KafkaError):
    """The group has given the partitions to other members, so nothing was committed."""

    def __init__(self, *args: object, **_kwargs: Any) -> None:
        text = (
            "offsets were not committed: the group has rebalanced without this member, and its partitions may belong "
            "to another one; poll more often, or raise max_poll_interval_ms or session_timeout_ms"
        )
        super().__init__(*(args or (text,)))


class AuthenticationMethodNotSupported(KafkaError):
    """The SASL mechanism is not supported."""


class AuthenticationFailedError(KafkaError):
    """The broker and the client do not accept each other."""

    retriable = False


class KafkaUnavailableError(KafkaError):
    """Kafka is not available."""


class KafkaTimeoutError(KafkaError):
    """The time was up before the response came."""


class KafkaConnectionError(KafkaError):
    """No broker can be reached, or the connection was lost."""

    retriable = True
    invalid_metadata = True


class UnsupportedCodecError(KafkaError):
    """Records are compressed with a codec that is not known."""


class KafkaConfigurationError(KafkaError):
    """An option has a value that is not allowed."""


class QuotaViolationError(KafkaError):
    """A quota was exceeded."""


class ConsumerStoppedError(Exception):
    """A call of a consumer that is stopped, or that was stopped during the call."""


class IllegalOperation(Exception):
    """A call that the options of the client exclude, such as a commit without `group_id`."""


class NoOffsetForPartitionError(KafkaError):
    """The group has no offset for a partition, and `auto_offset_reset` is `none`."""


class RecordTooLargeError(KafkaError):
    """A record does not fit into a fetch."""


class ProducerClosed(KafkaError):
    """A call of a producer that is stopped."""


class ProducerFenced(KafkaError):
    """A newer producer has the same `transactional_id`, or the transaction timed out."""

    def __init__(
        self,
        msg: str = "another producer has the same transactional_id, or the transaction took longer than "
        "transaction_timeout_ms",
    ) -> None:
        super().__init__(msg)


class BrokerResponseError(KafkaError):
    """A broker responded with an error code.

    Attributes:
        errno: The code.
        message: Kafka's name of the code.
        description: What it means.
    """

    errno: int
    message: str
    description: str = ""

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


class NoError(BrokerResponseError):
    """Kafka's error 0, NO_ERROR."""

    errno = 0
    message = "NO_ERROR"


class UnknownError(BrokerResponseError):
    """Kafka's error -1, UNKNOWN."""

    errno = -1
    message = "UNKNOWN"


class OffsetOutOfRangeError(BrokerResponseError):
    """Kafka's error 1, OFFSET_OUT_OF_RANGE."""

    errno = 1
    message = "OFFSET_OUT_OF_RANGE"


class CorruptRecordException(BrokerResponseError):
    """Kafka's error 2, CORRUPT_MESSAGE."""

    errno = 2
    message = "CORRUPT_MESSAGE"


class UnknownTopicOrPartitionError(BrokerResponseError):
    """Kafka's error 3, UNKNOWN_TOPIC_OR_PARTITION."""

    errno = 3
    message = "UNKNOWN_TOPIC_OR_PARTITION"
    retriable = True
    invalid_metadata = True


class InvalidFetchRequestError(BrokerResponseError):
    """Kafka's error 4, INVALID_FETCH_SIZE."""

    errno = 4
    message = "INVALID_FETCH_SIZE"


class LeaderNotAvailableError(BrokerResponseError):
    """Kafka's error 5, LEADER_NOT_AVAILABLE."""

    errno = 5
    message = "LEADER_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class NotLeaderForPartitionError(BrokerResponseError):
    """Kafka's error 6, NOT_LEADER_FOR_PARTITION."""

    errno = 6
    message = "NOT_LEADER_FOR_PARTITION"
    retriable = True
    invalid_metadata = True


class RequestTimedOutError(BrokerResponseError):
    """Kafka's error 7, REQUEST_TIMED_OUT."""

    errno = 7
    message = "REQUEST_TIMED_OUT"
    retriable = True


class BrokerNotAvailableError(BrokerResponseError):
    """Kafka's error 8, BROKER_NOT_AVAILABLE."""

    errno = 8
    message = "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailableError(BrokerResponseError):
    """Kafka's error 9, REPLICA_NOT_AVAILABLE."""

    errno = 9
    message = "REPLICA_NOT_AVAILABLE"


class MessageSizeTooLargeError(BrokerResponseError):
    """Kafka's error 10, MESSAGE_SIZE_TOO_LARGE."""

    errno = 10
    message = "MESSAGE_SIZE_TOO_LARGE"


class StaleControllerEpochError(BrokerResponseError):
    """Kafka's error 11, STALE_CONTROLLER_EPOCH."""

    errno = 11
    message = "STALE_CONTROLLER_EPOCH"


class OffsetMetadataTooLargeError(BrokerResponseError):
    """Kafka's error 12, OFFSET_METADATA_TOO_LARGE."""

    errno = 12
    message = "OFFSET_METADATA_TOO_LARGE"


class StaleLeaderEpochCodeError(BrokerResponseError):
    """Kafka's error 13, STALE_LEADER_EPOCH_CODE."""

    errno = 13
    message = "STALE_LEADER_EPOCH_CODE"


class GroupLoadInProgressError(BrokerResponseError):
    """Kafka's error 14, COORDINATOR_LOAD_IN_PROGRESS."""

    errno = 14
    message = "COORDINATOR_LOAD_IN_PROGRESS"
    retriable = True


class GroupCoordinatorNotAvailableError(BrokerResponseError):
    """Kafka's error 15, COORDINATOR_NOT_AVAILABLE."""

    errno = 15
    message = "COORDINATOR_NOT_AVAILABLE"
    retriable = True


class NotCoordinatorForGroupError(BrokerResponseError):
    """Kafka's error 16, NOT_COORDINATOR."""

    errno = 16
    message = "NOT_COORDINATOR"
    retriable = True


class InvalidTopicError(BrokerResponseError):
    """Kafka's error 17, INVALID_TOPIC."""

    errno = 17
    message = "INVALID_TOPIC"


class RecordListTooLargeError(BrokerResponseError):
    """Kafka's error 18, RECORD_LIST_TOO_LARGE."""

    errno = 18
    message = "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicasError(BrokerResponseError):
    """Kafka's error 19, NOT_ENOUGH_REPLICAS."""

    errno = 19
    message = "NOT_ENOUGH_REPLICAS"
    retriable = True


class NotEnoughReplicasAfterAppendError(BrokerResponseError):
    """Kafka's error 20, NOT_ENOUGH_REPLICAS_AFTER_APPEND."""

    errno = 20
    message = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    retriable = True


class InvalidRequiredAcksError(BrokerResponseError):
    """Kafka's error 21, INVALID_REQUIRED_ACKS."""

    errno = 21
    message = "INVALID_REQUIRED_ACKS"


class IllegalGenerationError(BrokerResponseError):
    """Kafka's error 22, ILLEGAL_GENERATION."""

    errno = 22
    message = "ILLEGAL_GENERATION"


class InconsistentGroupProtocolError(BrokerResponseError):
    """Kafka's error 23, INCONSISTENT_GROUP_PROTOCOL."""

    errno = 23
    message = "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupIdError(BrokerResponseError):
    """Kafka's error 24, INVALID_GROUP_ID."""

    errno = 24
    message = "INVALID_GROUP_ID"


class UnknownMemberIdError(BrokerResponseError):
    """Kafka's error 25, UNKNOWN_MEMBER_ID."""

    errno = 25
    message = "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeoutError(BrokerResponseError):
    """Kafka's error 26, INVALID_SESSION_TIMEOUT."""

    errno = 26
    message = "INVALID_SESSION_TIMEOUT"


class RebalanceInProgressError(BrokerResponseError):
    """Kafka's error 27, REBALANCE_IN_PROGRESS."""

    errno = 27
    message = "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSizeError(BrokerResponseError):
    """Kafka's error 28, INVALID_COMMIT_OFFSET_SIZE."""

    errno = 28
    message = "INVALID_COMMIT_OFFSET_SIZE"


class TopicAuthorizationFailedError(BrokerResponseError):
    """Kafka's error 29, TOPIC_AUTHORIZATION_FAILED."""

    errno = 29
    message = "TOPIC_AUTHORIZATION_FAILED"


class GroupAuthorizationFailedError(BrokerResponseError):
    """Kafka's error 30, GROUP_AUTHORIZATION_FAILED."""

    errno = 30
    message = "GROUP_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailedError(BrokerResponseError):
    """Kafka's error 31, CLUSTER_AUTHORIZATION_FAILED."""

    errno = 31
    message = "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestampError(BrokerResponseError):
    """Kafka's error 32, INVALID_TIMESTAMP."""

    errno = 32
    message = "INVALID_TIMESTAMP"


class UnsupportedSaslMechanismError(BrokerResponseError):
    """Kafka's error 33, UNSUPPORTED_SASL_MECHANISM."""

    errno = 33
    message = "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslStateError(BrokerResponseError):
    """Kafka's error 34, ILLEGAL_SASL_STATE."""

    errno = 34
    message = "ILLEGAL_SASL_STATE"


class UnsupportedVersionError(BrokerResponseError):
    """Kafka's error 35, UNSUPPORTED_VERSION."""

    errno = 35
    message = "UNSUPPORTED_VERSION"


class TopicAlreadyExistsError(BrokerResponseError):
    """Kafka's error 36, TOPIC_ALREADY_EXISTS."""

    errno = 36
    message = "TOPIC_ALREADY_EXISTS"


class InvalidPartitionsError(BrokerResponseError):
    """Kafka's error 37, INVALID_PARTITIONS."""

    errno = 37
    message = "INVALID_PARTITIONS"


class InvalidReplicationFactorError(BrokerResponseError):
    """Kafka's error 38, INVALID_REPLICATION_FACTOR."""

    errno = 38
    message = "INVALID_REPLICATION_FACTOR"


class InvalidReplicationAssignmentError(BrokerResponseError):
    """Kafka's error 39, INVALID_REPLICATION_ASSIGNMENT."""

    errno = 39
    message = "INVALID_REPLICATION_ASSIGNMENT"


class InvalidConfigurationError(BrokerResponseError):
    """Kafka's error 40, INVALID_CONFIG."""

    errno = 40
    message = "INVALID_CONFIG"


class NotControllerError(BrokerResponseError):
    """Kafka's error 41, NOT_CONTROLLER."""

    errno = 41
    message = "NOT_CONTROLLER"
    retriable = True


class InvalidRequestError(BrokerResponseError):
    """Kafka's error 42, INVALID_REQUEST."""

    errno = 42
    message = "INVALID_REQUEST"


class UnsupportedForMessageFormatError(BrokerResponseError):
    """Kafka's error 43, UNSUPPORTED_FOR_MESSAGE_FORMAT."""

    errno = 43
    message = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolationError(BrokerResponseError):
    """Kafka's error 44, POLICY_VIOLATION."""

    errno = 44
    message = "POLICY_VIOLATION"


class OutOfOrderSequenceNumber(BrokerResponseError):
    """Kafka's error 45, OUT_OF_ORDER_SEQUENCE_NUMBER."""

    errno = 45
    message = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumber(BrokerResponseError):
    """Kafka's error 46, DUPLICATE_SEQUENCE_NUMBER."""

    errno = 46
    message = "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpoch(BrokerResponseError):
    """Kafka's error 47, INVALID_PRODUCER_EPOCH."""

    errno = 47
    message = "INVALID_PRODUCER_EPOCH"


class InvalidTxnState(BrokerResponseError):
    """Kafka's error 48, INVALID_TXN_STATE."""

    errno = 48
    message = "INVALID_TXN_STATE"


class InvalidProducerIdMapping(BrokerResponseError):
    """Kafka's error 49, INVALID_PRODUCER_ID_MAPPING."""

    errno = 49
    message = "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeout(BrokerResponseError):
    """Kafka's error 50, INVALID_TRANSACTION_TIMEOUT."""

    errno = 50
    message = "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactions(BrokerResponseError):
    """Kafka's error 51, CONCURRENT_TRANSACTIONS."""

    errno = 51
    message = "CONCURRENT_TRANSACTIONS"


class TransactionCoordinatorFenced(BrokerResponseError):
    """Kafka's error 52, TRANSACTION_COORDINATOR_FENCED."""

    errno = 52
    message = "TRANSACTION_COORDINATOR_FENCED"


class TransactionalIdAuthorizationFailed(BrokerResponseError):
    """Kafka's error 53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

    errno = 53
    message = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class SecurityDisabled(BrokerResponseError):
    """Kafka's error 54, SECURITY_DISABLED."""

    errno = 54
    message = "SECURITY_DISABLED"


class OperationNotAttempted(BrokerResponseError):
    """Kafka's error 55, OPERATION_NOT_ATTEMPTED."""

    errno = 55
    message = "OPERATION_NOT_ATTEMPTED"


class KafkaStorageError(BrokerResponseError):
    """Kafka's error 56, KAFKA_STORAGE_ERROR."""

    errno = 56
    message = "KAFKA_STORAGE_ERROR"
    retriable = True
    invalid_metadata = True


class LogDirNotFound(BrokerResponseError):
    """Kafka's error 57, LOG_DIR_NOT_FOUND."""

    errno = 57
    message = "LOG_DIR_NOT_FOUND"


class SaslAuthenticationFailed(BrokerResponseError):
    """Kafka's error 58, SASL_AUTHENTICATION_FAILED."""

    errno = 58
    message = "SASL_AUTHENTICATION_FAILED"


class UnknownProducerId(BrokerResponseError):
    """Kafka's error 59, UNKNOWN_PRODUCER_ID."""

    errno = 59
    message = "UNKNOWN_PRODUCER_ID"


class ReassignmentInProgress(BrokerResponseError):
    """Kafka's error 60, REASSIGNMENT_IN_PROGRESS."""

    errno = 60
    message = "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabled(BrokerResponseError):
    """Kafka's error 61, DELEGATION_TOKEN_AUTH_DISABLED."""

    errno = 61
    message = "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFound(BrokerResponseError):
    """Kafka's error 62, DELEGATION_TOKEN_NOT_FOUND."""

    errno = 62
    message = "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatch(BrokerResponseError):
    """Kafka's error 63, DELEGATION_TOKEN_OWNER_MISMATCH."""

    errno = 63
    message = "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowed(BrokerResponseError):
    """Kafka's error 64, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

    errno = 64
    message = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailed(BrokerResponseError):
    """Kafka's error 65, DELEGATION_TOKEN_AUTHORIZATION_FAILED."""

    errno = 65
    message = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpired(BrokerResponseError):
    """Kafka's error 66, DELEGATION_TOKEN_EXPIRED."""

    errno = 66
    message = "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalType(BrokerResponseError):
    """Kafka's error 67, INVALID_PRINCIPAL_TYPE."""

    errno = 67
    message = "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroup(BrokerResponseError):
    """Kafka's error 68, NON_EMPTY_GROUP."""

    errno = 68
    message = "NON_EMPTY_GROUP"


class GroupIdNotFound(BrokerResponseError):
    """Kafka's error 69, GROUP_ID_NOT_FOUND."""

    errno = 69
    message = "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFound(BrokerResponseError):
    """Kafka's error 70, FETCH_SESSION_ID_NOT_FOUND."""

    errno = 70
    message = "FETCH_SESSION_ID_NOT_FOUND"


class InvalidFetchSessionEpoch(BrokerResponseError):
    """Kafka's error 71, INVALID_FETCH_SESSION_EPOCH."""

    errno = 71
    message = "INVALID_FETCH_SESSION_EPOCH"


class ListenerNotFound(BrokerResponseError):
    """Kafka's error 72, LISTENER_NOT_FOUND."""

    errno = 72
    message = "LISTENER_NOT_FOUND"


class MemberIdRequired(BrokerResponseError):
    """Kafka's error 79, MEMBER_ID_REQUIRED."""

    errno = 79
    message = "MEMBER_ID_REQUIRED"


InvalidMessageError = CorruptRecordException
CoordinatorLoadInProgressError = GroupLoadInProgressError
CoordinatorNotAvailableError = GroupCoordinatorNotAvailableError
NotCoordinatorError = NotCoordinatorForGroupError


def _subclasses(of: type[BrokerResponseError]) -> Iterator[type[BrokerResponseError]]:
    for each in of.__subclasses__():
        yield each
        yield from _subclasses(each)


kafka_errors: Final[dict[int, type[BrokerResponseError]]] = {
    each.errno: each for each in _subclasses(BrokerResponseError)
}


def for_code(error_code: int) -> type[BrokerResponseError]:
    """The class for an error code of a broker; `UnknownError` if it has none."""
    return kafka_errors.get(error_code, UnknownError)
