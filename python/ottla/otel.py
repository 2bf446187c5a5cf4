"""OpenTelemetry for clients: spans, metrics and trace context, by the semantic conventions for messaging.

It needs the extra `ottla[otel]`, which is OpenTelemetry's API; your program brings the SDK.

```python
import ottla
from ottla import otel

with ottla.Producer("localhost:9092") as producer, ottla.Consumer("localhost:9092", topics=["flights"]) as consumer:
    producer, consumer = otel.instrument(producer), otel.instrument(consumer)
    producer.send("flights", b"N123")  # a span, whose context travels in the record's headers
    for record in consumer.poll():
        with otel.process(record):  # a span of the same trace
            print(record.value)
```

Exported metrics:

| metric | from |
|---|---|
| `messaging.client.sent.messages`, `messaging.client.consumed.messages` | the client's own counters, by topic |
| `messaging.client.operation.duration` | `send`, `send_many` and `send_arrow` until the delivery result, and `poll` |
| `messaging.process.duration` | `process` |
| `kafka.producer.record_send_total`, ... | every metric of `metrics()`, with the names of OpenTelemetry's Java agent |

Counters cost nothing for each record: they are read when the SDK exports. Spans are one for each call. Records that go
out in an Arrow table or column carry no trace context.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context  # noqa: TC002 as the hints of ottla
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation
from opentelemetry.propagators.textmap import CarrierT, Getter, TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from ottla import _ottla
from ottla._callbacks import call_when_done
from ottla._metrics import MetricName, Metrics
from ottla._ottla import Record, __version__, metric_table
from ottla.errors import ClosedError, KafkaError

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from ottla._ottla import MetricRow

__all__ = ["extract", "instrument", "observe", "process"]


def __dir__() -> list[str]:
    return __all__


_SCHEMA = "https://opentelemetry.io/schemas/1.34.0"
# The buckets that the conventions require.
_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
_CLIENT = TypeVar("_CLIENT")
# Seconds in which two looks at a client are of the same export.
_SAME_EXPORT = 0.02
# A span links to no more records than this.
_MOST_LINKS = 128


def instrument(
    client: _CLIENT,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagator: TextMapPropagator | None = None,
) -> _CLIENT:
    """Wrap a client so that its calls are spans and what it measures is exported.

    Args:
        client: A `Producer`, `Consumer` or `Admin`, of threads or of asyncio. It may still be used itself; those
            calls are measured, but no spans.
        tracer_provider: Where spans go; None is OpenTelemetry's global provider.
        meter_provider: Where metrics go; None is OpenTelemetry's global provider.
        propagator: How the trace context is written into headers; None is OpenTelemetry's global propagator, by default
            W3C's `traceparent` and `baggage`.

    Returns:
        A client with the same methods.

    Raises:
        TypeError: It is not an ottla client.
    """
    role = _role(client)
    observe(client, meter_provider=meter_provider)
    tools = _Tools(tracer_provider, meter_provider, propagator)
    if role == "producer":
        return cast("_CLIENT", _Producer(client, tools))
    if role == "consumer":
        return cast("_CLIENT", _Consumer(client, tools))
    return client


def observe(client: object, *, meter_provider: MeterProvider | None = None) -> None:
    """Export what a client measures, without spans, until it is closed or forgotten.

    Args:
        client: A `Producer`, `Consumer` or `Admin`, of threads or of asyncio.
        meter_provider: Where metrics go; None is OpenTelemetry's global provider.

    Raises:
        TypeError: It is not an ottla client.
    """
    role = _role(client)
    provider = meter_provider or metrics.get_meter_provider()
    with _lock:
        meters = _observed.get(provider)
        if meters is None:
            meters = _observed[provider] = _Observed(_meter(provider))
    meters.add(role, client)


def extract(record: Record, *, propagator: TextMapPropagator | None = None) -> Context:
    """Read the trace context from a record's headers.

    Args:
        record: A record that a consumer returned.
        propagator: As in `instrument`.

    Returns:
        The context of the record's sender; the current context if its headers have none.
    """
    return (propagator or propagate.get_global_textmap()).extract(record.headers, getter=_HEADERS)


@contextmanager
def process(
    record: Record,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagator: TextMapPropagator | None = None,
) -> Generator[Span]:
    """Make what is done with a record a span, in the trace of its sender.

    Args:
        record: A record that a consumer returned.
        tracer_provider: As in `instrument`.
        meter_provider: As in `instrument`.
        propagator: As in `instrument`.

    Yields:
        The span, which is the current one inside of the block. An exception that leaves the block makes it an error.
    """
    tools = _Tools(tracer_provider, meter_provider, propagator)
    attributes = _attributes("process", "process", record.topic)
    attributes["messaging.destination.partition.id"] = str(record.partition)
    details: dict[str, AttributeValue] = {"messaging.kafka.offset": record.offset}
    if (key := _text(record.key)) is not None:
        details["messaging.kafka.message.key"] = key
    value = record.value
    if value is None:
        details["messaging.kafka.message.tombstone"] = True
    else:
        details["messaging.message.body.size"] = len(value)
    outer = trace.get_current_span().get_span_context()
    span = tools.tracer.start_span(
        f"process {record.topic}",
        context=extract(record, propagator=propagator),
        kind=SpanKind.CONSUMER,
        attributes={**attributes, **details},
        links=[Link(outer)] if outer.is_valid else [],
    )
    begun = time.perf_counter()
    try:
        with trace.use_span(span, end_on_exit=True, record_exception=True, set_status_on_exception=True):
            yield span
    except BaseException as error:
        attributes["error.type"] = type(error).__qualname__
        raise
    finally:
        tools.process_duration.record(time.perf_counter() - begun, attributes)


class _Headers(Getter[CarrierT]):
    """Reads headers of a record."""

    def get(self, carrier: CarrierT, key: str) -> list[str] | None:
        pairs = cast("list[tuple[str, bytes | None]]", carrier)
        found = [value.decode("utf-8", "replace") for name, value in pairs if name == key and value is not None]
        return found or None

    def keys(self, carrier: CarrierT) -> list[str]:
        return [name for name, _ in cast("list[tuple[str, bytes | None]]", carrier)]


_HEADERS: _Headers[Any] = _Headers()


class _Tools:
    """The tracer, the propagator and the histograms of a client."""

    __slots__ = ("operation_duration", "process_duration", "propagator", "tracer")

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        propagator: TextMapPropagator | None,
    ) -> None:
        self.tracer: Tracer = trace.get_tracer("ottla", __version__, tracer_provider, _SCHEMA)
        meter = _meter(meter_provider or metrics.get_meter_provider())
        self.operation_duration: Histogram = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of a send, until its delivery result is known, or of a poll.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.process_duration: Histogram = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of the processing of a record.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.propagator: TextMapPropagator = propagator or propagate.get_global_textmap()


def _meter(provider: MeterProvider) -> Meter:
    return provider.get_meter("ottla", __version__, _SCHEMA)


def _role(client: object) -> str:
    core = getattr(client, "_core", None)
    cores = {_ottla.ProducerCore: "producer", _ottla.ConsumerCore: "consumer", _ottla.AdminCore: "admin"}
    role = cores.get(type(core))
    if role is None:
        raise TypeError(f"only an ottla Producer, Consumer or Admin can be instrumented, not {type(client).__name__}")
    return role


def _attributes(name: str, kind: str | None, topic: str | None) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {"messaging.system": "kafka", "messaging.operation.name": name}
    if kind is not None:
        attributes["messaging.operation.type"] = kind
    if topic is not None:
        attributes["messaging.destination.name"] = topic
    return attributes


def _text(data: object) -> str | None:
    """A key as text, where it is one."""
    if isinstance(data, str):
        return data
    if isinstance(data, (bytes, bytearray)):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None
    return None


def _error_type(error: BaseException) -> str:
    """Kafka's name of the error, or that of its class."""
    return (isinstance(error, KafkaError) and error.name) or type(error).__qualname__


# --- metrics that are collected when the SDK exports


class _Observed:
    """The instruments of one provider, for all its clients."""

    def __init__(self, meter: Meter) -> None:
        self._clients: dict[str, weakref.WeakSet[Any]] = {}
        self._meter = meter
        self._roles: set[str] = set()
        # One look at a client serves all instruments of one export.
        self._seen: weakref.WeakKeyDictionary[Any, tuple[float, Metrics]] = weakref.WeakKeyDictionary()

    def add(self, role: str, client: object) -> None:
        # The core, since a wrapped client and the client itself share it.
        self._clients.setdefault(role, weakref.WeakSet()).add(getattr(client, "_core"))  # noqa: B009 a compiled class
        if role in self._roles:
            return
        self._roles.add(role)
        if role == "producer":
            self._meter.create_observable_counter(
                "messaging.client.sent.messages",
                [self._sent],
                unit="{message}",
                description="Records that were sent, or failed.",
            )
        if role == "consumer":
            self._meter.create_observable_counter(
                "messaging.client.consumed.messages",
                [self._consumed],
                unit="{message}",
                description="Records that polls returned.",
            )
        for row in _rows(role):
            full = f"kafka.{_PREFIXES[role]}.{row['name'].replace('-', '_')}"
            make: Callable[..., object]
            make = self._meter.create_observable_gauge
            if row["kind"] == "total":
                make = self._meter.create_observable_counter
            unit = _UNITS.get(row["unit"], "{" + row["unit"] + "}")
            make(full, [self._reader(role, row)], unit=unit, description=row["doc"])

    def _all(self, role: str) -> Iterator[Metrics]:
        cores = self._clients.get(role, ())
        return (found for core in list(cores) if (found := self._look(core)) is not None)

    def _look(self, core: Any) -> Metrics | None:
        at, found = self._seen.get(core, (-math.inf, None))
        if found is None or time.monotonic() - at > _SAME_EXPORT:
            try:
                found = core.metrics()
            except ClosedError:
                return None
            self._seen[core] = (time.monotonic(), found)
        return found

    def _sent(self, _: CallbackOptions) -> Iterable[Observation]:
        # The first instrument that is called: an export begins.
        self._seen.clear()
        for measured in self._all("producer"):
            for key, total in measured.select("record-send-total", group="producer-topic-metrics").items():
                topic = key.tag("topic")
                failed = measured.value("record-error-total", group=key.group, topic=topic)
                retried = measured.value("record-retry-total", group=key.group, topic=topic)
                attributes = _attributes("send", "send", topic) | _client(key)
                # A record that was sent twice is one message.
                yield Observation(max(total - retried - failed, 0), attributes)
                if failed:
                    yield Observation(failed, {**attributes, "error.type": "_OTHER"})

    def _consumed(self, _: CallbackOptions) -> Iterable[Observation]:
        self._seen.clear()
        for measured in self._all("consumer"):
            consumed = measured.select("records-consumed-total", group="consumer-fetch-manager-metrics")
            for key, total in consumed.items():
                if (topic := key.tag("topic")) is not None:
                    yield Observation(total, _attributes("poll", "receive", topic) | _client(key))

    def _reader(self, role: str, row: MetricRow) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            for measured in self._all(role):
                for key, value in measured.select(row["name"], group=row["group"]).items():
                    if math.isfinite(value) and len(key.tags) == len(row["tags"]):
                        yield Observation(value, dict(key.tags))

        return read


def _client(key: MetricName) -> dict[str, AttributeValue]:
    return {"messaging.client.id": key.tag("client-id") or ""}


def _rows(role: str) -> list[MetricRow]:
    """The metrics of a client; of those that share a name the narrowest, whose values add up to those of the others."""
    rows: dict[str, MetricRow] = {}
    for row in metric_table():
        if row["role"] == role and row["group"].endswith("-metrics"):
            before = rows.get(row["name"])
            if before is None or len(before["tags"]) < len(row["tags"]):
                rows[row["name"]] = row
    return list(rows.values())


# UCUM's.
_UNITS = {
    "bytes": "By",
    "ms": "ms",
    "s": "s",
    "ns": "ns",
    "ratio": "1",
    "bytes per second": "By/s",
    "per second": "1/s",
}
_PREFIXES = {"producer": "producer", "consumer": "consumer", "admin": "admin_client"}
_observed: weakref.WeakKeyDictionary[MeterProvider, _Observed] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


# --- calls as spans


class _Wrapped:
    """A client whose other methods are its own."""

    def __init__(self, client: Any, tools: _Tools) -> None:
        self._client = client
        self._tools = tools
        self._core = client._core  # noqa: SLF001 as the client has it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __enter__(self) -> Any:
        self._client.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._client.__exit__(*raised)

    async def __aenter__(self) -> Any:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._client.__aexit__(*raised)


class _Sending:
    """A send, from the call until its delivery result is known."""

    __slots__ = ("_attributes", "_begun", "_tools", "span")

    def __init__(self, tools: _Tools, name: str, topic: str | None, details: Mapping[str, AttributeValue]) -> None:
        self._tools = tools
        self._attributes = _attributes(name, "send", topic)
        self.span = tools.tracer.start_span(
            f"{name} {topic}" if topic is not None else name,
            kind=SpanKind.PRODUCER,
            attributes={**self._attributes, **details},
        )
        self._begun = time.perf_counter()

    def carried(self) -> list[tuple[str, str]]:
        """The headers that carry the span's context."""
        carrier: dict[str, str] = {}
        self._tools.propagator.inject(carrier, context=trace.set_span_in_context(self.span))
        return list(carrier.items())

    def follow(self, delivery: Any) -> Any:
        """End when the delivery result is known.

        This does not count as observing the delivery.
        """
        call_when_done(delivery._watch(), self._done)  # noqa: SLF001 it is there for this
        return delivery

    def _done(self, watched: Any) -> None:
        found = watched.found()
        if isinstance(found, BaseException):
            self.failed(found)
            return
        if found is not None:
            self._attributes["messaging.destination.partition.id"] = str(found.partition)
            self.span.set_attribute("messaging.destination.partition.id", str(found.partition))
            self.span.set_attribute("messaging.kafka.offset", found.offset)
        self._end()

    def failed(self, error: BaseException) -> None:
        """End with an error."""
        self._attributes["error.type"] = _error_type(error)
        self.span.set_attribute("error.type", _error_type(error))
        self.span.record_exception(error)
        self.span.set_status(Status(StatusCode.ERROR, str(error)))
        self._end()

    def _end(self) -> None:
        self._tools.operation_duration.record(time.perf_counter() - self._begun, self._attributes)
        self.span.end()


class _Producer(_Wrapped):
    def send(self, topic: str, value: Any = None, **parts: Any) -> Any:
        details: dict[str, AttributeValue] = {}
        if (key := _text(parts.get("key"))) is not None:
            details["messaging.kafka.message.key"] = key
        if value is None:
            details["messaging.kafka.message.tombstone"] = True
        elif isinstance(value, (bytes, bytearray, str)):
            details["messaging.message.body.size"] = len(value.encode() if isinstance(value, str) else value)
        sending = _Sending(self._tools, "send", topic, details)
        parts["headers"] = _with(parts.get("headers"), sending.carried())
        return self._sent(sending, lambda: self._client.send(topic, value, **parts))

    def send_many(self, topic: str, values: Any, **columns: Any) -> Any:
        # A text or bytes are one value, which the client refuses: a list of them would be its letters.
        is_whole = (
            isinstance(values, (str, bytes, bytearray, memoryview))
            or hasattr(values, "__arrow_c_array__")
            or hasattr(values, "__arrow_c_stream__")
        )
        details: dict[str, AttributeValue] = {}
        if not is_whole:
            values = list(values)
            details["messaging.batch.message_count"] = len(values)
        sending = _Sending(self._tools, "send_many", topic, details)
        if not is_whole:
            carried = sending.carried()
            headers = columns.get("headers")
            rows = [headers] * len(values) if headers is None or _is_of_all(headers) else headers
            columns["headers"] = [_with(row, carried) for row in rows]
        return self._sent(sending, lambda: self._client.send_many(topic, values, **columns))

    def send_arrow(self, topic: str | None, data: Any) -> Any:
        sending = _Sending(self._tools, "send_arrow", topic, {})
        return self._sent(sending, lambda: self._client.send_arrow(topic, data))

    def _sent(self, sending: _Sending, send: Callable[[], Any]) -> Any:
        try:
            sent = send()
        except BaseException as error:
            sending.failed(error)
            raise
        return self._awaited(sending, sent) if inspect.isawaitable(sent) else sending.follow(sent)

    async def _awaited(self, sending: _Sending, sent: Any) -> Any:
        try:
            delivery = await sent
        except BaseException as error:
            sending.failed(error)
            raise
        return sending.follow(delivery)


def _is_of_all(headers: Any) -> bool:
    """Whether `send_many` takes these headers for each value, and not as a column of headers."""
    if isinstance(headers, dict):
        return True
    first = next(iter(headers), None) if isinstance(headers, (list, tuple)) else None
    return isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], str)


def _with(headers: Any, carried: list[tuple[str, str]]) -> Any:
    if headers is None:
        return carried
    pairs = headers.items() if hasattr(headers, "items") else headers
    names = {name for name, _ in carried}
    return [pair for pair in pairs if pair[0] not in names] + carried


class _Consumer(_Wrapped):
    def poll(self, *args: Any, **kwargs: Any) -> Any:
        begun_ns, begun = time.time_ns(), time.perf_counter()
        try:
            polled = self._client.poll(*args, **kwargs)
        except BaseException as error:
            self._failed(begun_ns, begun, error)
            raise
        if inspect.isawaitable(polled):
            return self._awaited(begun_ns, begun, polled)
        return self._polled(begun_ns, begun, polled)

    async def _awaited(self, begun_ns: int, begun: float, polled: Any) -> Any:
        try:
            batch = await polled
        except BaseException as error:
            self._failed(begun_ns, begun, error)
            raise
        return self._polled(begun_ns, begun, batch)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._client)

    def __aiter__(self) -> Any:
        return self._client.__aiter__()

    def _polled(self, begun_ns: int, begun: float, batch: Any) -> Any:
        count = len(batch)
        if not count:
            return batch
        took = time.perf_counter() - begun
        span = self._tools.tracer.start_span(
            "poll",
            kind=SpanKind.CLIENT,
            start_time=begun_ns,
            attributes={**_attributes("poll", "receive", None), "messaging.batch.message_count": count},
            links=self._links(batch, count),
        )
        attributes = _attributes("poll", "receive", None)
        topics = {partition.topic for partition in self._client.assignment()}
        if len(topics) == 1:
            topic = topics.pop()
            attributes["messaging.destination.name"] = topic
            span.set_attribute("messaging.destination.name", topic)
            span.update_name(f"poll {topic}")
        span.end()
        self._tools.operation_duration.record(took, attributes)
        return batch

    def _links(self, batch: Any, count: int) -> list[Link]:
        links: list[Link] = []
        empty = contexts.Context()
        for row in range(min(count, _MOST_LINKS)):
            found = self._tools.propagator.extract(batch[row].headers, context=empty, getter=_HEADERS)
            sender = trace.get_current_span(found).get_span_context()
            if sender.is_valid:
                links.append(Link(sender))
        return links

    def _failed(self, begun_ns: int, begun: float, error: BaseException) -> None:
        attributes = _attributes("poll", "receive", None)
        attributes["error.type"] = _error_type(error)
        span = self._tools.tracer.start_span("poll", kind=SpanKind.CLIENT, start_time=begun_ns, attributes=attributes)
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()
        self._tools.operation_duration.record(time.perf_counter() - begun, attributes)
