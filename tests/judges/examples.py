"""confluent-kafka's examples with the arguments that they run with here, in this order: consumers read what producers wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Example:
    """One run of an example.

    Attributes:
        name: The file's name without its ending.
        arguments: Its arguments; `{broker}`, `{plain}`, `{oauth}`, `{registry}` and `{tokens}` are addresses.
        typed: Lines of its input, which ends after them unless `until` is given.
        until: The end of what has to be printed before Ctrl-C: a text, and how often. Without it, the example ends by itself.
        kept: A pattern of the lines that are compared, once each and sorted: for logs and maps, whose order differs.
    """

    name: str
    arguments: str
    typed: tuple[str, ...] = ()
    until: tuple[str, int] | None = None
    kept: str | None = None

    @property
    def id(self) -> str:
        """The name, and the operation of adminapi.py with its arguments."""
        operation = f" {self.arguments.removeprefix('{broker} ')}" if self.name == "adminapi" else ""
        return f"{self.name}.py{operation}"


def _admin(operation: str, kept: str | None = None) -> Example:
    return Example("adminapi", f"{{broker}} {operation}", kept=kept)


def _records(name: str, topic: str, prompts: int) -> tuple[Example, ...]:
    """A producer that asks for users, and the consumer of what it wrote."""
    users = (("Ann", "Here", "7", "red"), ("Bob", "There", "8", "blue"))
    typed = tuple(line for user in users for line in (user if prompts == 4 else (user[0], *user[2:])))
    common = f"-b {{broker}} -s {{registry}} -t {topic}"
    return (
        Example(f"{name}_producer", common, typed, ("Enter name: ", 3)),
        Example(f"{name}_consumer", f"{common} -g {topic}", until=("favorite_color", 2)),
    )


def _earliest(group: str) -> Example:
    """What lets a share group begin with the records that exist."""
    return _admin(f"incremental_alter_configs GROUP {group} share.auto.offset.reset=SET:earliest")


def _shared(name: str, count: int, awaited: str = "b'") -> tuple[Example, ...]:
    return _earliest(name), Example(name, f"{{broker}} {name} words", until=(awaited, count))


_LINES: Final = ("one", "two", "three")
# Topics that examples write to and read, with one partition, so that the order of their records is the same each time.
TOPICS: Final = ("words", "users-avro", "users-json", "users-protobuf", "out", "plain", "bearer", "aio", "aio-avro")
_ACL: Final = "TOPIC words LITERAL User:alice * READ ALLOW"
EXAMPLES: Final = (
    _admin("create_topics made words"),
    _admin("create_partitions made 4 words 1"),
    Example("producer", "{broker} words", _LINES),
    Example("consumer", "{broker} readers words", until=("with key", 3)),
    Example("get_watermark_offsets", "{broker} readers words"),
    Example("eos_transactions", "-b {broker} -t words -o out -g eos"),
    *_records("avro", "users-avro", 4),
    *_records("json", "users-json", 4),
    *_records("protobuf", "users-protobuf", 3),
    *_shared("share_consumer", 3),
    *_shared("share_consumer_context_manager", 3),
    *_shared("share_consumer_commit_sync", 3),
    *_shared("share_consumer_commit_async", 1, "% Committed"),
    _earliest("avro"),
    Example("share_consumer_avro", "-b {broker} -s {registry} -t users-avro -g avro", until=("favorite_color", 2)),
    Example("asyncio_avro_producer", "-b {broker} -s {registry} -t aio-avro"),
    Example(
        "asyncio_example",
        "{broker} aio",
        until=("Consumed: ", 3),
        kept="Produced [0-9]|Consumed|Closed|End of example|Stored offsets|Signal|Error",
    ),
    Example("context_manager_example", "{broker}"),
    Example("sasl_producer", "-b {plain} -t plain -u alice -s secret", ("k|v", "w"), (">", 3)),
    Example(
        "oauth_producer",
        "-b {oauth} -t bearer --client c --secret s --token-url {tokens} --scopes a b",
        ("k|v", "w"),
        (">", 3),
    ),
    _admin("describe_configs TOPIC words", "."),
    _admin("alter_configs TOPIC words retention.ms=1000000"),
    _admin("delta_alter_configs TOPIC words max.message.bytes=100000"),
    _admin("incremental_alter_configs TOPIC words retention.ms=SET:2000000;max.message.bytes=DELETE"),
    _admin(f"create_acls {_ACL}"),
    _admin(f"describe_acls {_ACL}"),
    _admin(f"delete_acls {_ACL}"),
    _admin("list", "."),
    _admin("list_consumer_groups", "."),
    _admin("describe_consumer_groups 1 readers"),
    _admin("describe_topics 1 words"),
    _admin("describe_cluster 1"),
    _admin("list_consumer_group_offsets readers"),
    _admin("alter_consumer_group_offsets readers words 0 1"),
    _admin("alter_user_scram_credentials UPSERT carol SCRAM_SHA_256 4096 secret salt"),
    _admin("describe_user_scram_credentials"),
    _admin("describe_user_scram_credentials carol nobody"),
    _admin(
        "list_offsets READ_COMMITTED words 0 EARLIEST words 1 LATEST words 2 MAX_TIMESTAMP words 0 TIMESTAMP 1 nothing 0 LATEST"
    ),
    _admin("delete_records words 0 0 words 1 -1 nothing 0 0"),
    _admin("elect_leaders PREFERRED words 0"),
    _admin("delete_consumer_groups readers nobody"),
    _admin("delete_topics made nothing"),
    Example("adminapi_logger", "{broker}", kept="consumer groups|id:|[0-9] errors|===== List"),
)
_CLOUD: Final = "needs an account of Confluent Cloud"
_KEYS: Final = "needs a registry with Confluent's keys for encryption (/dek-registry)"
NOT_RUN: Final = {
    "avro_consumer_encryption": _KEYS,
    "avro_producer_encryption": _KEYS,
    "confluent_cloud": _CLOUD,
    "json_consumer_encryption": _KEYS,
    "json_producer_encryption": _KEYS,
    "oauth_oidc_ccloud_aws_iam": f"{_CLOUD} and of AWS",
    "oauth_oidc_ccloud_azure_imds_producer": f"{_CLOUD} and a machine in Azure",
    "oauth_oidc_ccloud_producer": _CLOUD,
    "oauth_schema_registry": _CLOUD,
    "protobuf_consumer_encryption": _KEYS,
    "protobuf_producer_encryption": _KEYS,
    "schema_registry_imds_azure": f"{_CLOUD} and a machine in Azure",
}
