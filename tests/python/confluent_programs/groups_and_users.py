"""Admin calls: groups, access control lists, credentials for SCRAM."""

import sys
import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

servers, topic, group = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": servers})


def name_of(future):
    error = future.exception(20)
    return None if error is None else error.args[0].name()


# Groups.
producer = Producer({"bootstrap.servers": servers})
producer.produce(topic, "x", partition=0)
producer.flush(20)
consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
deadline = time.monotonic() + 30
while consumer.poll(0.5) is None and time.monotonic() < deadline:
    pass
described = admin.describe_consumer_groups([group], include_authorized_operations=True)[group].result(20)
print(described.coordinator.port == int(servers.rpartition(":")[2]), described.type, described.state)
print(sorted(each.name for each in described.authorized_operations))
print([(member.target_assignment, len(member.assignment.topic_partitions)) for member in described.members])
(listed,) = admin.list_groups(group, timeout=20)
print(listed.state, listed.protocol_type, listed.protocol, listed.error, len(listed.members))
print([(len(member.metadata) > 20, len(member.assignment) > 20) for member in listed.members])
print(admin.list_groups("no-such-group", timeout=20), group in {each.id for each in admin.list_groups(timeout=20)})
change = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
print(name_of(admin.alter_consumer_group_offsets([change])[group]))
print(name_of(admin.delete_consumer_groups([group])[group]))
consumer.close()
mixed = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1), TopicPartition(f"{topic}-none", 0, 1)])
altered = admin.alter_consumer_group_offsets([mixed])[group].result(20).topic_partitions
print(sorted((at.topic.endswith("none"), at.offset, at.error and at.error.name()) for at in altered))
everything = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
print([(at.partition, at.offset) for at in everything.topic_partitions])
removed = admin.delete_consumer_groups([group, f"{group}-none"])
print([name_of(future) for future in removed.values()])

# Access control lists.
fields = (ResourcePatternType.LITERAL, f"User:{topic}", "*")
rules = [
    AclBinding(ResourceType.TOPIC, topic, *fields, AclOperation.READ, AclPermissionType.ALLOW),
    AclBinding(ResourceType.GROUP, group, *fields, AclOperation.READ, AclPermissionType.DENY),
    AclBinding(ResourceType.BROKER, "kafka-cluster", *fields, AclOperation.CREATE, AclPermissionType.ALLOW),
    AclBinding(ResourceType.TOPIC, "", *fields, AclOperation.READ, AclPermissionType.ALLOW),
]
print([name_of(future) for future in admin.create_acls(rules).values()])
mine = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    f"User:{topic}",
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
print(sorted(admin.describe_acls(mine).result(20)) == sorted(rules[:3]))
topics_only = AclBindingFilter(
    ResourceType.TOPIC,
    topic,
    ResourcePatternType.MATCH,
    f"User:{topic}",
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
deleted = admin.delete_acls([topics_only, mine])
print([sorted(each.restype.name for each in future.result(20)) for future in deleted.values()])
print(admin.describe_acls(mine).result(20))

# Credentials for SCRAM.
users = [f"{topic}-{number}" for number in range(3)]
strong, weak = (
    ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
    ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 1),
)
made = admin.alter_user_scram_credentials(
    [
        UserScramCredentialUpsertion(users[0], strong, b"secret", b"salt"),
        UserScramCredentialUpsertion(users[1], weak, b"secret"),
        UserScramCredentialDeletion(users[2], ScramMechanism.SCRAM_SHA_256),
    ]
)
print([name_of(made[user]) for user in users])
found = admin.describe_user_scram_credentials(users[:2])
info = [(each.mechanism.name, each.iterations) for each in found[users[0]].result(20).scram_credential_infos]
print(found[users[0]].result(20).user == users[0], info, name_of(found[users[1]]))
print(users[0] in admin.describe_user_scram_credentials().result(20))
gone = admin.alter_user_scram_credentials([UserScramCredentialDeletion(users[0], ScramMechanism.SCRAM_SHA_256)])
print(name_of(gone[users[0]]), name_of(admin.describe_user_scram_credentials([users[0]])[users[0]]))
