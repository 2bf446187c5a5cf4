"""Admin calls: configurations, partitions, records, leaders."""

import sys
import time

from confluent_kafka import ElectionType, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

servers, topic, _ = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": servers})


def name_of(future):
    error = future.exception(20)
    return None if error is None else error.args[0].name()


def shown(entry):
    plain = (entry.value, int(entry.source), entry.is_read_only, entry.is_default, entry.is_sensitive, entry.is_synonym)
    return (
        *plain,
        sorted((each.name, each.value, int(each.source), each.is_synonym) for each in entry.synonyms.values()),
    )


def described(name, wanted=()):
    """The entries, when those have the values wanted: brokers learn of a change after the controller has responded."""
    end = time.monotonic() + 20
    while True:
        (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        entries = future.result(20)
        if all(entries[key].value == value for key, value in wanted) or time.monotonic() > end:
            return entries
        time.sleep(0.1)


def changed(*entries):
    resource = ConfigResource("topic", topic, incremental_configs=list(entries))
    (future,) = admin.incremental_alter_configs([resource], request_timeout=20).values()
    return name_of(future)


# Configurations.
found = described(topic)
for name in ("retention.ms", "cleanup.policy", "min.insync.replicas"):
    print(name, shown(found[name]))
print(changed(ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)))
print(changed(ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)))
both = described(topic, [("retention.ms", "12345"), ("cleanup.policy", "delete,compact")])
print(shown(both["retention.ms"]), both["cleanup.policy"].value)
print(changed(ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)))
print(changed(ConfigEntry("no.such", "1", incremental_operation=AlterConfigOpType.SET)))
print(described(topic, [("retention.ms", found["retention.ms"].value)])["retention.ms"].value)
broker = ConfigResource(ResourceType.BROKER, str(next(iter(admin.list_topics(timeout=20).brokers))))
(future,) = admin.describe_configs([broker]).values()
print(sorted(future.result(20))[:2], future.result(20)["num.partitions"].is_default)

print(changed(ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SUBTRACT)))
print(described(topic, [("cleanup.policy", "delete")])["cleanup.policy"].value)

# Partitions.
grown = admin.create_partitions([NewPartitions(topic, 5), NewPartitions(f"{topic}-none", 2)])
print(sorted((name.endswith("none"), name_of(future)) for name, future in grown.items()))
print(name_of(admin.create_partitions([NewPartitions(topic, 2)])[topic]))
print(name_of(admin.create_partitions([NewPartitions(topic, 9)], validate_only=True)[topic]))
print(name_of(admin.create_partitions([NewPartitions(topic, 6, replica_assignment=[[99]])])[topic]))
deadline = time.monotonic() + 30
while len(admin.list_topics(topic, timeout=20).topics[topic].partitions) < 5 and time.monotonic() < deadline:
    time.sleep(0.1)
print(sorted(admin.list_topics(topic, timeout=20).topics[topic].partitions))
leader = admin.list_topics(topic, timeout=20).topics[topic].partitions[0].leader
chosen = f"{topic}-chosen"
print(name_of(admin.create_topics([NewTopic(chosen, 2, replica_assignment=[[leader], [leader]])])[chosen]))
print(name_of(admin.create_topics([NewTopic(f"{chosen}-not", 1, replica_assignment=[[99]])])[f"{chosen}-not"]))
deadline = time.monotonic() + 30
while chosen not in admin.list_topics(timeout=20).topics and time.monotonic() < deadline:
    time.sleep(0.1)
(future,) = admin.describe_topics(TopicCollection([chosen]), include_authorized_operations=True).values()
print(len(future.result(20).partitions), sorted(each.name for each in future.result(20).authorized_operations))
print(name_of(admin.delete_topics([chosen])[chosen]))

# Records and offsets.
producer = Producer({"bootstrap.servers": servers})
for number in range(9):
    producer.produce(topic, str(number), partition=number % 3, timestamp=1_700_000_000_000 + (7 * number) % 9)
producer.flush(20)
parts = [TopicPartition(topic, 0, 2), TopicPartition(topic, 1, -1), TopicPartition(topic, 2, 50)]
deleted = admin.delete_records([*parts, TopicPartition(f"{topic}-none", 0, 1)])
for at, future in sorted(deleted.items()):
    error = future.exception(20)
    print(at.partition, future.result().low_watermark if error is None else error.args[0].name())
specs = {
    TopicPartition(topic, 0): OffsetSpec.earliest(),
    TopicPartition(topic, 1): OffsetSpec.max_timestamp(),
    TopicPartition(topic, 2): OffsetSpec.max_timestamp(),
    TopicPartition(topic, 3): OffsetSpec.for_timestamp(1_700_000_000_000),
}
for at, future in sorted(admin.list_offsets(specs).items()):
    print(at.partition, future.result(20).offset, future.result(20).timestamp)

# Leaders.
found = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0), TopicPartition(f"{topic}-none", 0)])
print(sorted((at.topic.endswith("none"), error and error.name()) for at, error in found.result(20).items()))
