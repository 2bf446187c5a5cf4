"""A Kafka broker for tests: it runs in this process, starts in milliseconds and needs nothing installed.

```python
import ottla
from ottla.testing import Broker

with Broker(topics={"flights": 4}) as broker, ottla.Producer(broker.bootstrap_servers) as producer:
    producer.send("flights", b"N123").result()
```

Under pytest the fixture `ottla_broker` is such a broker, new for each test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla import _ottla
from ottla.errors import ArgumentError, ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from types import TracebackType

    from typing_extensions import Self

    from ottla._properties import ConfigValue

__all__ = ["Broker"]


class Broker:
    """The embedded broker, from `start` to `stop` or in a with statement. Any Kafka client of any process can use it.

    Args:
        nodes: Brokers of the cluster; only 1 is supported.
        topics: Topics to create at the start: a mapping from names to numbers of partitions, or names of topics with
            one partition.
        data_dir: Folder for the log, in Kafka's own format; without it, everything stays in memory.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        config: Settings of the broker by Kafka's names, such as `{"auto.create.topics.enable": False}`.
            `ottla config broker` lists them.
        print_events: Whether to print refused connections and the like to standard error.

    Raises:
        ArgumentError: More than one node is asked for.
    """

    def __init__(
        self,
        nodes: int = 1,
        topics: Mapping[str, int] | Iterable[str] | None = None,
        *,
        data_dir: str | PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        config: Mapping[str, ConfigValue] | None = None,
        print_events: bool = False,
    ) -> None:
        if nodes != 1:
            raise ArgumentError(f"the embedded broker is a cluster of one node, and {nodes} were asked for")
        if isinstance(topics, str):
            topics = [topics]
        self._topics = list(topics.items()) if isinstance(topics, Mapping) else [(name, 1) for name in topics or ()]
        self._data_dir, self._host, self._port, self._config = data_dir, host, port, config
        self._print_events = print_events
        self._running: _ottla.Broker | None = None

    def start(self) -> Self:
        """Start it, unless it runs.

        Returns:
            The broker itself.

        Raises:
            ConfigError: A setting is unknown or has a value that is not allowed.
            OSError: The address cannot be listened on, or the folder cannot be used.
        """
        if self._running is None:
            self._running = _ottla.Broker(
                host=self._host,
                port=self._port,
                data_dir=self._data_dir,
                topics=self._topics,
                config=self._config,
                print_events=self._print_events,
            )
        return self

    @property
    def bootstrap_servers(self) -> str:
        """Its address, as `host:port`."""
        return self._started().bootstrap_servers

    def stop(self) -> None:
        """Stop it, if it runs: connections are closed, and a log on disk is complete."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def fail(self, api: str, error: str, *, count: int = 1) -> None:
        """Answer the next requests of an API with an error, and do not apply them.

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            error: Kafka's name of the error, such as `"NOT_LEADER_OR_FOLLOWER"`.
            count: How many requests.
        """
        self._started().fail(api, count, error)

    def delay(self, api: str, seconds: float, *, count: int = 1) -> None:
        """Apply the next requests of an API, and delay each answer by `seconds`."""
        self._started().delay(api, count, seconds)

    def disconnect(self, api: str, *, applied: bool = False, count: int = 1) -> None:
        """Close the connection at the next requests of an API, instead of answering them.

        Args:
            api: The API's name in Kafka's protocol.
            applied: Whether the broker applies them first, so that only the answer is lost.
            count: How many requests.
        """
        self._started().disconnect(api, count, applied)

    def ignore(self, api: str, *, count: int = 1) -> None:
        """Neither apply nor answer the next requests of an API; the connection stays."""
        self._started().ignore(api, count)

    def clear_faults(self) -> None:
        """Remove every fault that has not happened yet."""
        self._started().clear_faults()

    def _started(self) -> _ottla.Broker:
        if self._running is None:
            raise ClosedError("the broker does not run: start() it, or use it in a with statement")
        return self._running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Broker({self._running.bootstrap_servers!r})" if self._running else "Broker(not running)"
