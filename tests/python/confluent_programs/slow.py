"""An application that polls without waiting, and one that is slower than max.poll.interval.ms with what it has fetched."""

import sys
import time

from confluent_kafka import Consumer, Producer

servers, topic, group = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers})
for number in range(8):
    producer.produce(topic, str(number), partition=number % 3)
print(producer.flush(20), producer.poll(0))
settings = {
    "bootstrap.servers": servers,
    "auto.offset.reset": "earliest",
    "max.poll.interval.ms": 6000,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
}
consumer = Consumer({**settings, "group.id": f"{group}-impatient"})
consumer.subscribe([topic])
values = []
deadline = time.monotonic() + 30
while len(values) < 8 and time.monotonic() < deadline:
    message = consumer.poll(0)
    if message is None:
        time.sleep(0.01)
    elif message.error() is None:
        values.append(message.value())
print(sorted(values))
consumer.close()

events = []
consumer = Consumer({**settings, "group.id": f"{group}-slow"})
consumer.subscribe([topic], on_revoke=lambda *_: events.append("revoked"), on_lost=lambda *_: events.append("lost"))
values = []
deadline = time.monotonic() + 60
while len(values) < 8 and time.monotonic() < deadline:
    message = consumer.poll(1)
    if message is not None and message.error() is None:
        values.append(message.value())
        time.sleep(1)
print(sorted(values), events)
print(consumer.poll(0.5))
consumer.close()
print(events)
