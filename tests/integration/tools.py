"""What Kafka's command line tools print, as texts that can be compared between brokers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import ottla
from tests.brokers.brokers import java_tool
from tests.integration.peers.java import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRAM = Path(__file__).parent / "java" / "Tools.java"
TOOLS = "org.apache.kafka.tools."
TOPICS = TOOLS + "TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = TOOLS + "AclCommand"
REASSIGN = TOOLS + "reassign.ReassignPartitionsCommand"
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"
SHARES = TOOLS + "consumer.group.ShareGroupCommand"
TRANSACTIONS = TOOLS + "TransactionsCommand"
OFFSETS = TOOLS + "GetOffsetShell"
RECORDS = TOOLS + "DeleteRecordsCommand"
LOG_DIRS = TOOLS + "LogDirsCommand"
LEADERS = TOOLS + "LeaderElectionCommand"
FEATURES = TOOLS + "FeatureCommand"
QUORUM = TOOLS + "MetadataQuorumCommand"
METRICS = TOOLS + "ClientMetricsCommand"
EVERY_GROUP = TOOLS + "GroupsCommand"
STREAMS = TOOLS + "streams.StreamsGroupCommand"

# What differs from run to run: ids, times, ports, epochs of elections, and stack traces.
PATTERNS = (
    (r"\n?\s+at [\w./$]+\(.*\)", ""),
    (r"\n?\s+\.\.\. \d+ more", ""),
    (r"\b1[789]\d{11}\b", "time"),
    (r"(time\s+)\d+\b", r"\1duration"),
    (r"(Epoch: )\d+", r"\1n"),
    (r"(HighWatermark:\s+)\d+", r"\1n"),
    (r"(ClusterId:\s+)\S+", r"\1id"),
    (r"(AAAAAAAAAAAAAAAAAAAAAA\s+)\d+", r"\1n"),
    (r"(\"log_dirs\":\[)\"/[^\]]*", r"\1folder"),
    (r"\b(127\.0\.0\.1|localhost):\d+", "broker"),
    (r"\b127\.0\.0\.1\b", "host"),
    (r"(TopicId: )[\w-]{22}", r"\1id"),
    (r"(logDir\": *)\"[^\"]*\"", r'\1"folder"'),
    (r"(log_dir: )\S+", r"\1folder"),
    (r"[ \t]+\n", "\n"),
    (r"[ \t]{2,}", " "),
    (r"\n{2,}", "\n"),
)


def normalised(text: str) -> str:
    """A tool's output without what differs from run to run."""
    for pattern, by in PATTERNS:
        text = re.sub(pattern, by, text)
    return text.strip()


def run(bootstrap: str, commands: Iterable[tuple[str, str, list[str]]]) -> dict[str, tuple[int, str]]:
    """The exit status and output of each command (its name, the class of the tool, arguments), run one after the other."""
    lines = ["\t".join([name, tool, "--bootstrap-server", bootstrap, *arguments]) for name, tool, arguments in commands]
    data = "".join(f"{line}\n" for line in lines).encode()
    out = java_tool(VERSION, str(PROGRAM), data=data, timeout=240).decode()
    found = re.findall(r"^== (\S+) (-?\d+)\n(.*?)\n==$", out, re.MULTILINE | re.DOTALL)
    return {name: (int(status), normalised(text)) for name, status, text in found}


def fill(bootstrap: str) -> None:
    """Topics, records, a group and a transaction that tools can look at."""
    with ottla.Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic("flights", 2, 1), ottla.NewTopic("moved", 1, 1)])
        admin.incremental_alter_configs({("GROUP", "watchers"): {"consumer.session.timeout.ms": "50000"}})
    with ottla.Producer(bootstrap, linger_ms=0) as producer:
        for i in range(6):
            producer.send("flights", b"v", partition=i % 2, timestamp=1_700_000_000_000 + i).result(30)
    with ottla.Producer(bootstrap, transactional_id="pilot") as producer, producer.transaction():
        producer.send("moved", b"w").result(30)
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_protocol": "classic"}
    with ottla.Consumer(bootstrap, group_id="readers", topics=["flights"], **options) as consumer:
        count = 0
        while count < 6:
            count += len(consumer.poll(30))
        consumer.commit()


def files(folder: Path, node: int) -> dict[str, str]:
    """Files that tools read, by their names."""
    contents = {
        "topics": {"topics": [{"topic": "moved"}], "version": 1},
        "same": {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [node]}]},
        "nowhere": {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [77]}]},
        "records": {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "offset": 1}]},
        "beyond": {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "offset": 99}]},
        "leaders": {"partitions": [{"topic": "flights", "partition": 0}]},
    }
    paths = {name: folder / f"{name}.json" for name in contents}
    for name, path in paths.items():
        path.write_text(json.dumps(contents[name]))
    return {name: str(path) for name, path in paths.items()}


def commands(folder: Path, node: int) -> list[tuple[str, str, list[str]]]:
    """The commands, in an order in which they can run."""
    given = files(folder, node)
    topic = ["--entity-type", "topics", "--entity-name", "flights"]
    group = ["--entity-type", "groups", "--entity-name", "watchers"]
    user = ["--entity-type", "users", "--entity-name", "carol"]
    return [
        ("topics-list", TOPICS, ["--list"]),
        (
            "topics-create",
            TOPICS,
            ["--create", "--topic", "made", "--partitions", "3", "--config", "retention.ms=1000"],
        ),
        ("topics-create-again", TOPICS, ["--create", "--topic", "made", "--if-not-exists"]),
        ("topics-describe", TOPICS, ["--describe", "--topic", "flights"]),
        ("topics-describe-configs", TOPICS, ["--describe", "--topic", "made", "--topics-with-overrides"]),
        ("topics-describe-no-leader", TOPICS, ["--describe", "--unavailable-partitions"]),
        ("topics-describe-missing", TOPICS, ["--describe", "--topic", "missing", "--if-exists"]),
        ("topics-alter", TOPICS, ["--alter", "--topic", "made", "--partitions", "4"]),
        ("topics-delete", TOPICS, ["--delete", "--topic", "made"]),
        (
            "configs-alter",
            CONFIGS,
            ["--alter", *topic, "--add-config", "max.message.bytes=2000000,compression.type=zstd"],
        ),
        ("configs-describe", CONFIGS, ["--describe", *topic]),
        ("configs-delete", CONFIGS, ["--alter", *topic, "--delete-config", "compression.type"]),
        ("configs-describe-again", CONFIGS, ["--describe", *topic]),
        ("configs-group", CONFIGS, ["--describe", *group]),
        ("configs-group-alter", CONFIGS, ["--alter", *group, "--add-config", "consumer.heartbeat.interval.ms=6000"]),
        (
            "configs-user",
            CONFIGS,
            ["--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]"],
        ),
        ("configs-user-quota", CONFIGS, ["--alter", *user, "--add-config", "producer_byte_rate=1024"]),
        ("configs-user-describe", CONFIGS, ["--describe", *user]),
        ("acls-list", ACLS, ["--list"]),
        ("acls-add", ACLS, ["--add", "--allow-principal", "User:carol", "--operation", "Read", "--topic", "flights"]),
        (
            "reassign-generate",
            REASSIGN,
            ["--generate", "--topics-to-move-json-file", given["topics"], "--broker-list", str(node)],
        ),
        ("reassign-execute", REASSIGN, ["--execute", "--reassignment-json-file", given["same"]]),
        ("reassign-verify", REASSIGN, ["--verify", "--reassignment-json-file", given["same"], "--preserve-throttles"]),
        ("reassign-nowhere", REASSIGN, ["--execute", "--reassignment-json-file", given["nowhere"]]),
        ("reassign-list", REASSIGN, ["--list"]),
        ("metrics-list-none", METRICS, ["--list"]),
        ("metrics-alter-wrong", METRICS, ["--alter", "--name", "all", "--interval", "soon"]),
        ("metrics-describe-none", METRICS, ["--describe", "--name", "all"]),
        ("groups-list-all", EVERY_GROUP, ["--list"]),
        ("groups-list-consumer", EVERY_GROUP, ["--list", "--consumer"]),
        ("streams-list", STREAMS, ["--list"]),
        ("groups-list", GROUPS, ["--list"]),
        ("groups-describe", GROUPS, ["--describe", "--group", "readers"]),
        ("groups-state", GROUPS, ["--describe", "--group", "readers", "--state"]),
        ("groups-members", GROUPS, ["--describe", "--group", "readers", "--members", "--verbose"]),
        (
            "groups-reset-plan",
            GROUPS,
            ["--reset-offsets", "--group", "readers", "--topic", "flights", "--to-earliest", "--dry-run"],
        ),
        (
            "groups-reset",
            GROUPS,
            ["--reset-offsets", "--group", "readers", "--topic", "flights", "--shift-by", "-1", "--execute"],
        ),
        ("groups-offsets-delete", GROUPS, ["--delete-offsets", "--group", "readers", "--topic", "flights:1"]),
        ("groups-delete", GROUPS, ["--delete", "--group", "readers"]),
        ("groups-delete-again", GROUPS, ["--delete", "--group", "readers"]),
        ("shares-list", SHARES, ["--list"]),
        ("shares-describe-missing", SHARES, ["--describe", "--group", "nobody"]),
        ("transactions-list", TRANSACTIONS, ["list"]),
        ("transactions-describe", TRANSACTIONS, ["describe", "--transactional-id", "pilot"]),
        ("transactions-producers", TRANSACTIONS, ["describe-producers", "--topic", "moved", "--partition", "0"]),
        ("transactions-hanging", TRANSACTIONS, ["find-hanging", "--topic", "moved"]),
        ("transactions-terminate", TRANSACTIONS, ["forceTerminateTransaction", "--transactionalId", "pilot"]),
        ("offsets-latest", OFFSETS, ["--topic", "flights"]),
        ("offsets-earliest", OFFSETS, ["--topic-partitions", "flights:0", "--time", "earliest"]),
        ("offsets-time", OFFSETS, ["--topic", "flights", "--time", "1700000000003"]),
        ("offsets-max", OFFSETS, ["--topic", "flights", "--time", "max-timestamp"]),
        ("records-delete", RECORDS, ["--offset-json-file", given["records"]]),
        ("records-delete-beyond", RECORDS, ["--offset-json-file", given["beyond"]]),
        ("log-dirs", LOG_DIRS, ["--describe", "--topic-list", "flights,moved"]),
        ("log-dirs-nobody", LOG_DIRS, ["--describe", "--broker-list", "77"]),
        ("leaders-one", LEADERS, ["--election-type", "preferred", "--topic", "flights", "--partition", "0"]),
        ("leaders-file", LEADERS, ["--election-type", "unclean", "--path-to-json-file", given["leaders"]]),
        ("leaders-all", LEADERS, ["--election-type", "preferred", "--all-topic-partitions"]),
        ("features-describe", FEATURES, ["describe"]),
        ("features-upgrade", FEATURES, ["upgrade", "--feature", "group.version=1"]),
        ("features-unknown", FEATURES, ["upgrade", "--feature", "nothing.version=1"]),
        ("quorum-status", QUORUM, ["describe", "--status"]),
        ("quorum-replication", QUORUM, ["describe", "--replication"]),
        ("topics-delete-missing", TOPICS, ["--delete", "--topic", "missing"]),
    ]
