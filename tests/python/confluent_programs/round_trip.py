"""Produce with callbacks, consume as a group with the ends of partitions, commit, seek, look up metadata."""

import pickle
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

servers, topic, group = sys.argv[1:]
delivered = []
producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
for number in range(10):
    producer.produce(
        topic,
        f"v{number}",
        key=f"k{number}",
        headers=[("h", b"x")] if number == 3 else None,
        timestamp=1_700_000_000_000 + number,
        on_delivery=lambda error, m: delivered.append(
            (m.key(), error, m.topic(), m.partition(), m.offset(), m.value(), m.headers(), m.timestamp())
        ),
    )
print("queued", len(producer) > 0, "left", producer.flush(20), len(producer))
for row in sorted(delivered):
    print(row)

consumer = Consumer(
    {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
)
consumer.subscribe(
    [topic],
    on_assign=lambda _, partitions: print("assigned", sorted((at.topic, at.partition, at.offset) for at in partitions)),
    on_revoke=lambda _, partitions: print("revoked", sorted((at.topic, at.partition) for at in partitions)),
)
messages, ends = [], []
deadline = time.monotonic() + 30
while time.monotonic() < deadline and (len(messages) < 10 or len(ends) < 3):
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        messages.append(message)
    elif message is not None:
        assert message.error().code() == KafkaError._PARTITION_EOF
        ends.append((message.partition(), message.offset()))
print("ends", sorted(ends))
for m in sorted(messages, key=lambda m: m.key()):
    print(
        m.topic(),
        m.partition(),
        m.offset(),
        m.key(),
        m.value(),
        m.headers(),
        m.timestamp(),
        m.error(),
        len(m),
        m.leader_epoch(),
    )
every = [TopicPartition(topic, number) for number in range(3)]
print("position", consumer.position(every))
print("commit", sorted((at.partition, at.offset, at.error) for at in consumer.commit(asynchronous=False)))
print("committed", [at.offset for at in consumer.committed(every, timeout=20)])
print("watermarks", [consumer.get_watermark_offsets(at, timeout=20) for at in every])
consumer.seek(TopicPartition(topic, messages[0].partition(), 0))
deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        print("after seek", message.offset())
        break
metadata = consumer.list_topics(topic, timeout=20)
print("metadata", sorted(metadata.topics), sorted(metadata.topics[topic].partitions), len(metadata.brokers))
try:
    consumer.store_offsets(offsets=[TopicPartition(topic, 0, 1)])
except KafkaException as error:
    print("store_offsets", error.args[0].name())
consumer.subscribe([f"{topic}-none"])
deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    message = consumer.poll(0.5)
    if message is not None and message.error() is not None and message.error().code() != KafkaError._PARTITION_EOF:
        print("missing", message.error().name(), message.topic(), message.partition())
        break
consumer.close()
try:
    consumer.poll(0)
except RuntimeError as error:
    print(error)
again = pickle.loads(pickle.dumps(messages[0]))
print("pickled", again == messages[0], again.value() == messages[0].value())
