"""What the admin clients of confluent-kafka and kafka-python return, step by step, as texts that can be compared between brokers."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import confluent_kafka
import kafka
import kafka.admin
from confluent_kafka import admin as confluent
from kafka.structs import OffsetAndMetadata

import ottla

Step = tuple[str, Callable[[], Any]]
SECONDS = 30
PREFERRED = 0
TIME = 1_700_000_000_000
# Keys of the texts of errors.
TEXTS = {"text", "error_message"}
# Keys of values that differ from run to run: ids, ports, epochs of elections, times and versions.
RUN = {
    *("cluster_id", "topic_id", "producer_id", "host", "port", "log_dir", "directory_id", "replica_directory_id"),
    *("leader_epoch", "current_leader_epoch", "finalized_features_epoch", "high_watermark", "log_end_offset"),
    *("last_timestamp", "last_fetch_timestamp", "last_caught_up_timestamp", "transaction_start_time_ms"),
    *("total_bytes", "usable_bytes", "throttle_time_ms"),
}


def fill(bootstrap: str) -> None:
    """A topic with records, one with a transaction, and a group."""
    with ottla.Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic("flights", 2, 1), ottla.NewTopic("moved", 1, 1)])
        admin.alter_group_offsets("readers", {("flights", 0): 1, ("flights", 1): 2})
    with ottla.Producer(bootstrap, linger_ms=0) as producer:
        for i in range(6):
            producer.send("flights", b"v", partition=i % 2, timestamp=TIME + i).result(SECONDS)
    with ottla.Producer(bootstrap, transactional_id="pilot") as producer, producer.transaction():
        producer.send("moved", b"w").result(SECONDS)


def run(bootstrap: str, steps: Callable[[str], Iterator[Step]]) -> dict[str, Any]:
    """What each step returned, or the error that it raised."""
    return {name: outcome(call) for name, call in steps(bootstrap)}


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returned, or its error."""
    try:
        return shown(call())
    except (confluent_kafka.KafkaException, kafka.errors.KafkaError) as error:
        return shown(error)


def without_texts(value: Any) -> Any:
    """An outcome without the texts of errors, which are a broker's own."""
    if isinstance(value, dict):
        return {key: without_texts(each) for key, each in value.items() if key not in TEXTS}
    if isinstance(value, list):
        return [without_texts(each) for each in value]
    return re.sub(r"(\[Error \d+\] \w+): .*", r"\1", value) if isinstance(value, str) else value


def shown(value: Any) -> Any:
    """A value without what differs from run to run, of plain types only."""
    if isinstance(value, Future):
        try:
            value = value.result(SECONDS)
        except confluent_kafka.KafkaException as error:
            return failure(error)
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return value.name if isinstance(value, enum.Enum) else value
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
        return [shown(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted((shown(each) for each in value), key=repr)
    found = failure(value) or place(value)
    return shown_object(value) if found is None else found


def failure(value: Any) -> dict[str, Any] | None:
    """The name and the text of an error; None if the value is something else."""
    if isinstance(value, confluent_kafka.KafkaException):
        value = value.args[0]
    if isinstance(value, confluent_kafka.KafkaError):
        return {"error": value.name(), "text": cleaned(value.str())}
    if isinstance(value, kafka.errors.KafkaError):
        return {"error": type(value).__name__, "text": cleaned(str(value))}
    return {"error": value.__name__} if isinstance(value, type) and issubclass(value, Exception) else None


def place(value: Any) -> Any:
    """A partition, with its offset and its error if it has them; None if the value is something else."""
    if not isinstance(value, (confluent_kafka.TopicPartition, kafka.TopicPartition)):
        return None
    name = f"{value.topic}:{value.partition}"
    offset = getattr(value, "offset", confluent_kafka.OFFSET_INVALID)
    if offset == confluent_kafka.OFFSET_INVALID:
        return name
    return {"partition": name, "offset": offset, "error": shown(getattr(value, "error", None))}


def shown_object(value: Any) -> Any:
    """An object or a mapping, without attributes that differ from run to run."""
    if isinstance(value, enum.Enum):
        return value.name
    for name in ("_asdict", "to_dict"):
        if hasattr(value, name):
            value = getattr(value, name)()
    if not isinstance(value, Mapping):
        value = {name: each for name, each in attributes(value).items() if not (name.startswith("_") or callable(each))}
    items = {text(key): each for key, each in value.items()}
    return {key: shown(each) for key, each in sorted(items.items()) if key not in RUN}


def text(key: Any) -> str:
    """A key of a dictionary as text."""
    found = key if isinstance(key, str) else shown(key)
    return found if isinstance(found, str) else repr(found)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, whether it has a dictionary or slots or neither."""
    if hasattr(value, "__dict__"):
        return vars(value)
    return {name: getattr(value, name) for name in dir(value) if not name.startswith("_")}


def cleaned(text: str) -> str:
    """A text without addresses, times and ids."""
    text = re.sub(r"\b(?:127\.0\.0\.1|localhost)(?::\d+)?", "broker", text)
    return re.sub(r"\b[\w-]{22}\b(?=')", "id", text)


def properties(bootstrap: str) -> list[str]:
    """The properties that topics have, by their names."""
    with ottla.Admin(bootstrap) as admin:
        [entries] = admin.describe_configs([("TOPIC", "flights")]).values()
    return [entry.name for entry in entries]


# --- confluent-kafka ---


def of_confluent(bootstrap: str) -> Iterator[Step]:
    """The steps, in an order in which they can run."""
    admin = confluent.AdminClient({"bootstrap.servers": bootstrap})
    new = confluent.NewTopic
    topic = confluent.ConfigResource("topic", "flights")

    def partition(
        number: int, offset: int = confluent_kafka.OFFSET_INVALID, name: str = "flights"
    ) -> confluent_kafka.TopicPartition:
        return confluent_kafka.TopicPartition(name, number, offset)

    def group(
        *partitions: confluent_kafka.TopicPartition, name: str = "readers"
    ) -> confluent_kafka.ConsumerGroupTopicPartitions:
        return confluent_kafka.ConsumerGroupTopicPartitions(name, list(partitions) or None)

    def changed(*entries: tuple[str, str | None, str]) -> confluent.ConfigResource:
        made = [
            confluent.ConfigEntry(name, value, incremental_operation=confluent.AlterConfigOpType[kind])
            for name, value, kind in entries
        ]
        return confluent.ConfigResource("topic", "flights", incremental_configs=made)

    def configs(resource: confluent.ConfigResource) -> dict[str, Any]:
        [found] = admin.describe_configs([resource]).values()
        return {
            name: (entry.value, entry.source) for name, entry in found.result(SECONDS).items() if not entry.is_default
        }

    scram = confluent.ScramCredentialInfo(confluent.ScramMechanism.SCRAM_SHA_256, 8192)
    acl = confluent.AclBinding(
        confluent.ResourceType.TOPIC,
        "flights",
        confluent.ResourcePatternType.LITERAL,
        "User:carol",
        "*",
        confluent.AclOperation.READ,
        confluent.AclPermissionType.ALLOW,
    )
    every = confluent.AclBindingFilter(
        confluent.ResourceType.ANY,
        None,
        confluent.ResourcePatternType.ANY,
        None,
        None,
        confluent.AclOperation.ANY,
        confluent.AclPermissionType.ANY,
    )
    topics = confluent_kafka.TopicCollection
    yield (
        "create",
        lambda: admin.create_topics([new("made", 3, 1, config={"retention.ms": "1000"}), new("flights", 1, 1)]),
    )
    yield (
        "create-wrong",
        lambda: admin.create_topics([new("a b", 1, 1), new("many", 1, 9), new("c", 1, 1, config={"x": "1"})]),
    )
    yield "create-validate", lambda: admin.create_topics([new("later", 2, 1)], validate_only=True)
    yield (
        "partitions",
        lambda: admin.create_partitions([confluent.NewPartitions("made", 4), confluent.NewPartitions("flights", 1)]),
    )
    yield "list-topics", lambda: sorted(name for name in admin.list_topics(timeout=SECONDS).topics if name[0] != "_")
    yield "describe-topics", lambda: admin.describe_topics(topics(["flights", "missing"]))
    yield "describe-operations", lambda: admin.describe_topics(topics(["flights"]), include_authorized_operations=True)
    yield "describe-cluster", lambda: admin.describe_cluster(include_authorized_operations=True)
    yield "alter-configs", lambda: admin.incremental_alter_configs([changed(("compression.type", "zstd", "SET"))])
    yield "alter-list", lambda: admin.incremental_alter_configs([changed(("cleanup.policy", "compact", "APPEND"))])
    yield "alter-wrong", lambda: admin.incremental_alter_configs([changed(("retention.ms", "soon", "SET"))])
    yield "describe-configs", lambda: configs(topic)
    yield "delete-config", lambda: admin.incremental_alter_configs([changed(("compression.type", None, "DELETE"))])
    yield "describe-configs-again", lambda: configs(topic)
    for name, spec in (
        ("earliest", confluent.OffsetSpec.earliest()),
        ("latest", confluent.OffsetSpec.latest()),
        ("max", confluent.OffsetSpec.max_timestamp()),
        ("time", confluent.OffsetSpec.for_timestamp(TIME + 3)),
    ):
        yield f"offsets-{name}", lambda spec=spec: admin.list_offsets({partition(0): spec, partition(1): spec})
    yield "offsets-missing", lambda: admin.list_offsets({partition(9): confluent.OffsetSpec.latest()})
    yield "delete-records", lambda: admin.delete_records([partition(0, 1), partition(1, 99)])
    yield "list-groups", admin.list_consumer_groups
    yield "describe-groups", lambda: admin.describe_consumer_groups(["readers", "nobody"])
    yield "group-offsets", lambda: admin.list_consumer_group_offsets([group()])
    yield "group-offsets-of", lambda: admin.list_consumer_group_offsets([group(partition(0), partition(7))])
    yield "alter-offsets", lambda: admin.alter_consumer_group_offsets([group(partition(0, 3), partition(9, 3))])
    yield "group-offsets-again", lambda: admin.list_consumer_group_offsets([group()])
    yield "delete-groups", lambda: admin.delete_consumer_groups(["readers", "nobody"])
    yield (
        "alter-users",
        lambda: admin.alter_user_scram_credentials([confluent.UserScramCredentialUpsertion("carol", scram, b"secret")]),
    )
    yield "describe-users", lambda: admin.describe_user_scram_credentials(["carol", "nobody"])
    yield (
        "delete-user",
        lambda: admin.alter_user_scram_credentials(
            [
                confluent.UserScramCredentialDeletion(name, confluent.ScramMechanism.SCRAM_SHA_256)
                for name in ("carol", "nobody")
            ]
        ),
    )
    yield "create-acls", lambda: admin.create_acls([acl])
    yield "describe-acls", lambda: admin.describe_acls(every)
    yield "delete-acls", lambda: admin.delete_acls([every])
    yield "elect", lambda: admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [partition(0), partition(9)])
    yield "delete-topics", lambda: admin.delete_topics(["made", "missing"])


# --- kafka-python ---


def of_kafka_python(bootstrap: str) -> Iterator[Step]:
    """The steps, in an order in which they can run."""
    names = kafka.admin
    admin = names.KafkaAdminClient(bootstrap_servers=bootstrap)
    topic = names.ConfigResource(names.ConfigResourceType.TOPIC, "flights")

    def partition(number: int) -> kafka.TopicPartition:
        return kafka.TopicPartition("flights", number)

    def changed(configs: dict[str, str]) -> names.ConfigResource:
        return names.ConfigResource(names.ConfigResourceType.TOPIC, "flights", configs=configs)

    every = names.ACLFilter(
        principal=None,
        host=None,
        operation=names.ACLOperation.ANY,
        permission_type=names.ACLPermissionType.ANY,
        resource_pattern=names.ResourcePatternFilter(names.ResourceType.ANY, None, names.ACLResourcePatternType.ANY),
    )
    scram = names.UserScramCredentialUpsertion("dave", names.ScramMechanism.SCRAM_SHA_512, "secret")
    yield "create", lambda: admin.create_topics([names.NewTopic("built", 3, 1)])
    yield "create-again", lambda: admin.create_topics([names.NewTopic("built", 3, 1)])
    yield "create-validate", lambda: admin.create_topics([names.NewTopic("later", 2, 1)], validate_only=True)
    yield "partitions", lambda: admin.create_partitions({"built": names.NewPartitions(4)})
    yield "partitions-fewer", lambda: admin.create_partitions({"built": names.NewPartitions(1)})
    yield "list-topics", lambda: sorted(name for name in admin.list_topics() if name[0] != "_")
    yield "describe-topics", lambda: admin.describe_topics(["flights", "missing"])
    yield "describe-topic-partitions", lambda: admin.describe_topic_partitions(["flights"])
    yield "describe-cluster", admin.describe_cluster
    yield "alter-configs", lambda: admin.alter_configs([changed({"max.message.bytes": "2000000"})])
    yield "alter-wrong", lambda: admin.alter_configs([changed({"retention.ms": "soon"})])
    yield "describe-configs", lambda: admin.describe_configs([topic])
    yield "reset-configs", lambda: admin.reset_configs([changed({"max.message.bytes": ""})])
    yield "config-resources", lambda: [each for each in admin.list_config_resources() if "metric" in repr(each)]
    yield (
        "offsets",
        lambda: admin.list_partition_offsets(
            {partition(0): names.OffsetSpec.LATEST, partition(1): names.OffsetSpec.EARLIEST}
        ),
    )
    yield "delete-records", lambda: admin.delete_records({partition(0): 2})
    yield "list-groups", admin.list_groups
    yield "describe-groups", lambda: admin.describe_groups(["readers"])
    yield "alter-offsets", lambda: admin.alter_group_offsets("readers", {partition(0): OffsetAndMetadata(2, "m", -1)})
    yield "group-offsets", lambda: admin.list_group_offsets({"readers": None})
    yield "delete-offsets", lambda: admin.delete_group_offsets("readers", [partition(0)])
    yield "delete-groups", lambda: admin.delete_groups(["readers", "nobody"])
    yield "log-dirs", lambda: admin.describe_log_dirs([partition(1)])
    yield "producers", lambda: admin.describe_producers([kafka.TopicPartition("moved", 0)])
    yield "transactions", admin.list_transactions
    yield "describe-transactions", lambda: admin.describe_transactions(["pilot"])
    yield "hanging", admin.find_hanging_transactions
    yield "reassignments", admin.list_partition_reassignments
    yield "quorum", admin.describe_metadata_quorum
    yield "alter-users", lambda: admin.alter_user_scram_credentials([scram])
    yield "describe-users", lambda: admin.describe_user_scram_credentials(["dave", "nobody"])
    yield "describe-acls", lambda: admin.describe_acls(every)
    yield "elect", lambda: admin.elect_leaders(PREFERRED, {"flights": [0]}, raise_errors=False)
    yield "delete-topics", lambda: admin.delete_topics(["built"])
    yield "delete-topics-again", lambda: admin.delete_topics(["built"])
    yield "close", admin.close
