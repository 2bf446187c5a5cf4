"""What every client does with the metrics of a program, for asyncio and for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla._ottla import AppMetric


class _Core(Protocol):
    def register_metric(self, metric: AppMetric, /) -> None: ...
    def unregister_metric(self, metric: AppMetric, /) -> None: ...


class _Client(Protocol):
    @property
    def _core(self) -> _Core: ...


class AppMetrics:
    """A client that pushes metrics of the program to brokers with its own."""

    __slots__ = ()

    def register_metric_for_subscription(self: _Client, metric: AppMetric) -> None:
        """Push a metric of your program to brokers with the client's own (KIP-1076).

        Brokers get it if an operator subscribed to it (KIP-714) and `enable.metrics.push` is true. It replaces a
        registered metric that has the same name and tags for brokers. A metric with the name and the tags of one of
        the client's own is not registered, and a warning is logged. `metrics()` has only the client's own.

        Args:
            metric: The metric. Several clients may push it.

        Raises:
            ClosedError: The client is closed.
        """
        self._core.register_metric(metric)

    def unregister_metric_from_subscription(self: _Client, metric: AppMetric) -> None:
        """Stop pushing the metric that was registered with the name and the tags of this one.

        A metric that is not registered changes nothing. The client's own metrics stay.

        Args:
            metric: The metric, or another one with its name, group and tags.

        Raises:
            ClosedError: The client is closed.
        """
        self._core.unregister_metric(metric)
