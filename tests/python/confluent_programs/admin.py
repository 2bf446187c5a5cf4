"""Admin calls: topics, the cluster, groups and their offsets."""

import sys
import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

servers, topic, group = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": servers})
made = f"{topic}-made"
print(admin.create_topics([NewTopic(made, 2, 1, config={"retention.ms": "1000"})])[made].result(20))
print(admin.create_topics([NewTopic(made, 2, 1)])[made].exception(20).args[0].name())
print(admin.create_topics([NewTopic(f"{topic}-checked", 2, 1)], validate_only=True)[f"{topic}-checked"].result(20))
deadline = time.monotonic() + 30
while made not in admin.list_topics(timeout=20).topics and time.monotonic() < deadline:
    time.sleep(0.1)
described = admin.describe_topics(TopicCollection([made, "no-such-topic"]))
found = described[made].result(20)
print(found.name, found.is_internal, [(at.id, at.leader.id, [node.id for node in at.isr]) for at in found.partitions])
print(described["no-such-topic"].exception(20).args[0].name())
cluster = admin.describe_cluster().result(20)
print(
    cluster.cluster_id == admin.list_topics(timeout=20).cluster_id, len(cluster.nodes), cluster.controller is not None
)

producer = Producer({"bootstrap.servers": servers})
for number in range(6):
    producer.produce(topic, str(number), partition=number % 3, timestamp=1_700_000_000_000 + number)
producer.flush(20)
wanted = {
    TopicPartition(topic, 0): OffsetSpec.earliest(),
    TopicPartition(topic, 1): OffsetSpec.latest(),
    TopicPartition(topic, 2): OffsetSpec.for_timestamp(1_700_000_000_005),
}
print([(at.partition, future.result(20).offset) for at, future in admin.list_offsets(wanted).items()])

consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
deadline = time.monotonic() + 30
while consumer.poll(0.5) is None and time.monotonic() < deadline:
    pass
(future,) = admin.describe_consumer_groups([group]).values()
found = future.result(20)
print(found.state, found.is_simple_consumer_group, found.partition_assignor)
print([sorted((at.topic, at.partition) for at in member.assignment.topic_partitions) for member in found.members])
consumer.close()
listed = admin.list_consumer_groups().result(20)
print([(at.state, at.is_simple_consumer_group) for at in listed.valid if at.group_id == group], listed.errors)
change = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 2)])
print(
    [[at.offset for at in f.result(20).topic_partitions] for f in admin.alter_consumer_group_offsets([change]).values()]
)
question = ConsumerGroupTopicPartitions(
    group, [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(made, 1)]
)
(future,) = admin.list_consumer_group_offsets([question]).values()
print(sorted((at.topic, at.partition, at.offset) for at in future.result(20).topic_partitions))
print(admin.delete_topics([made])[made].result(20))
