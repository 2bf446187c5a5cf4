"""A script for confluent-kafka with OpenTelemetry's instrumentation: the spans of a producer and a consumer."""

import sys
import time

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from opentelemetry import trace
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

servers, topic, group = sys.argv[1:]
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
CONSUMER = {
    "bootstrap.servers": servers,
    "group.id": group,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}


def show(title):
    print(title)
    for span in exporter.get_finished_spans():
        attributes = {
            name: value for name, value in span.attributes.items() if name != "messaging.kafka.message.offset"
        }
        print(" ", span.name, span.kind.name, span.status.status_code.name, sorted(attributes.items()), len(span.links))
    exporter.clear()


def polled(consumer, count):
    found, deadline = [], time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message)
    return found


# Wrapped objects.
instrumentor = ConfluentKafkaInstrumentor()
producer = instrumentor.instrument_producer(Producer({"bootstrap.servers": servers}))
delivered = []
for number in range(3):
    producer.produce(
        topic,
        key=f"k{number}",
        value=f"v{number}",
        partition=0,
        on_delivery=lambda e, m: delivered.append((e, m.key())),
    )
print(producer.flush(), delivered)
show("produced")
consumer = instrumentor.instrument_consumer(Consumer(CONSUMER))
consumer.subscribe([topic])
for message in polled(consumer, 2):
    print(message.key(), message.value(), [name for name, _ in message.headers()])
rest = consumer.consume(1, 20)
print([message.value() for message in rest])
print([at.offset for at in consumer.commit(rest[-1], asynchronous=False)])
print([at.offset for at in consumer.committed([TopicPartition(topic, 0)], 20)])
consumer.close()
show("consumed")

# All clients that are made later, through the module.
instrumentor.instrument()
with_headers = confluent_kafka.Producer({"bootstrap.servers": servers})
with trace.get_tracer("program").start_as_current_span("request"):
    with_headers.produce(topic, "last", "key", 0, headers=[("shop", b"north")])
    with_headers.poll(0)
print(with_headers.flush(20))
later = confluent_kafka.Consumer({**CONSUMER, "group.id": f"{group}-2"})
later.subscribe([topic])
last = polled(later, 4)[-1]
print(last.value(), sorted(name for name, _ in last.headers()))
later.close()
instrumentor.uninstrument()
show("through the module")
