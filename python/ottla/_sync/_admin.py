# Written by scripts/unasync.py from python/ottla/aio/_admin.py. Change that file, and run the script.
"""The admin client for threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from ottla import _ottla, _reporting
from ottla._app_metrics import AppMetrics
from ottla._closing import CLOSE_TIMEOUT, NOT_CLOSED, exit_timeout, failure, left, noting
from ottla._habits import missing
from ottla._hints import ConfigValue, Servers, keywords
from ottla._later import uuid
from ottla._metrics import Metrics, check_callback
from ottla._numbers import after
from ottla._sync._calls.groups import Groups
from ottla._sync._calls.reassignments import Reassignments
from ottla._sync._calls.security import Security
from ottla._sync._calls.transactions import Transactions
from ottla._sync._closing import disconnect


class Admin(Reassignments, Groups, Transactions, Security, AppMetrics):
    """Manages a cluster: its topics, groups, configurations, users and brokers. Threads may share it.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        config: Properties by Kafka's names, such as `{"request.timeout.ms": 5000}`.
        on_metrics: A function that is called with `metrics()` every `metrics.interval.ms`, and once more by `close`. It
            runs on a thread of ottla's, which all clients share; the last call runs on the thread that closes.
        **properties: The same properties as keywords, such as `request_timeout_ms=5000`. `ottla config admin` lists
            them all.

    Raises:
        ConfigError: A property is unknown or has a value that is not allowed.

    If some of the topics, partitions, groups or the like of a call fail, the call raises the first error; its
    `failures` has the errors of all, and its `results` what the call would have returned of the others. All others were
    done, also where the deadline passed. `may_be_done` of an error is true if its request may have been carried out.

    Example:
        ```python
        with ottla.Admin("localhost:9092") as admin:
            admin.create_topics([ottla.NewTopic("flights", partitions=4)])
        ```
    """

    __slots__ = ("__weakref__", "_core", "_reports")

    def __init__(
        self,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        config: Mapping[str, ConfigValue] | None = None,
        on_metrics: Callable[[Metrics], object] | None = None,
        **properties: Unpack[keywords.AdminProperties],
    ) -> None:
        check_callback(on_metrics)
        self._core = _ottla.AdminCore(bootstrap_servers, config=config, **properties)
        self._reports = _reporting.start(self._core, on_metrics)

    def metrics(self) -> Metrics:
        """Return the client's current metrics, under the same names as in the Java client of Kafka.

        Rates, averages and maxima are about the last `metrics.num.samples` samples of `metrics.sample.window.ms` each;
        totals count from the beginning. docs/reference/metrics.md lists all metrics.

        Returns:
            Values by `MetricName`.

        Raises:
            ClosedError: The client is closed.
        """
        return self._core.metrics()

    def client_instance_id(self, timeout: float | None = None) -> uuid.UUID:
        """Request the id by which brokers know this client, which its pushed metrics carry (KIP-714).

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The id that a broker gave this client, the same for as long as the client exists.

        Raises:
            UnsupportedError: The brokers take no metrics of clients, or `enable.metrics.push` is false.
            ClosedError: The client is closed.
            KafkaError: No broker responded in time.
        """
        found: uuid.UUID = self._core.client_instance_id(timeout).wait()
        return found

    def close(self, timeout: float | None = None) -> None:
        """Disconnect.

        Closing twice does no harm.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits 5.

        Raises:
            KafkaTimeoutError: Not all tasks ended in time. The client is closed anyway.
        """
        deadline = after(CLOSE_TIMEOUT if timeout is None else timeout)
        try:
            disconnect(self._core, left(deadline))
        finally:
            _reporting.finish(self._core, left(deadline))

    def __enter__(self) -> Self:
        self._core.check()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with noting(failure(exc), NOT_CLOSED):
            self.close(exit_timeout(self._core, exc))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Admin holds connections and cannot be pickled: send its options, and make the admin where it is used"
        )

    if not TYPE_CHECKING:  # A type checker would take every name for one that is there.

        def __getattr__(self, name: str) -> Any:
            raise missing("Admin", name)
