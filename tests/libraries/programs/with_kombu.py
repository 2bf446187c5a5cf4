"""kombu's messages on share groups. Arguments: address."""

import contextlib
import json
import sys
import time

from kombu import Connection, Queue
from tests.libraries.topics import quickest

import ottla.integrations.kombu

assert ottla.integrations.kombu.topic_of("celery@host é") == "celery.host.."
[address] = sys.argv[1:]
url, options = f"ottla://{address}", {"wait": 0.1, "topic": {"partitions": 2}}


def receive(connection, queue, count, patience=20):
    """Take messages without saying anything of them."""
    found = []
    with connection.Consumer(
        Queue(queue), callbacks=[lambda body, message: found.append((body, message))], prefetch_count=count
    ):
        end = time.monotonic() + patience
        while len(found) < count and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=1)
    return found


def nothing(connection, queue):
    return receive(connection, queue, 1, patience=2) == []


# A connection fails if brokers are away, and takes the next URL then.
try:
    Connection("ottla://127.0.0.1:1", connect_timeout=1).connect()
except ottla.errors.KafkaError:
    pass
else:
    raise AssertionError("connected to nothing")
with Connection(f"ottla://127.0.0.1:1;{url}", connect_timeout=9) as connection:
    assert connection.connect()
    assert connection.port == int(address.rpartition(":")[2])

with Connection(url, transport_options=options) as connection:
    with connection.SimpleQueue("simple") as queue:
        queue.put({"hello": "world"}, headers={"x": "y"})
        message = queue.get(timeout=20)
        assert (message.payload, message.headers["x"]) == ({"hello": "world"}, "y")
        message.ack()

    def put(queue, *bodies):
        with connection.Producer() as producer:
            for body in bodies:
                producer.publish(body, routing_key=queue, declare=[Queue(queue)])

    # Several messages are held at a time; what is accepted or rejected does not come again, and what is requeued does.
    put("jobs", *range(6))
    held = dict(receive(connection, "jobs", 6))
    assert sorted(held) == list(range(6))
    assert all(message.delivery_info["delivery_count"] == 1 for message in held.values())
    for body, message in held.items():
        (message.ack, message.reject, message.requeue)[body % 3]()
    again = dict(receive(connection, "jobs", 2))
    assert sorted(again) == [2, 5]
    assert all(message.delivery_info["delivery_count"] == 2 for message in again.values())
    assert all(message.delivery_info["redelivered"] for message in again.values())
    again[2].ack()

    # What a connection holds when it closes goes to another one.
    again[5].channel.connection.client.release()

with Connection(url, transport_options=options) as connection:
    [(body, message)] = receive(connection, "jobs", 1)
    assert (body, message.delivery_info["delivery_count"]) == (5, 3)
    message.ack()
    assert nothing(connection, "jobs")

    # Without acknowledgement a message is accepted at once.
    with connection.channel() as channel, connection.Producer(channel) as producer:
        producer.publish("lost", routing_key="jobs")
        end = time.monotonic() + 20
        while (message := channel.basic_get("jobs", no_ack=True)) is None and time.monotonic() < end:
            pass
        assert message.decode() == "lost"
    assert nothing(connection, "jobs")

    def round_trip():
        with connection.SimpleQueue("hundred") as queue:
            for number in range(100):
                queue.put(number)
            found = []
            for _ in range(100):
                message = queue.get(timeout=20)
                found.append(message.payload)
                message.ack()
            return found

    found, seconds = quickest(round_trip, most=2)
    assert sorted(found) == list(range(100))
print(json.dumps({"hundred": seconds}))
