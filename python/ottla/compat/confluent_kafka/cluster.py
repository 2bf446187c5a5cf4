"""What every client has: metadata of the cluster, credentials, and callbacks."""

from __future__ import annotations

import contextlib
import importlib
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import ottla
from ottla.compat.confluent_kafka.callbacks import SLICE, Callbacks, deadline_of
from ottla.compat.confluent_kafka.errors import failure, raised, to_kafka_error
from ottla.compat.confluent_kafka.oauth import Tokens
from ottla.compat.confluent_kafka.properties import Configuration
from ottla.compat.confluent_kafka.statistics import PartitionOffsets, Snapshot, to_json

_Result = TypeVar("_Result")
_FOREVER: Final = 86_400.0
# Seconds that a look for the brokers takes at most, and until the next one after it failed.
_LOOK: Final = 1.0
_BETWEEN_LOOKS: Final = 60.0


class Cluster:
    """The cluster of one client, which `list_topics` and `cluster_id` ask.

    Args:
        config: The client's configuration.
    """

    def __init__(self, config: Configuration) -> None:
        self.config = config
        self.tokens: Tokens | None = None
        oauth_cb = config.callbacks.get("oauth_cb")
        if oauth_cb is not None:
            self.tokens = Tokens(oauth_cb, config.own.get("sasl.oauthbearer.config", ""))
            config.properties["sasl_token"] = self.tokens.token
        self._login: ottla._ottla.SaslLogin | None = None
        user, password = (config.properties.get(name) for name in ("sasl.username", "sasl.password"))
        if user and password and self.tokens is None:
            self._login = ottla._ottla.SaslLogin(user, password)
            config.properties["sasl_token"] = self._login
        self.started = time.time()
        self.metrics: Callable[[], Any] = dict
        self.pending: Callable[[], int] = int
        self.offsets: Callable[[], Mapping[tuple[str, int], PartitionOffsets]] = dict
        self._nodes: dict[int, ottla.Node] = {}
        self._next_look = 0.0
        self.callbacks = Callbacks(config, _weakly(self._statistics, ""), _weakly(self.broker_id, -1))
        self._admin: ottla.Admin | None = None
        self._connecting: ottla._ottla.Operation | None = None
        self.is_connected = bool(config.properties.get("bootstrap.servers"))

    def properties(self) -> dict[str, Any]:
        """The properties for an ottla client, which needs `bootstrap.servers` among them."""
        return dict(self.config.properties)

    def admin_properties(self) -> dict[str, Any]:
        """The properties that every kind of client takes."""
        table = {row["name"]: row for row in ottla._ottla.properties()}
        return {
            name: value
            for name, value in self.config.properties.items()
            if name == "sasl_token" or "admin" in table[name]["roles"]
        }

    def admin(self) -> ottla.Admin:
        """The client that requests metadata, created by the first call."""
        if self._admin is None:
            self._admin = ottla.Admin(config=self.admin_properties())
            self.name(self._admin.metrics())
        return self._admin

    def connect(self, timeout: float) -> None:
        """Begin to connect, as librdkafka does with a new client, so that `error_cb` receives connection errors."""
        if self._connecting is None:
            arguments = {"include_authorized_operations": False, "include_fenced_brokers": False}
            self._connecting = self.admin()._core.call("describe_cluster", timeout, **arguments)
            self._connecting.poll(ottla._ottla.CompletionQueue(), 0)

    def name(self, metrics: Any) -> None:
        """Take the events of a client of ottla, which its metrics name."""
        for metric in metrics:
            client = dict(metric.tags).get("client-id")
            if client:
                self.callbacks.clients.add(client)
                return

    def call(self, what: str, timeout: float, call: Callable[[ottla.Admin, float], Any]) -> Any:
        """Make a call of the metadata client, within a time."""
        deadline = deadline_of(timeout)
        seconds = min(_FOREVER, max(0.0, deadline - time.monotonic()))
        if not self.is_connected:
            self.wait(deadline)
            raise failure("_TRANSPORT" if "metadata" in what else "_TIMED_OUT", f"{what}: no bootstrap.servers")
        with raised(at_deadline="_TRANSPORT" if "metadata" in what else "_TIMED_OUT"):
            return call(self.admin(), seconds)

    def wait(self, deadline: float) -> None:
        """Wait without a broker, serving callbacks."""
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(SLICE, left))
            if self.callbacks.serve():
                return

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        """Describe the cluster's brokers and topics, or one topic."""
        return self.call("Failed to get metadata", timeout, lambda admin, seconds: _metadata(admin, topic, seconds))

    def cluster_id(self, timeout: float) -> str | None:
        """The id of the cluster."""
        description = self.call(
            "Failed to retrieve cluster id", timeout, lambda admin, seconds: admin.describe_cluster(timeout=seconds)
        )
        found: str | None = description.cluster_id
        return found

    def set_sasl_credentials(self, username: Any, password: Any) -> None:
        """Authenticate with other credentials from now on. Connections that are authenticated stay."""
        for at, value in enumerate((username, password), 1):
            if not isinstance(value, str):
                shown = "None" if value is None else type(value).__name__
                raise TypeError(f"argument {at} must be str, not {shown}")
        # Other mechanisms, and clients without authentication, have no use for them.
        if self._login is not None:
            self._login.replace(username, password)

    def close(self) -> None:
        """Disconnect the metadata client and take no further events."""
        self.callbacks.close()
        if self.tokens is not None:
            self.tokens.close()
        if self._admin is not None:
            self._admin.close(1.0)
            self._admin = None

    def _statistics(self, name: str) -> str:
        """The JSON of `stats_cb`."""
        metrics = dict(self.metrics())
        # Only if a broker was reached, so that statistics do not wait for one that is down.
        if any(dict(metric.tags).get("node-id", "node--1").removeprefix("node-")[:1].isdigit() for metric in metrics):
            self._find_nodes()
        return to_json(
            Snapshot(
                name=name,
                client_id=self.config.properties.get("client.id", "rdkafka"),
                role=self.config.role,
                started=self.started,
                metrics=metrics,
                nodes=self._nodes,
                pending=self.pending(),
                offsets=self.offsets(),
            )
        )

    def broker_id(self, address: str) -> int:
        """The id of the broker at `host:port`; -1 if it is not known."""
        self._find_nodes()
        return next((node.id for node in self._nodes.values() if f"{node.host}:{node.port}" == address), -1)

    def _find_nodes(self) -> None:
        """Find the brokers once, for callbacks, which may wait only for a moment."""
        if self._nodes or not self.is_connected or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _BETWEEN_LOOKS
        with contextlib.suppress(ottla.errors.KafkaError):
            self._nodes = {node.id: node for node in self.admin().describe_cluster(timeout=_LOOK).nodes}


def _weakly(method: Callable[[str], _Result], otherwise: _Result) -> Callable[[str], _Result]:
    """Call a method while its object lives.

    Callbacks, which a logger refers to, must not keep a client that the program dropped: it disconnects at once.
    """
    found = weakref.WeakMethod(method)

    def call(argument: str) -> _Result:
        living = found()
        return otherwise if living is None else living(argument)

    return call


def _metadata(admin: ottla.Admin, topic: str | None, seconds: float) -> Any:
    kinds = importlib.import_module("confluent_kafka.admin")
    cluster = admin.describe_cluster(timeout=seconds)
    made = kinds.ClusterMetadata()
    made.cluster_id = cluster.cluster_id
    made.controller_id = -1 if cluster.controller is None else cluster.controller.id
    made.brokers, made.topics = {}, {}
    for node in cluster.nodes:
        broker = kinds.BrokerMetadata()
        broker.id, broker.host, broker.port = node.id, node.host, node.port
        made.brokers[node.id] = broker
        made.orig_broker_id, made.orig_broker_name = node.id, f"{node.host}:{node.port}/{node.id}"
    names = admin.list_topics(internal=True, timeout=seconds) if topic is None else [topic]
    for name in names:
        made.topics[name] = _topic(kinds, admin, name, seconds)
    return made


def _topic(kinds: Any, admin: ottla.Admin, name: str, seconds: float) -> Any:
    described = kinds.TopicMetadata()
    described.topic, described.partitions, described.error = name, {}, None
    try:
        infos = _partitions(admin.describe_topics(name, timeout=seconds), name)
    except ottla.errors.NotFoundError as error:
        described.error = to_kafka_error(error)
        return described
    for info in infos:
        partition = kinds.PartitionMetadata()
        partition.id, partition.leader = info.partition, info.leader
        partition.replicas, partition.isrs, partition.error = list(info.replicas), list(info.in_sync), None
        described.partitions[info.partition] = partition
    return described


def _partitions(described: Any, name: str) -> Any:
    found = described[name]
    return getattr(found, "partitions", found)
