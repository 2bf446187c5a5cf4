"""Quix's tutorials: a producer, a filter and a running total per key to another topic, a window, plain clients."""

import json
import sys
import tempfile
import time

from quixstreams import Application
from quixstreams.models import TopicConfig

servers, topic, group = sys.argv[1:]
OUT, WINDOWS = f"{topic}-out", f"{topic}-windows"


def application(name, folder):
    return Application(
        broker_address=servers,
        consumer_group=f"{group}-{name}",
        auto_offset_reset="earliest",
        state_dir=folder,
        loglevel="ERROR",
        commit_interval=0.5,
    )


def total(order, state):
    sold = state.get("sold", 0) + order["amount"]
    state.set("sold", sold)
    return {"item": order["item"], "sold": sold}


def read(app, name, count):
    found, deadline = [], time.monotonic() + 40
    with app.get_consumer() as consumer:
        consumer.subscribe([name])
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append((message.key(), json.loads(message.value()), message.timestamp()[0]))
                consumer.store_offsets(message=message)
    return found


def main(folder):
    app = application("totals", folder)
    orders = app.topic(topic, value_deserializer="json", key_deserializer="str", config=TopicConfig(3, 1))
    totals = app.topic(OUT, value_serializer="json", key_serializer="str", config=TopicConfig(1, 1))
    windows = app.topic(WINDOWS, value_serializer="json", key_serializer="str", config=TopicConfig(1, 1))
    with app.get_producer() as producer:
        for number in range(12):
            order = {"item": ("pen", "cup", "hat")[number % 3], "amount": number}
            message = orders.serialize(
                key=order["item"],
                value=order,
                timestamp_ms=1_700_000_000_000 + number * 500,
                headers={"n": str(number)},
            )
            producer.produce(
                topic=topic,
                key=message.key,
                value=message.value,
                timestamp=message.timestamp,
                headers=message.headers,
            )
    frame = app.dataframe(orders)
    frame = frame[frame["amount"] != 4]
    frame = frame.apply(total, stateful=True)
    frame.update(lambda row: print("row", row) if row["item"] == "pen" else None)
    frame.to_topic(totals, key=lambda row: row["item"])
    app.run(count=11, timeout=60)
    print(sorted(read(app, OUT, 11), key=str))

    app = application("windows", folder)
    frame = app.dataframe(app.topic(topic, value_deserializer="json", key_deserializer="str"))
    frame = frame.apply(lambda order: order["amount"]).tumbling_window(2000).sum().current()
    frame.to_topic(windows)
    app.run(count=12, timeout=60)
    print(sorted(read(app, WINDOWS, 12), key=str))


with tempfile.TemporaryDirectory() as folder:
    main(folder)
