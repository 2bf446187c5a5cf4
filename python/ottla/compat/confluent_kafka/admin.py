"""`_AdminClientImpl`: what confluent-kafka's AdminClient calls, as far as `ottla.Admin` serves it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NoReturn, Self

import ottla
from ottla import errors
from ottla.compat.confluent_kafka import admin_calls
from ottla.compat.confluent_kafka.admin_checks import check_arguments, check_list, check_options
from ottla.compat.confluent_kafka.admin_types import NewTopic
from ottla.compat.confluent_kafka.callbacks import deadline_of
from ottla.compat.confluent_kafka.cluster import Cluster
from ottla.compat.confluent_kafka.errors import KafkaError, failure, raised, to_exception
from ottla.compat.confluent_kafka.handle import Handle
from ottla.compat.confluent_kafka.properties import parse

_CLOSED: Final = "AdminClient has been closed"
_TIMEOUT: Final = 60.0


class _AdminClientImpl(Handle):
    """The native half of AdminClient: each call takes a future and sets its result from a thread.

    Args:
        config: A dict of librdkafka's properties, and callbacks.
    """

    __state: Cluster | None

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Make a client that is closed until its __init__."""
        made = super().__new__(cls)
        made.__state = None
        return made

    def __init__(self, *args: Any, **config: Any) -> None:
        self.__state = Cluster(parse("admin", args, config))
        if self.__state.is_connected:
            with raised(at_deadline="_INVALID_ARG"):
                self.__state.admin()

    def __open(self) -> Cluster:
        """Return the state.

        Raises:
            RuntimeError: The client is closed.
        """
        if self.__state is None:
            raise RuntimeError(_CLOSED)
        return self.__state

    def __run(self, name: str, future: Future[Any], timeout: Any, call: Callable[[ottla.Admin, float], Any]) -> None:
        """Make a call on a thread.

        Args:
            name: The call's name.
            future: What gets the result.
            timeout: The call's request_timeout in seconds.
            call: The call of ottla.
        """
        state = self.__open()
        check_options(False, timeout)
        default = int(state.config.properties.get("request.timeout.ms", 60_000)) / 1000
        seconds = default if timeout is None else float(timeout)
        threading.Thread(
            target=_serve, args=(name, state, future, seconds, call), name="ottla-admin", daemon=True
        ).start()

    def create_topics(
        self,
        topics: Any,
        future: Any,
        validate_only: bool = False,
        request_timeout: float | None = None,
        operation_timeout: float | None = None,
    ) -> None:
        """Create topics.

        Args:
            topics: A list of NewTopic.
            future: Gets a dict of None or KafkaError by topic.
            validate_only: Whether to check only.
            request_timeout: Seconds to wait at most.
            operation_timeout: Seconds for the brokers; ottla uses request_timeout.
        """
        self.__open()
        check_list(topics, NewTopic, "NewTopic")
        check_options(validate_only, operation_timeout)
        wanted = [_new_topic(topic) for topic in topics]

        def call(admin: ottla.Admin, seconds: float) -> dict[str, KafkaError | None]:
            return admin_calls.each(
                [topic.name for topic in wanted],
                lambda: admin.create_topics(wanted, validate_only=validate_only, timeout=seconds),
            )

        has_assignment = any(topic.replica_assignment for topic in topics)
        refused = _not_implemented("create_topics with replica_assignment")
        self.__run("create_topics", future, request_timeout, refused if has_assignment else call)

    def delete_topics(
        self, topics: Any, future: Any, request_timeout: float | None = None, operation_timeout: float | None = None
    ) -> None:
        """Delete topics.

        Args:
            topics: A list of names.
            future: Gets a dict of None or KafkaError by topic.
            request_timeout: Seconds to wait at most.
            operation_timeout: Seconds for the brokers; ottla uses request_timeout.
        """
        self.__open()
        if not isinstance(topics, list) or not topics:
            raise ValueError("Expected non-empty list of topic strings")
        if not all(isinstance(topic, str) for topic in topics):
            raise ValueError("Expected topic names to be str")
        check_options(False, operation_timeout)

        def call(admin: ottla.Admin, seconds: float) -> dict[str, KafkaError | None]:
            return admin_calls.each(topics, lambda: admin.delete_topics(topics, timeout=seconds))

        self.__run("delete_topics", future, request_timeout, call)

    def describe_topics(
        self,
        topic_names: Any,
        future: Any,
        request_timeout: float | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        """Describe topics.

        Args:
            topic_names: A list of names.
            future: Gets a list of TopicDescription or KafkaError.
            request_timeout: Seconds to wait at most.
            include_authorized_operations: Not supported by ottla.
        """
        self.__open()
        check_options(include_authorized_operations, request_timeout)
        for name in topic_names:
            if not isinstance(name, str):
                raise TypeError(f"a topic's name must be str, not {type(name).__name__}")
            if not name:
                raise ValueError("a topic's name must not be empty")
        call = functools.partial(admin_calls.describe_topics, list(topic_names))
        refused = _not_implemented("describe_topics with include_authorized_operations")
        self.__run("describe_topics", future, request_timeout, refused if include_authorized_operations else call)

    def describe_cluster(
        self, future: Any, request_timeout: float | None = None, include_authorized_operations: bool = False
    ) -> None:
        """Describe the cluster.

        Args:
            future: Gets a DescribeClusterResult.
            request_timeout: Seconds to wait at most.
            include_authorized_operations: Whether to return what the client is authorized for.
        """
        self.__open()
        call = functools.partial(admin_calls.describe_cluster, include_authorized_operations)
        self.__run("describe_cluster", future, request_timeout, call)

    def list_consumer_groups(
        self, future: Any, states_int: Any = None, types_int: Any = None, request_timeout: float | None = None
    ) -> None:
        """List the groups of consumers.

        Args:
            future: Gets a ListConsumerGroupsResult.
            states_int: Numbers of states to list.
            types_int: Numbers of types to list.
            request_timeout: Seconds to wait at most.
        """
        self.__open()
        call = functools.partial(admin_calls.list_groups, states_int, types_int)
        self.__run("list_consumer_groups", future, request_timeout, call)

    def describe_consumer_groups(
        self,
        group_ids: Any,
        future: Any,
        request_timeout: float | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        """Describe groups of consumers.

        Args:
            group_ids: A list of groups.
            future: Gets a list of ConsumerGroupDescription or KafkaError.
            request_timeout: Seconds to wait at most.
            include_authorized_operations: Not supported by ottla.
        """
        self.__open()
        check_arguments("describe_consumer_groups", (group_ids, future), {})
        call = functools.partial(admin_calls.describe_groups, list(group_ids))
        refused = _not_implemented("describe_consumer_groups with include_authorized_operations")
        run = refused if include_authorized_operations else call
        self.__run("describe_consumer_groups", future, request_timeout, run)

    def list_offsets(
        self,
        topic_partitions: Any,
        future: Any,
        isolation_level_value: int | None = None,
        request_timeout: float | None = None,
    ) -> None:
        """Find offsets of partitions.

        Args:
            topic_partitions: A list of TopicPartition with OffsetSpec's numbers, or times.
            future: Gets a dict of ListOffsetsResultInfo or KafkaError by partition.
            isolation_level_value: The number of an IsolationLevel.
            request_timeout: Seconds to wait at most.
        """
        state = self.__open()
        check_arguments("list_offsets", (topic_partitions, future), {})
        call = functools.partial(admin_calls.list_offsets, state, topic_partitions, isolation_level_value)
        self.__run("list_offsets", future, request_timeout, call)

    def list_consumer_group_offsets(
        self, request: Any, future: Any, require_stable: bool = False, request_timeout: float | None = None
    ) -> None:
        """Find what a group committed.

        Args:
            request: A list of one ConsumerGroupTopicPartitions.
            future: Gets a list of ConsumerGroupTopicPartitions.
            require_stable: ottla always waits for offsets of open transactions.
            request_timeout: Seconds to wait at most.
        """
        state = self.__open()
        check_options(require_stable, request_timeout)
        call = functools.partial(admin_calls.list_group_offsets, state, request)
        self.__run("list_consumer_group_offsets", future, request_timeout, call)

    def alter_consumer_group_offsets(self, requests: Any, future: Any, request_timeout: float | None = None) -> None:
        """Commit offsets for a group without members.

        Args:
            requests: A list of one ConsumerGroupTopicPartitions.
            future: Gets a list of ConsumerGroupTopicPartitions.
            request_timeout: Seconds to wait at most.
        """
        state = self.__open()
        call = functools.partial(admin_calls.alter_group_offsets, state, requests)
        self.__run("alter_consumer_group_offsets", future, request_timeout, call)

    def _ottla_cluster(self) -> Cluster | None:
        """Return the cluster: None if the client is closed."""
        return self.__state

    def list_groups(self, _group: str | None = None, timeout: float = -1) -> Any:
        """List groups by librdkafka's deprecated call; use list_consumer_groups.

        Raises:
            KafkaException: _NOT_IMPLEMENTED; without brokers _TRANSPORT.
        """
        if self.__state is None:
            raise RuntimeError("Handle has been closed")
        if not self.__state.is_connected:
            self.__state.wait(deadline_of(timeout))
            raise failure("_TRANSPORT", "Failed to list groups: no bootstrap.servers")
        raise failure("_NOT_IMPLEMENTED", "list_groups is not supported by ottla: use list_consumer_groups")

    def poll(self, timeout: float | None = -1) -> int:
        """Call error_cb, stats_cb and throttle_cb.

        Args:
            timeout: Seconds to wait for the first event; negative or None waits without end.

        Returns: The number of callbacks that were called.
        """
        state = self.__open()
        deadline = deadline_of(-1 if timeout is None else timeout)
        if state.is_connected and "error_cb" in state.config.callbacks:
            # librdkafka connects at once, and error_cb reports that it cannot.
            state.connect(_TIMEOUT)
        served = state.callbacks.serve()
        if not served:
            state.wait(deadline)
        return served

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set the credentials, before the first connection.

        Args:
            username: The user's name.
            password: The password.
        """
        state = self.__open()
        state.set_sasl_credentials(username, password, lambda: not state.is_connected)

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        state, self.__state = self.__state, None
        if state is not None:
            state.close()


# The calls that ottla.Admin does not have, with the place of the future among their arguments.
UNSUPPORTED: Final = {
    "create_partitions": 1,
    "describe_configs": 1,
    "alter_configs": 1,
    "incremental_alter_configs": 1,
    "create_acls": 1,
    "describe_acls": 1,
    "delete_acls": 1,
    "delete_consumer_groups": 1,
    "describe_user_scram_credentials": 1,
    "alter_user_scram_credentials": 1,
    "delete_records": 1,
    "elect_leaders": 2,
}
_OPTIONS: Final = {
    "request_timeout",
    "operation_timeout",
    "validate_only",
    "broker",
    "require_stable",
    "include_authorized_operations",
    "isolation_level_value",
    "group_ids",
}


def _unsupported(name: str, place: int) -> Callable[..., None]:
    def call(self: _AdminClientImpl, *args: Any, **options: Any) -> None:
        if self._AdminClientImpl__state is None:  # type: ignore[attr-defined]
            raise RuntimeError(_CLOSED)
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise TypeError(f"{name}() got an unexpected keyword argument {min(unknown)!r}")
        if place >= len(args):
            raise TypeError(f"{name}() misses arguments")
        check_arguments(name, args, options)
        timeout = options.get("request_timeout")
        run = self._AdminClientImpl__run  # type: ignore[attr-defined]
        run(name, args[place], timeout, _not_implemented(name))

    call.__name__ = name
    call.__doc__ = f"Fail with _NOT_IMPLEMENTED: ottla.Admin has no {name}."
    return call


for _name, _place in UNSUPPORTED.items():
    setattr(_AdminClientImpl, _name, _unsupported(_name, _place))
_AdminClientImpl.__module__ = "confluent_kafka.cimpl"


def _not_implemented(name: str) -> Callable[[ottla.Admin, float], NoReturn]:
    def call(_admin: ottla.Admin, _seconds: float) -> NoReturn:
        raise failure("_NOT_IMPLEMENTED", f"{name} is not supported by ottla")

    return call


def _new_topic(topic: NewTopic) -> ottla.NewTopic:
    if topic.config is not None and not isinstance(topic.config, dict):
        raise TypeError("NewTopic.config must be a dict")
    if topic.replica_assignment and topic.replication_factor != -1:
        raise ValueError("replication_factor and replica_assignment are mutually exclusive")
    config = None if topic.config is None else {name: str(value) for name, value in topic.config.items()}
    return ottla.NewTopic(topic.topic, topic.num_partitions, topic.replication_factor, config)


def _serve(
    name: str, state: Cluster, future: Future[Any], seconds: float, call: Callable[[ottla.Admin, float], Any]
) -> None:
    """Make a call, and set the future: librdkafka sets it from a thread of its own, too."""
    try:
        result = call(state.admin(), seconds) if state.is_connected else _time_out(name, seconds)
    except errors.KafkaError as error:
        future.set_exception(to_exception(error, at_deadline="_TIMED_OUT"))
    except Exception as error:  # noqa: BLE001 the future has it
        future.set_exception(error)
    else:
        future.set_result(result)


def _time_out(name: str, seconds: float) -> NoReturn:
    """A call of a client that has no brokers."""
    time.sleep(min(seconds, _TIMEOUT))
    raise failure("_TIMED_OUT", f"Failed while waiting for the controller: {name}: Local: Timed out")
