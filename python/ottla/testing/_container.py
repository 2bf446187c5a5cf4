"""The embedded broker with the interface of testcontainers' KafkaContainer."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Protocol, Self

from ottla._hints import ConfigValue
from ottla.errors import ArgumentError, ClosedError

_IMAGE = "confluentinc/cp-kafka"
# Variables of the image that describe its processes and listeners; the embedded broker has its own.
_LAYOUT = re.compile(
    r"KAFKA_(BROKER_ID|NODE_ID|PROCESS_ROLES|(ADVERTISED_)?LISTENERS|LISTENER_SECURITY_PROTOCOL_MAP"
    r"|INTER_BROKER_LISTENER_NAME|CONTROLLER_.*|ZOOKEEPER_.*|HEAP_OPTS|JMX_.*|LOG4J_.*|LOG_DIRS"
    r"|OFFSETS_TOPIC_.*|TRANSACTION_STATE_LOG_.*|LOG_FLUSH_INTERVAL_MESSAGES|GROUP_INITIAL_REBALANCE_DELAY_MS)"
    r"|CLUSTER_ID|TZ"
)


class Running(Protocol):
    """A broker."""

    @property
    def bootstrap_servers(self) -> str:
        """Its address."""

    def start(self) -> Self:
        """Start it."""

    def stop(self) -> None:
        """Stop it."""


class Container(ABC):
    """The methods of testcontainers' KafkaContainer, on a broker that a subclass makes."""

    def __init__(self, image: str = _IMAGE, port: int = 9093, **options: Any) -> None:  # noqa: ARG002 - see above
        self.image, self.port = image, port
        self.env: dict[str, str] = {}
        self._host_port = 0
        self._broker: Running | None = None

    @abstractmethod
    def _made(self, port: int, config: dict[str, ConfigValue]) -> Running:
        """A broker that has not started."""

    def with_env(self, key: str, value: str) -> Self:
        """Set a variable of the container.

        Returns:
            The container itself.
        """
        self.env[key] = value
        return self

    def with_envs(self, **variables: str) -> Self:
        """Set several variables of the container.

        Returns:
            The container itself.
        """
        self.env |= variables
        return self

    def with_bind_ports(self, container: int | str, host: int | str | None = None) -> Self:
        """Listen on a port of this machine.

        Args:
            container: The broker's port, `port`, which may end with `/tcp`.
            host: The port of this machine; None takes a free one.

        Returns:
            The container itself.

        Raises:
            ArgumentError: `container` is not the broker's port.
        """
        if str(container).partition("/")[0] != str(self.port):
            raise ArgumentError(f"the broker listens on one port, {self.port}, not on {container}")
        self._host_port = int(host or 0)
        return self

    def with_kraft(self) -> Self:
        """Do nothing: the embedded broker has neither ZooKeeper nor KRaft.

        Returns:
            The container itself.
        """
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:  # noqa: ARG002 - testcontainers' name
        """Do nothing: the embedded broker has its own cluster id.

        Returns:
            The container itself.
        """
        return self

    def with_name(self, name: str) -> Self:  # noqa: ARG002 - testcontainers' name
        """Do nothing: there is no container.

        Returns:
            The container itself.
        """
        return self

    def with_network(self, network: Any) -> Self:  # noqa: ARG002 - testcontainers' name
        """Do nothing: the broker listens on the loopback address.

        Returns:
            The container itself.
        """
        return self

    def with_network_aliases(self, *aliases: str) -> Self:  # noqa: ARG002 - testcontainers' name
        """Do nothing: the broker listens on the loopback address.

        Returns:
            The container itself.
        """
        return self

    def with_exposed_ports(self, *ports: int | str) -> Self:  # noqa: ARG002 - testcontainers' name
        """Do nothing: the port is always reachable.

        Returns:
            The container itself.
        """
        return self

    def with_kwargs(self, **options: Any) -> Self:  # noqa: ARG002 - testcontainers' name
        """Do nothing: these are options of Docker.

        Returns:
            The container itself.
        """
        return self

    def start(self, timeout: float = 30) -> Self:  # noqa: ARG002 - testcontainers' name; a start takes milliseconds
        """Start the broker, unless it runs.

        Returns:
            The container itself.

        Raises:
            ConfigError: A variable names a setting that the embedded broker does not have, or an invalid value.
        """
        if self._broker is None:
            self._broker = self._made(self._host_port, _settings(self.env)).start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: ARG002 - testcontainers' names
        """Stop the broker, if it runs."""
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def get_bootstrap_server(self) -> str:
        """Return the address of the broker.

        Returns:
            `host:port`.

        Raises:
            ClosedError: The container is not running.
        """
        return self._started().bootstrap_servers

    def get_container_host_ip(self) -> str:
        """Return the address that the broker listens on.

        Returns:
            An IP address or a host name, without the port.

        Raises:
            ClosedError: The container is not running.
        """
        return self.get_bootstrap_server().rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:
        """Return the port of this machine.

        Args:
            port: The broker's port, `port`.

        Returns:
            The port that the broker listens on.

        Raises:
            ArgumentError: `port` is not the broker's port.
            ClosedError: The container is not running.
        """
        if int(port) != self.port:
            raise ArgumentError(f"the broker listens on one port, {self.port}, not on {port}")
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def _started(self) -> Running:
        if self._broker is None:
            raise ClosedError("the container is not running: call start(), or use it in a with statement")
        return self._broker

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _settings(variables: dict[str, str]) -> dict[str, ConfigValue]:
    """The broker's settings in an image's variables: `_` is a dot, `__` an underscore, `___` a dash."""
    marks = {"_": ".", "__": "_", "___": "-"}
    return {
        re.sub("_{1,3}", lambda found: marks[found[0]], name.removeprefix("KAFKA_").lower()): value
        for name, value in variables.items()
        if name.startswith("KAFKA_") and not _LAYOUT.fullmatch(name)
    }
