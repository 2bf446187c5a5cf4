"""Callbacks of a client: queued by whatever thread notices an event, called by the thread that polls."""

from __future__ import annotations

import importlib
import itertools
import logging
import re
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ottla.compat.confluent_kafka.errors import KafkaError, code
from ottla.compat.confluent_kafka.properties import Configuration

# Seconds between two looks at what has no descriptor: timers, and callbacks that another thread queued.
SLICE: Final = 0.05
# The same where nothing but a descriptor is to be looked at.
LONG_SLICE: Final = 0.5
_numbers = itertools.count(1)
_PAUSE: Final = re.compile(r"pause of (\d+) ms")
_OTTLA: Final = logging.getLogger("ottla")
_CONNECTION: Final = logging.getLogger("ottla.connection")
# The contexts of `debug` that have requests and their responses in librdkafka. ottla logs responses.
_REQUESTS: Final = frozenset({"all", "cgrp", "fetch", "protocol"})
_RESPONSE: Final = re.compile(r"responded to (\w+) ")
# librdkafka's facilities, by the API that such a log is about.
_FACILITIES: Final = {
    "ShareAcknowledge": "SHAREACK",
    "ShareFetch": "SHAREFETCH",
    "ShareGroupHeartbeat": "SHAREHEARTBEAT",
}


class _Events(logging.Handler):
    """Turns events of one client, which ottla logs, into calls that wait for a poll."""

    def __init__(
        self,
        config: Configuration,
        clients: set[str],
        queued: deque[Callable[[], object]],
        broker_id: Callable[[str], int],
    ) -> None:
        super().__init__(logging.DEBUG)
        self._broker_id = broker_id
        self._callbacks, self._to = config.callbacks, config.logger
        self._clients, self._queued = clients, queued
        servers = str(config.properties.get("bootstrap.servers", ""))
        self._servers = {server.strip() for server in servers.split(",") if server.strip()}
        self._down: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "client", None) not in self._clients:
            return
        if self._to is not None:
            level, text = record.levelno, record.getMessage()
            response = _RESPONSE.search(text)
            kind: str = record.kind  # type: ignore[attr-defined]
            facility = kind if response is None else _FACILITIES.get(response[1], kind)
            self._queued.append(lambda: self._to.log(level, "%s [%s] %s", facility, record.client, text))  # type: ignore[attr-defined]
        if record.kind == "ConnectFailed" and "error_cb" in self._callbacks:  # type: ignore[attr-defined]
            self._connect_failed(str(record.broker), record.getMessage())  # type: ignore[attr-defined]
        elif record.kind == "Throttled" and "throttle_cb" in self._callbacks:  # type: ignore[attr-defined]
            self._throttled(record)

    def _connect_failed(self, broker: str, text: str) -> None:
        error_cb = self._callbacks["error_cb"]
        names = {"cannot be looked up": "_RESOLVE", "is not authenticated by": "_AUTHENTICATION"}
        number = code(next((name for part, name in names.items() if part in text), "_TRANSPORT"))
        self._queued.append(lambda: error_cb(KafkaError(number, text)))
        self._down.add(broker)
        if self._servers <= self._down:
            self._down.clear()
            count = len(self._servers)
            reason = f"{count}/{count} brokers are down"
            self._queued.append(lambda: error_cb(KafkaError(code("_ALL_BROKERS_DOWN"), reason)))

    def _throttled(self, record: logging.LogRecord) -> None:
        event = importlib.import_module("confluent_kafka").ThrottleEvent
        broker = str(getattr(record, "broker", ""))
        found = _PAUSE.search(record.getMessage())
        pause = int(found[1]) / 1000 if found else 0.0
        throttle_cb = self._callbacks["throttle_cb"]
        # The event has the broker's address. The thread that polls looks for the id: this one runs the connection.
        self._queued.append(lambda: throttle_cb(event(broker, self._broker_id(broker), pause)))


class Callbacks:
    """Pending callbacks, which a client's polls call.

    Args:
        config: The client's configuration.
        statistics: Makes the JSON for `stats_cb`.
        broker_id: Finds the id of a broker by its address.
    """

    def __init__(
        self, config: Configuration, statistics: Callable[[str], str], broker_id: Callable[[str], int]
    ) -> None:
        self.name = f"rdkafka#{config.role}-{next(_numbers)}"
        self.clients: set[str] = set()
        # What happened to the client, and what its calls resulted in: a close drops the first.
        self._events: deque[Callable[[], object]] = deque()
        self._queued: deque[Callable[[], object]] = deque()
        self._config = config
        self._statistics = statistics
        self._interval = config.number("statistics.interval.ms", 0) / 1000
        self._stats_cb = config.callbacks.get("stats_cb") if self._interval else None
        self._next_stats = time.monotonic() + self._interval
        if config.logger is not None and "debug" in config.own:
            name = self.name
            text = f"{name} initialized: ottla in place of librdkafka, debug={config.own['debug']}"
            self._events.append(lambda: config.logger.log(logging.DEBUG, "INIT [%s] %s", name, text))
        self._detach: Callable[[], object] = lambda: None
        self._is_listening = config.logger is not None or bool({"error_cb", "throttle_cb"} & config.callbacks.keys())
        if self._is_listening:
            handler = _Events(config, self.clients, self._events, broker_id)
            _OTTLA.addHandler(handler)
            self._detach = weakref.finalize(self, _OTTLA.removeHandler, handler)
        contexts = {context.strip() for context in config.own.get("debug", "").lower().split(",")}
        if config.logger is not None and contexts & _REQUESTS and not _CONNECTION.isEnabledFor(logging.DEBUG):
            _CONNECTION.setLevel(logging.DEBUG)
        if "throttle_cb" in config.callbacks and not _CONNECTION.isEnabledFor(logging.INFO):
            _CONNECTION.setLevel(logging.INFO)

    @property
    def are_watched(self) -> bool:
        """Whether a poll has to look for events and timers, not only for results."""
        return self._is_listening or self._stats_cb is not None

    def add(self, call: Callable[[], object]) -> None:
        """Queue a call for the next poll."""
        self._queued.append(call)

    def serve(self) -> int:
        """Call what is queued; what a callback raises is raised, and the others wait for the next poll.

        Returns: The number of callbacks that were called.
        """
        if self._stats_cb is not None and time.monotonic() >= self._next_stats:
            self._next_stats = time.monotonic() + self._interval
            stats_cb = self._stats_cb
            self._events.append(lambda: stats_cb(self._statistics(self.name)))
        if not self._events and not self._queued:
            return 0
        served = 0
        for queue in (self._events, self._queued):
            while True:
                try:
                    call = queue.popleft()
                except IndexError:
                    break
                call()
                served += 1
        return served

    def close(self) -> None:
        """Take no further events, and drop those that no poll served; results of calls are kept."""
        self._detach()
        self._stats_cb = None
        self._events.clear()


def deadline_of(timeout: Any) -> float:
    """The end of a wait of `timeout` seconds on the monotonic clock. Negative waits without end.

    Producers call `poll(0)` for each record: 0 takes no look at the clock, and the end is long past.
    """
    if timeout == 0:
        return 0.0
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"must be real number, not {type(timeout).__name__}")
    return float("inf") if timeout < 0 else time.monotonic() + timeout


def slice_of(deadline: float) -> float:
    """Seconds of the next part of a wait."""
    return max(0.0, min(SLICE, deadline - time.monotonic()))
