"""A script for aiokafka with OpenTelemetry's instrumentation: the spans of a producer and a consumer."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from opentelemetry import trace
from opentelemetry.instrumentation.aiokafka import AIOKafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

servers, topic, group = sys.argv[1:]
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
sent, received = [], []


async def on_send(span, arguments, named):
    sent.append((arguments[0], sorted(named)))


async def on_consume(span, record, arguments, named):
    received.append((record.key, record.value, sorted(name for name, _ in record.headers)))


def show(title):
    print(title)
    for span in exporter.get_finished_spans():
        hidden = {"messaging.client_id", "messaging.message.id"}
        attributes = {name: value for name, value in span.attributes.items() if name not in hidden}
        print(" ", span.name, span.kind.name, sorted(attributes.items()), len(span.links), span.parent is not None)
    exporter.clear()


async def main():
    async with AIOKafkaProducer(bootstrap_servers=servers, client_id="sender") as producer:
        for number in range(3):
            await producer.send_and_wait(topic, f"v{number}".encode(), key=b"k%d" % number, partition=0)
        await asyncio.gather(*[await producer.send(topic, b"more", partition=0, headers=[("shop", b"n")])])
        show("sent")
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, client_id="reader", group_id=group, auto_offset_reset="earliest"
    )
    await consumer.start()
    print((await consumer.getone()).value, (await consumer.__anext__()).value)
    found = await consumer.getmany(timeout_ms=20000, max_records=2)
    print([record.value for records in found.values() for record in records])
    await consumer.stop()
    show("received")


instrumentor = AIOKafkaInstrumentor()
instrumentor.instrument(async_produce_hook=on_send, async_consume_hook=on_consume)
asyncio.run(main())
instrumentor.uninstrument()
print(sent)
print(received)
