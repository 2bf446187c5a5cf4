"""Offsets that a client keeps, partitions that calls return and take, and what admin calls say of things that are absent."""

import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

servers, topic, group = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers})
pair = [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def produce(count):
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    producer.flush(30)


def kept():
    return [consumer.get_watermark_offsets(at, cached=True) for at in pair]


def until(reached):
    """Poll until the kept offsets are these: responses to fetches bring them."""
    deadline = time.monotonic() + 30
    while kept() != reached and time.monotonic() < deadline:
        consumer.poll(0.1)
    print("kept", kept())


produce(10)
settings = {
    "bootstrap.servers": servers,
    "group.id": group,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
consumer = Consumer(settings)
print("new", kept())
consumer.subscribe([topic])
until([(0, 10), (0, 0)])
produce(5)
until([(0, 15), (0, 0)])
print("absent", consumer.get_watermark_offsets(TopicPartition(topic, 77), cached=True))
print(consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)[0].offset)
committed, positions = consumer.committed(pair, timeout=30), consumer.position([TopicPartition(topic, 2)])
print([at.offset for at in committed], [at.offset for at in positions])
# What a call takes stays as it is, and what it returned stays as it is, too.
consumer.position(committed)
print([at.offset for at in pair], [at.offset for at in committed])
consumer.close()

share = ShareConsumer({"bootstrap.servers": servers, "group.id": f"{group}-share"})
share.subscribe([topic])
admin = AdminClient({"bootstrap.servers": servers})
deadline = time.monotonic() + 30
found = []
while not found and time.monotonic() < deadline:
    share.poll(timeout=0.2)
    found = admin.list_groups(f"{group}-share", timeout=30)
print([(each.id == f"{group}-share", each.state, each.protocol_type, each.members, each.error) for each in found])
share.close()

described = admin.describe_consumer_groups([group], include_authorized_operations=True)[group].result(30)
print([operation.name for operation in described.authorized_operations])
cluster = admin.describe_cluster(include_authorized_operations=True).result(30)
print([operation.name for operation in cluster.authorized_operations])
# With one that exists: librdkafka has another code for calls that no broker can respond to.
wanted = [TopicPartition(topic, 0), TopicPartition(topic, 77), TopicPartition("nothing", 0)]
calls = [
    admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest())),
    admin.delete_records([TopicPartition(at.topic, at.partition, 0) for at in wanted]),
]
for futures in calls:
    for at, future in sorted(futures.items()):
        try:
            found = future.result(30)
            print(getattr(found, "offset", None), getattr(found, "low_watermark", None))
        except KafkaException as error:
            print(at.topic == topic, error.args[0].name())
