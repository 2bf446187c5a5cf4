"""Transactions: states, a commit, an abort, offsets of a group; reading what is committed."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

servers, topic, group = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers, "transactional.id": f"t-{group}"})


def named(call, *arguments):
    try:
        call(*arguments)
    except KafkaException as error:
        return error.args[0].name()
    return None


print("begin", named(producer.begin_transaction))
print("not transactional", named(Producer({"bootstrap.servers": servers}).begin_transaction))
producer.init_transactions(20)
producer.begin_transaction()
print("again", named(producer.begin_transaction))
producer.produce(topic, "committed", partition=0)
producer.commit_transaction(20)
producer.begin_transaction()
producer.produce(topic, "aborted", partition=0)
producer.abort_transaction(20)
producer.begin_transaction()
producer.produce(topic, "last", partition=0)
producer.commit_transaction(20)

consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
values = []
deadline = time.monotonic() + 30
while values[-1:] != [b"last"] and time.monotonic() < deadline:
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        values.append(message.value())
print(values)


def reached(offset):
    """Poll until the position is this: markers of transactions move it, too."""
    deadline = time.monotonic() + 30
    while (found := consumer.position([TopicPartition(topic, 0)])[0].offset) != offset and time.monotonic() < deadline:
        consumer.poll(0.2)
    return found


end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1]
print("at the end", reached(end) == end)
consumer.seek(TopicPartition(topic, 0, end - 1))
print("after a seek", consumer.position([TopicPartition(topic, 0)])[0].offset, reached(end) == end)
producer.begin_transaction()
producer.produce(topic, "with offsets", partition=0)
positions = consumer.position([TopicPartition(topic, 0)])
producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 20)
producer.commit_transaction(20)
print("committed", consumer.committed([TopicPartition(topic, 0)], timeout=20)[0].offset == positions[0].offset)


producer.begin_transaction()
successor = Producer({"bootstrap.servers": servers, "transactional.id": f"t-{group}"})
successor.init_transactions(20)
metadata = consumer.consumer_group_metadata()
for call in (
    lambda: producer.send_offsets_to_transaction(positions, metadata, 20),
    lambda: producer.commit_transaction(20),
    producer.begin_transaction,
):
    try:
        call()
    except KafkaException as error:
        print("fenced", error.args[0].name(), error.args[0].fatal())
consumer.close()
