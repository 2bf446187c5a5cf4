"""Spans and metrics, as OpenTelemetry's own SDK exports them; names are those of the published conventions."""

from __future__ import annotations

import gc
import subprocess
import sys
import time

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes as names
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.trace import SpanKind, StatusCode

import ottla
from ottla import otel
from tests.python.conftest import PATIENCE

KNOWN = {value for name, value in vars(names).items() if name.startswith("MESSAGING_")} | {"error.type"}


class Exported:
    """What an SDK with exporters in memory got."""

    def __init__(self):
        self.spans = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self.reader])

    @property
    def providers(self):
        return {"tracer_provider": self.tracer_provider, "meter_provider": self.meter_provider}

    def finished(self, name, count=1):
        """The spans of this name, once there are so many: those of sends end on a thread of ottla's."""
        end = time.monotonic() + PATIENCE
        while len(found := [span for span in self.spans.get_finished_spans() if span.name.startswith(name)]) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} spans {name} ended"
            time.sleep(0.01)
        return found

    def points(self, name):
        data = self.reader.get_metrics_data()
        scopes = [s for r in (data.resource_metrics if data else ()) for s in r.scope_metrics]
        return [point for s in scopes for m in s.metrics if m.name == name for point in m.data.data_points]

    def sums(self, name, *keys):
        return {tuple(point.attributes.get(key) for key in keys): point.value for point in self.points(name)}


@pytest.fixture
def exported():
    exported = Exported()
    yield exported
    exported.meter_provider.shutdown()


def test_a_trace_goes_from_a_send_to_the_process_of_its_record(api, address, topic, exported):
    with (
        api.producer(address, linger_ms=0) as plain,
        api.consumer(address, topics=[topic], auto_offset_reset="earliest") as reader,
    ):
        producer, consumer = otel.instrument(plain, **exported.providers), otel.instrument(reader, **exported.providers)
        outer = exported.tracer_provider.get_tracer("test").start_span("outer")
        with trace.use_span(outer):
            written = api.result(api(producer.send(topic, b"value", key="key", partition=1, headers={"mine": b"1"})))
        api(producer.flush())
        batch = api(consumer.poll(20))
        [record] = batch
        assert [name for name, _ in record.headers] == ["mine", "traceparent"]
        with otel.process(record, **exported.providers) as span:
            assert trace.get_current_span() is span

    [send] = exported.finished("send")
    assert (send.name, send.kind) == (f"send {topic}", SpanKind.PRODUCER)
    assert send.parent.span_id == outer.get_span_context().span_id
    assert dict(send.attributes) == {
        names.MESSAGING_SYSTEM: "kafka",
        names.MESSAGING_OPERATION_NAME: "send",
        names.MESSAGING_OPERATION_TYPE: "send",
        names.MESSAGING_DESTINATION_NAME: topic,
        names.MESSAGING_DESTINATION_PARTITION_ID: "1",
        names.MESSAGING_KAFKA_OFFSET: written.offset,
        names.MESSAGING_KAFKA_MESSAGE_KEY: "key",
        names.MESSAGING_MESSAGE_BODY_SIZE: 5,
    }
    context = send.get_span_context()
    assert dict(record.headers)["traceparent"].decode().split("-")[1:3] == [
        f"{context.trace_id:032x}",
        f"{context.span_id:016x}",
    ]
    [poll] = exported.finished("poll")
    assert (poll.name, poll.kind) == (f"poll {topic}", SpanKind.CLIENT)
    assert [link.context.span_id for link in poll.links] == [context.span_id]
    assert poll.attributes[names.MESSAGING_BATCH_MESSAGE_COUNT] == 1
    [process] = exported.finished("process")
    assert (process.name, process.kind) == (f"process {topic}", SpanKind.CONSUMER)
    assert (process.parent.span_id, process.context.trace_id) == (context.span_id, context.trace_id)
    assert process.attributes[names.MESSAGING_KAFKA_OFFSET] == 0
    for span in (send, poll, process):
        assert set(span.attributes) <= KNOWN

    durations = exported.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
    assert {(p.attributes[names.MESSAGING_OPERATION_NAME], p.count) for p in durations} == {("send", 1), ("poll", 1)}
    assert all(p.explicit_bounds[:3] == (0.005, 0.01, 0.025) for p in durations)
    [duration] = exported.points(messaging_metrics.MESSAGING_PROCESS_DURATION)
    assert duration.attributes[names.MESSAGING_DESTINATION_PARTITION_ID] == "1"


def test_many_records_carry_one_context(api, address, topic, exported):
    with api.producer(address) as plain:
        producer = otel.instrument(plain, **exported.providers)
        api.result(
            api(
                producer.send_many(
                    topic, (b"%d" % i for i in range(3)), headers=[None, {"a": b"1"}, [("traceparent", b"old")]]
                )
            )
        )
    [span] = exported.finished("send_many")
    assert span.attributes[names.MESSAGING_BATCH_MESSAGE_COUNT] == 3
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        records = api.poll(consumer, 3)
    contexts = [trace.get_current_span(otel.extract(r)).get_span_context().span_id for r in records]
    assert contexts == [span.get_span_context().span_id] * 3
    assert sorted(len(r.headers) for r in records) == [1, 1, 2]


@pytest.mark.parametrize("headers", [{"a": b"1"}, [("a", b"1"), ("b", b"2")], (("a", b"1"),), {}, [], None])
def test_headers_for_all_values_stay_beside_the_context(api, address, topic, exported, headers):
    values = [b"0", b"1", b"2"]
    with api.producer(address) as plain:
        if headers == []:  # No column of three, to the client itself, too.
            with pytest.raises(ottla.errors.ArgumentError):
                api.result(api(plain.send_many(topic, values, headers=headers)))
            return
        producer = otel.instrument(plain, **exported.providers)
        api.result(api(plain.send_many(topic, values, headers=headers)))
        api.result(api(producer.send_many(topic, values, headers=headers)))
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        records = api.poll(consumer, 6)
    [context] = {record.headers[-1] for record in records if "traceparent" in dict(record.headers)}
    expected = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
    assert sorted([list(record.headers) for record in records], key=len) == [expected] * 3 + [[*expected, context]] * 3


def test_one_value_is_no_column_of_its_letters(api, address, topic, exported):
    with api.producer(address) as plain:
        producer = otel.instrument(plain, **exported.providers)
        for value in ("abc", b"abc", bytearray(b"abc")):
            with pytest.raises(TypeError, match="was given one value"):
                api.result(api(producer.send_many(topic, value)))


def test_failures_are_errors_of_spans_and_stay_unasked(api, broker, address, topic, exported):
    producer = otel.instrument(getattr(api.module, "Producer")(address, linger_ms=0), **exported.providers)  # noqa: B009
    broker.fail("Produce", "INVALID_RECORD")
    api(producer.send(topic, b"v"))
    with pytest.raises(ottla.KafkaError):  # Nobody asked but the span, and it does not count.
        api(producer.close())
    [span] = exported.finished("send")
    assert span.status.status_code == StatusCode.ERROR
    assert span.attributes["error.type"] == "INVALID_RECORD"
    assert span.events[0].name == "exception"
    [duration] = exported.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
    assert duration.attributes["error.type"] == "INVALID_RECORD"

    closed = exported.finished("send")
    with pytest.raises(ottla.errors.ClosedError):
        api(producer.send(topic, b"v"))
    assert exported.finished("send", len(closed) + 1)[len(closed)].attributes["error.type"] == "ClosedError"


def test_an_exception_in_a_process_is_one_of_its_span(address, topic, exported):
    with (
        ottla.Producer(address) as producer,
        ottla.Consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer,
    ):
        producer.send(topic, None, key=b"\xff").result(20)
        [record] = consumer.poll(20)
    with pytest.raises(ZeroDivisionError), otel.process(record, **exported.providers):
        raise ZeroDivisionError
    [span] = exported.finished("process")
    assert span.status.status_code == StatusCode.ERROR
    assert span.attributes[names.MESSAGING_KAFKA_MESSAGE_TOMBSTONE] is True
    assert names.MESSAGING_KAFKA_MESSAGE_KEY not in span.attributes
    assert span.parent is None
    [duration] = exported.points(messaging_metrics.MESSAGING_PROCESS_DURATION)
    assert duration.attributes["error.type"] == "ZeroDivisionError"


def test_counters_come_from_the_client(api, broker, address, topic, exported):
    topic_and_error = (names.MESSAGING_DESTINATION_NAME, "error.type")
    with api.producer(address, client_id="p", linger_ms=0, retry_backoff_ms=1) as producer:
        otel.observe(producer, meter_provider=exported.meter_provider)
        otel.observe(producer, meter_provider=exported.meter_provider)
        api.result(api(producer.send_many(topic, [b"v"] * 5)))
        assert exported.sums(messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES, *topic_and_error) == {(topic, None): 5}
        assert exported.sums("kafka.producer.record_send_total", "topic", "client-id") == {(topic, "p"): 5}
        [buffer] = exported.points("kafka.producer.buffer_total_bytes")
        assert buffer.value == 64 << 20
        broker.fail("Produce", "INVALID_RECORD")
        with pytest.raises(ottla.KafkaError):
            api.result(api(producer.send(topic, b"v")))
        sums = exported.sums(messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES, *topic_and_error)
        assert sums == {(topic, None): 5, (topic, "_OTHER"): 1}
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        otel.observe(consumer, meter_provider=exported.meter_provider)
        api.poll(consumer, 5)
        consumed = exported.sums(messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES, names.MESSAGING_DESTINATION_NAME)
        assert consumed == {(topic,): 5}
        lags = exported.sums("kafka.consumer.records_lag", "topic", "partition")
        assert lags.keys() <= {(topic, "0"), (topic, "1")}
        assert lags
    del consumer, producer
    gc.collect()
    assert exported.points("kafka.producer.record_send_total") == []


def test_only_clients_can_be_instrumented(address):
    with pytest.raises(TypeError, match="not object"):
        otel.instrument(object())
    with ottla.Admin(address) as admin:
        assert otel.instrument(admin) is admin


def test_a_wrapped_client_is_a_client(api, address, topic, exported):
    with api.producer(address) as plain:
        producer = otel.instrument(plain, **exported.providers)
        assert producer.metrics().keys() == plain.metrics().keys()
        assert api(producer.partitions_for(topic)) == [0, 1]
        with pytest.raises(AttributeError, match=r"write .*producer\.send"):
            producer.produce  # noqa: B018 it is about the attribute
        api.result(api(producer.send(topic, b"v", partition=0)))
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as reader:
        consumer = otel.instrument(reader, **exported.providers)
        assert [r.value for r in api.take(consumer, 1)] == [b"v"]


def test_ottla_needs_no_opentelemetry():
    code = "import sys; sys.modules['opentelemetry'] = None\nimport ottla, ottla.aio, ottla.testing\nprint('fine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "fine\n", done.stderr
