"""Assign by hand, store offsets, commit with on_commit, incremental changes, pause."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

servers, topic, group = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers})
for number in range(9):
    producer.produce(topic, str(number), partition=number % 3, timestamp=1_700_000_000_000 + number)
print(producer.flush(20))

settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
commits = []
consumer = Consumer(
    {
        **settings,
        "enable.auto.offset.store": False,
        "enable.auto.commit": False,
        "on_commit": lambda error, partitions: commits.append(
            (error, [(at.partition, at.offset) for at in partitions])
        ),
    }
)


def consume(count):
    found = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += [message for message in consumer.consume(count - len(found), 0.5) if message.error() is None]
    return sorted((message.partition(), message.offset(), message.value()) for message in found), found


consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(3)])
shown, messages = consume(9)
print(shown)
print("position", [at.offset for at in consumer.position([TopicPartition(topic, number) for number in range(3)])])
first = next(message for message in messages if message.partition() == 1 and message.offset() == 1)
consumer.store_offsets(message=first)
consumer.commit()
deadline = time.monotonic() + 30
while not commits and time.monotonic() < deadline:
    consumer.poll(0.1)
print("on_commit", commits)
consumer.incremental_unassign([TopicPartition(topic, 0)])
print("assignment", sorted((at.topic, at.partition) for at in consumer.assignment()))
consumer.incremental_assign([TopicPartition(topic, 0, 2)])
print("again", consume(1)[0])
for call, argument in (("incremental_assign", 0), ("incremental_unassign", 7)):
    try:
        getattr(consumer, call)([TopicPartition(topic, argument, 0)])
    except KafkaException as error:
        print(call, error.args[0].name())
found = consumer.offsets_for_times(
    [TopicPartition(topic, number, 1_700_000_000_004) for number in range(3)], timeout=20
)
print("times", [(at.partition, at.offset) for at in found])
consumer.pause([TopicPartition(topic, 1)])
for number in range(3):
    consumer.seek(TopicPartition(topic, number, 1))
print("paused", consume(4)[0])
consumer.resume([TopicPartition(topic, 1)])
print("resumed", consume(2)[0])
consumer.close()

consumer = Consumer(settings)
print(
    "committed",
    [at.offset for at in consumer.committed([TopicPartition(topic, number) for number in range(3)], timeout=20)],
)
consumer.close()

# With automatic commits, close commits what was returned, and the next member continues there.
consumer = Consumer({**settings, "group.id": f"{group}-automatic"})
consumer.subscribe(["^" + topic])
print("first", len(consume(9)[1]))
consumer.close()
producer.produce(topic, "new", partition=2)
producer.flush(20)
consumer = Consumer({**settings, "group.id": f"{group}-automatic"})
consumer.subscribe([topic])
print("then", consume(1)[0])
consumer.close()
