"""`_AdminClientImpl`: what confluent-kafka's AdminClient calls, as far as `ottla.Admin` serves it."""

from __future__ import annotations

import functools
import importlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NoReturn, Self

import ottla
from ottla import errors
from ottla.compat.confluent_kafka.admin_types import NewPartitions, NewTopic
from ottla.compat.confluent_kafka.callbacks import deadline_of
from ottla.compat.confluent_kafka.cluster import Cluster
from ottla.compat.confluent_kafka.errors import KafkaError, failure, to_exception, to_kafka_error
from ottla.compat.confluent_kafka.properties import parse
from ottla.compat.confluent_kafka.topic_partition import Uuid

_CLOSED: Final = "AdminClient has been closed"
_TIMEOUT: Final = 60.0


class _AdminClientImpl:
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
            with _raised_at_creation():
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
        _check_options(False, timeout)
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
        _check(topics, NewTopic, "NewTopic")
        _check_options(validate_only, operation_timeout)
        wanted = [_new_topic(topic) for topic in topics]

        def call(admin: ottla.Admin, seconds: float) -> dict[str, KafkaError | None]:
            return _each(
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
        _check_options(False, operation_timeout)

        def call(admin: ottla.Admin, seconds: float) -> dict[str, KafkaError | None]:
            return _each(topics, lambda: admin.delete_topics(topics, timeout=seconds))

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
        _check_options(include_authorized_operations, request_timeout)
        for name in topic_names:
            if not isinstance(name, str):
                raise TypeError(f"a topic's name must be str, not {type(name).__name__}")
            if not name:
                raise ValueError("a topic's name must not be empty")
        call = functools.partial(_describe_topics, list(topic_names))
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
        call = functools.partial(_describe_cluster, include_authorized_operations)
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
        call = functools.partial(_list_groups, states_int, types_int)
        self.__run("list_consumer_groups", future, request_timeout, call)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Describe brokers and topics.

        Args:
            topic: A topic's name; without it, all topics.
            timeout: Seconds to wait at most; negative waits without end.

        Returns: A ClusterMetadata.
        """
        if self.__state is None:
            raise RuntimeError("Handle has been closed")
        return self.__state.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """Return the id of the cluster.

        Args:
            timeout: Seconds to wait at most; negative waits without end.
        """
        if self.__state is None:
            raise RuntimeError("Handle has been closed")
        return self.__state.cluster_id(timeout)

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
            _connect(state)
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
    "describe_consumer_groups": 1,
    "delete_consumer_groups": 1,
    "list_consumer_group_offsets": 1,
    "alter_consumer_group_offsets": 1,
    "describe_user_scram_credentials": 1,
    "alter_user_scram_credentials": 1,
    "list_offsets": 1,
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
        _checks(name, args, options)
        timeout = options.get("request_timeout")
        run = self._AdminClientImpl__run  # type: ignore[attr-defined]
        run(name, args[place], timeout, _not_implemented(name))

    call.__name__ = name
    call.__doc__ = f"Fail with _NOT_IMPLEMENTED: ottla.Admin has no {name}."
    return call


for _name, _place in UNSUPPORTED.items():
    setattr(_AdminClientImpl, _name, _unsupported(_name, _place))
_AdminClientImpl.__module__ = "confluent_kafka.cimpl"


def _checks(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """What the native module checks before it sends a request."""
    first = args[0]
    if name == "create_partitions":
        _check(first, NewPartitions, "NewPartitions")
    elif isinstance(first, list | tuple) and not first and name != "list_offsets":
        raise ValueError(f"{name}: expected a list that is not empty")
    if name.endswith("configs") and (not isinstance(first, list) or None in first):
        raise ValueError(f"{name}: expected a list of ConfigResource")
    if name == "describe_acls":
        kinds = importlib.import_module("confluent_kafka.admin")
        if type(first) is not kinds.AclBindingFilter:
            raise TypeError(f"expected AclBindingFilter, not {type(first).__name__}")
    if name == "incremental_alter_configs":
        _check_incremental(first)
    if name == "list_offsets" and any(not at.topic or at.partition < 0 for at in first):
        raise ValueError("list_offsets: expected a topic's name and a partition that is not negative")
    if name == "describe_consumer_groups" and not options.get("group_ids", args[1:2]):
        raise ValueError("group_ids: expected a list that is not empty")
    _check_options(options.get("validate_only", False), options.get("operation_timeout"))


def _check_incremental(resources: Any) -> None:
    operations = importlib.import_module("confluent_kafka.admin").AlterConfigOpType
    for resource in resources:
        entries = resource.incremental_configs
        if not entries:
            raise ValueError(f"incremental_alter_configs: {resource} has no incremental_configs")
        for entry in entries:
            if not isinstance(getattr(entry, "name", None), str) or not isinstance(
                entry.incremental_operation, operations
            ):
                raise TypeError("expected a str as name and an AlterConfigOpType as incremental_operation")
        names = [entry.name for entry in entries]
        if len(set(names)) < len(names):
            raise failure("_INVALID_ARG", f"incremental_alter_configs: {resource} names a property twice")


def _not_implemented(name: str) -> Callable[[ottla.Admin, float], NoReturn]:
    def call(_admin: ottla.Admin, _seconds: float) -> NoReturn:
        raise failure("_NOT_IMPLEMENTED", f"{name} is not supported by ottla")

    return call


def _check(values: Any, kind: type, shown: str) -> None:
    if not isinstance(values, list) or not values or not all(isinstance(value, kind) for value in values):
        raise TypeError(f"Expected non-empty list of {shown} objects")


def _check_options(flag: Any, timeout: Any) -> None:
    if not isinstance(flag, bool | int):
        raise TypeError(f"expected a bool, not {type(flag).__name__}")
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"expected seconds, not {type(timeout).__name__}")
    if timeout < 0:
        raise ValueError(f"a timeout must not be negative: {timeout}")


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


def _each(names: list[str], call: Callable[[], object]) -> dict[str, KafkaError | None]:
    """The result of a call about several topics, by topic."""
    try:
        call()
    except errors.KafkaError as error:
        if error.failures:
            failed = {str(name): to_kafka_error(each) for name, each in error.failures.items()}
            return {name: failed.get(name) for name in names}
        if error.code and len(names) == 1:
            return {names[0]: to_kafka_error(error)}
        raise
    return dict.fromkeys(names)


def _node(node: ottla.Node | None) -> Any:
    kinds = importlib.import_module("confluent_kafka")
    return None if node is None else kinds.Node(node.id, node.host, node.port, node.rack)


def _describe_topics(names: list[str], admin: ottla.Admin, seconds: float) -> list[Any]:
    kinds = importlib.import_module("confluent_kafka.admin")
    info = importlib.import_module("confluent_kafka").TopicPartitionInfo
    nodes = {node.id: _node(node) for node in admin.describe_cluster(timeout=seconds).nodes}
    described: list[Any] = []
    for name in names:
        try:
            found = admin.describe_topics(name, timeout=seconds)[name]
        except errors.KafkaError as error:
            if not error.code:
                raise
            described.append(to_kafka_error(error))
            continue
        partitions = [
            info(
                at.partition,
                nodes.get(at.leader),
                [nodes[node] for node in at.replicas if node in nodes],
                [nodes[node] for node in at.in_sync if node in nodes],
            )
            for at in found.partitions
        ]
        high, low = _halves(getattr(found, "topic_id", None))
        described.append(kinds.TopicDescription(name, Uuid(high, low), name.startswith("__"), partitions))
    return described


def _halves(topic_id: Any) -> tuple[int, int]:
    if topic_id is None:
        return 0, 0
    data = topic_id.bytes if hasattr(topic_id, "bytes") else bytes(16)
    return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:], "big", signed=True)


def _describe_cluster(operations: bool, admin: ottla.Admin, seconds: float) -> Any:
    kinds = importlib.import_module("confluent_kafka.admin")
    found = admin.describe_cluster(include_authorized_operations=operations, timeout=seconds)
    allowed = None
    if found.authorized_operations is not None:
        allowed = [kinds.AclOperation[name] for name in found.authorized_operations]
    nodes = [_node(node) for node in found.nodes]
    return kinds.DescribeClusterResult(_node(found.controller), nodes, found.cluster_id, allowed)


def _list_groups(states: Any, types: Any, admin: ottla.Admin, seconds: float) -> Any:
    kinds = importlib.import_module("confluent_kafka.admin")
    package = importlib.import_module("confluent_kafka")
    valid = []
    for group in admin.list_groups(timeout=seconds):
        if group.protocol_type not in {"consumer", ""}:
            continue
        state = _member(package.ConsumerGroupState, _snake(group.state))
        kind = _member(package.ConsumerGroupType, _snake(group.type))
        if (states and state.value not in states) or (types and kind.value not in types):
            continue
        valid.append(kinds.ConsumerGroupListing(group.group_id, not group.protocol_type, state, kind))
    return kinds.ListConsumerGroupsResult(valid, [])


def _snake(name: str | None) -> str:
    text = "".join(f"_{letter}" if letter.isupper() else letter for letter in name or "Unknown")
    return text.strip("_").upper()


def _member(kind: Any, name: str) -> Any:
    return kind[name] if name in kind.__members__ else kind.UNKNOWN


def _connect(state: Cluster) -> None:
    if not getattr(state, "connecting", None):
        state.connecting = state.admin()._core.describe_cluster(False, False, _TIMEOUT)  # type: ignore[attr-defined]
        state.connecting.poll(ottla._ottla.CompletionQueue(), 0)  # type: ignore[attr-defined]


class _raised_at_creation:  # noqa: N801 a context manager, used like a function
    """Raise what is wrong with a configuration as `KafkaException`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, errors.KafkaError):
            raise to_exception(error, at_deadline="_INVALID_ARG") from error
