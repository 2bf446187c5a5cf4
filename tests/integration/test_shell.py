"""The command line on real Kafka 4.4.0: each noun by its main verbs, compared with what Kafka's own tools print."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.integration import tools
from tests.integration.conftest import REAL, wait_for_markers
from tests.python.shell import Done, run
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.brokers.brokers import Cluster

pytestmark = [REAL, pytest.mark.timeout(300)]
PASSWORD = "OTTLA_TEST_SHELL_PASSWORD"


class Shell:
    """The command line with a broker's address."""

    def __init__(self, bootstrap: str, *options: str) -> None:
        self.bootstrap, self._options = bootstrap, options

    def __call__(self, line: str, data: bytes = b"") -> Done:
        noun, *rest = line.split()
        return run(noun, "-b", self.bootstrap, *self._options, *rest, data=data)

    def ok(self, line: str, data: bytes = b"") -> bytes:
        """The output of a command that succeeds."""
        done = self(line, data)
        assert done.code == 0, done.err
        return done.out

    def rows(self, line: str) -> list[dict[str, Any]]:
        """The items of a command that succeeds."""
        items: list[dict[str, Any]] = json.loads(self.ok(f"{line} --format json"))["items"]
        return items


class Scene(NamedTuple):
    """A topic, a group and more of one name, made by the shell, and what Kafka's tools print about them."""

    shell: Shell
    name: str
    tools: dict[str, str]


@pytest.fixture(scope="module")
def scene(kafka: str) -> Iterator[Scene]:
    shell, name = Shell(kafka), f"shell-{uuid.uuid4().hex[:8]}"
    shell.ok(f"topics create {name}:2 --topic-config retention.ms=3600000")
    shell.ok(f"configs set topic/{name} max.message.bytes=2000000 cleanup.policy=compact")
    shell.ok(f"configs unset topic/{name} cleanup.policy")
    shell.ok(f"topics add-partitions {name} --total 3")
    shell.ok(f"produce {name} -p 0 --key-separator :", b"a:1\nb:2\nc:3\n")
    shell.ok(f"produce {name} -p 1 --transactional-id {name}", b"4\n")
    wait_for_markers(kafka, name, 3)
    assert sorted(shell.ok(f"consume {name} -g {name} --beginning --max 4").split()) == [b"1", b"2", b"3", b"4"]
    shell.ok(f"groups reset {name} --topic {name}:0 --to-offset 1")
    shell.ok(f"groups delete-offsets {name} {name}:2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PASSWORD, "secret")
        shell.ok(f"users set {name} --mechanism SCRAM-SHA-256 --password-from ${{{PASSWORD}}}")
    shell.ok(f"quotas set --user {name} producer_byte_rate=1048576")
    shell.ok(f"configs set client-metrics/{name} interval.ms=10000")
    topic, entity = ["--topic", name], ["--entity-name", name]
    [broker] = [str(row["broker"]) for row in shell.rows("cluster brokers")]
    commands = [
        ("topic", tools.TOPICS, ["--describe", *topic]),
        ("configs", tools.CONFIGS, ["--describe", "--entity-type", "topics", *entity]),
        ("broker", tools.CONFIGS, ["--describe", "--entity-type", "brokers", "--entity-name", broker, "--all"]),
        ("metrics", tools.CONFIGS, ["--describe", "--entity-type", "client-metrics", *entity]),
        ("user", tools.CONFIGS, ["--describe", "--entity-type", "users", *entity]),
        ("group", tools.GROUPS, ["--describe", "--group", name]),
        ("offsets", tools.OFFSETS, topic),
        ("transaction", tools.TRANSACTIONS, ["describe", "--transactional-id", name]),
        ("producers", tools.TRANSACTIONS, ["describe-producers", *topic, "--partition", "1"]),
        ("features", tools.FEATURES, ["describe"]),
        ("quorum", tools.QUORUM, ["describe", "--status"]),
        ("log-dirs", tools.LOG_DIRS, ["--describe", "--topic-list", name]),
    ]
    found = tools.run(kafka, commands)
    assert {each: status for each, (status, _) in found.items()} == {each: 0 for each, _, _ in commands}
    yield Scene(shell, name, {each: text for each, (_, text) in found.items()})
    shell.ok(f"quotas unset --user {name} producer_byte_rate")
    shell.ok(f"users delete {name}")
    shell.ok(f"configs unset client-metrics/{name} interval.ms")
    shell.ok(f"groups delete {name}")
    shell.ok(f"topics delete {name}")


def configs(text: str) -> dict[str, str]:
    """Names and values of a description by kafka-configs."""
    return dict(re.findall(r"^ (\S+?)=(.*?) sensitive=", text, re.MULTILINE))


def test_topics(scene: Scene) -> None:
    [described] = scene.shell.rows(f"topics describe {scene.name}")
    printed = re.findall(r"Partition: (\d+)\tLeader: (\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)", scene.tools["topic"])
    rows = [
        (
            str(row["partition"]),
            str(row["leader"]),
            *(",".join(map(str, row[each])) for each in ("replicas", "in_sync")),
        )
        for row in described["partitions"]
    ]
    assert rows == printed
    assert len(rows) == 3
    assert {"topic": scene.name} in scene.shell.rows("topics")


def test_offsets_of_topics(scene: Scene) -> None:
    rows = scene.shell.rows(f"topics offsets {scene.name}")
    assert [f"{row['topic']}:{row['partition']}:{row['end']}" for row in rows] == scene.tools["offsets"].split()
    assert [row["end"] for row in rows] == [3, 2, 0]
    first, *_ = scene.shell.rows(f"topics offsets {scene.name}:0 --at 1h")
    assert first["at"] == 0


def test_configs(scene: Scene) -> None:
    rows = scene.shell.rows(f"configs get topic/{scene.name}")
    own = {row["name"]: row["value"] for row in rows if row["source"] == "DYNAMIC_TOPIC_CONFIG"}
    assert own == configs(scene.tools["configs"]) == {"retention.ms": "3600000", "max.message.bytes": "2000000"}
    assert {
        row["name"]: row["value"] for row in scene.shell.rows(f"configs get client-metrics/{scene.name}")
    } == configs(scene.tools["metrics"])


def test_configs_of_a_broker(scene: Scene) -> None:
    [broker] = scene.shell.rows("cluster brokers")
    printed = {name: None if value == "null" else value for name, value in configs(scene.tools["broker"]).items()}
    rows = {row["name"]: row["value"] for row in scene.shell.rows(f"configs get broker/{broker['broker']} --all")}
    assert len(rows) > 200
    assert rows.keys() == printed.keys()
    # The tool's text is without ports and folders of this run.
    places = re.compile("listener|dir|quorum|id$|voters")
    assert {name: value for name, value in rows.items() if not places.search(name)} == {
        name: value for name, value in printed.items() if not places.search(name)
    }


def test_groups(scene: Scene) -> None:
    shell, name = scene.shell, scene.name
    printed = re.findall(rf"^{name} {name} (\d+) (\d+) (\d+) (\d+)", scene.tools["group"], re.MULTILINE)
    rows = shell.rows(f"groups lag {name}")
    assert [tuple(str(row[key]) for key in ("partition", "committed", "end_offset", "lag")) for row in rows] == printed
    assert [row["lag"] for row in rows] == [2, 0]
    assert [row["offset"] for row in shell.rows(f"groups peek {name}")] == [1]
    [group] = shell.rows(f"groups describe {name}")
    assert (group["state"], group["members"]) == ("Empty", [])
    assert "Consumer group" in scene.tools["group"]
    assert name in {row["group"] for row in shell.rows("groups")}


def test_users_and_quotas(scene: Scene) -> None:
    quota = re.search(r"producer_byte_rate=([\d.]+)", scene.tools["user"])
    scram = re.search(r"(SCRAM-SHA-256)=iterations=(\d+)", scene.tools["user"])
    assert quota
    assert scram
    [row] = [row for row in scene.shell.rows("quotas") if row["user"] == scene.name]
    assert (row["quota"], row["value"]) == ("producer_byte_rate", float(quota[1]))
    [row] = [row for row in scene.shell.rows("users") if row["user"] == scene.name]
    assert (row["mechanism"], str(row["iterations"])) == (scram[1], scram[2])


def test_transactions(scene: Scene) -> None:
    [row] = scene.shell.rows(f"transactions describe {scene.name}")
    printed = scene.tools["transaction"].splitlines()[1].split()
    shown = [row[key] for key in ("transactional_id", "producer_id", "producer_epoch", "state")]
    assert [str(each) for each in shown] == printed[1:5]
    [producer] = scene.shell.rows(f"transactions producers {scene.name}:1")
    printed = scene.tools["producers"].splitlines()[1].split()
    keys = ("producer_id", "producer_epoch", "coordinator_epoch", "last_sequence")
    assert [str(producer[key]) for key in keys] == printed[:4]
    assert scene.name in {row["transactional_id"] for row in scene.shell.rows("transactions")}
    assert scene.shell.rows("transactions hanging") == []


def test_cluster(scene: Scene) -> None:
    printed = re.findall(r"Feature: (\S+) .*FinalizedVersionLevel: (?:UNKNOWN )?(\d+)", scene.tools["features"])
    rows = scene.shell.rows("cluster features")
    assert [(row["feature"], str(row["level"])) for row in rows] == printed
    quorum = scene.shell.rows("cluster quorum")
    assert [row["node"] for row in quorum if row["role"] == "leader"] == [
        int(each) for each in re.findall(r"LeaderId: (\d+)", scene.tools["quorum"])
    ]
    [described] = scene.shell.rows("cluster")
    assert f"LeaderId: {described['controller']}\n" in scene.tools["quorum"]


def test_log_dirs(scene: Scene) -> None:
    printed = json.loads(scene.tools["log-dirs"].splitlines()[-1])["brokers"][0]["logDirs"][0]["partitions"]
    rows = scene.shell.rows(f"log-dirs replicas {scene.name}")
    assert sorted((f"{row['topic']}-{row['partition']}", row["bytes"]) for row in rows) == sorted(
        (each["partition"], each["size"]) for each in printed
    )
    [sizes] = [row for row in scene.shell.rows("topics sizes") if row["topic"] == scene.name]
    assert sizes["bytes"] == sum(each["size"] for each in printed)


def test_share_groups(scene: Scene) -> None:
    shell, group = scene.shell, f"{scene.name}-share"
    shell.ok(f"share-groups reset {group} --topic {scene.name} --to earliest")
    assert [row["start_offset"] for row in shell.rows(f"share-groups offsets {group}")] == [0, 0, 0]
    out = shell.ok(f"consume {scene.name} --share-group {group} --max 4")
    assert sorted(out.split()) == [b"1", b"2", b"3", b"4"]
    shell.ok(f"share-groups delete {group}")


@pytest.mark.parametrize("form", ["json", "csv", "arrow", "parquet"])
def test_records_in_each_format(scene: Scene, tmp_path: Path, form: str) -> None:
    shell, target = scene.shell, f"{scene.name}-{form}"
    shell.ok(f"topics create {target}:3")
    given = [
        {
            "partition": 0,
            "timestamp": 1_700_000_000_000,
            "key": "k",
            "value": "v",
            "headers": [["h", "1"], ["h", None]],
        },
        {"partition": 2, "timestamp": 1_700_000_000_001, "key": None, "value": None, "headers": []},
        {"partition": 2, "timestamp": 1_700_000_000_002, "key": "", "value": {"base64": "/w=="}, "headers": []},
    ]
    shell.ok(f"produce {target} --format json", "".join(f"{json.dumps(each)}\n" for each in given).encode())
    file = tmp_path / f"records.{form}"
    shell.ok(f"consume {target} -o :end --format {form} -O {file}")
    shell.ok(f"produce {target} --format {form} --file {file}")
    rows = [json.loads(line) for line in shell.ok(f"consume {target} -o :end --format json").splitlines()]
    wanted = [given[0], given[0], *given[1:], *given[1:]]
    for each in rows:
        assert each.pop("topic") == target
        each.pop("offset")
    rows.sort(key=lambda each: each["partition"])
    assert rows == wanted
    shell.ok(f"topics trim {target} --all")
    assert shell.ok(f"consume {target} -o :end") == b""
    shell.ok(f"topics delete {target}")


def test_a_copy(scene: Scene) -> None:
    shell, target = scene.shell, f"{scene.name}-copy"
    [row] = shell.rows(f"copy {scene.name} {target}")
    assert (row["partitions"], row["records"]) == (3, 4)
    assert shell.ok(f"consume {target} -p 0 -o :end") == b"1\n2\n3\n"
    shell.ok(f"groups delete ottla-copy.{scene.name}")
    shell.ok(f"topics delete {target}")


@pytest.mark.nightly
def test_acls(start_kafka: Callable[..., Cluster], tmp_path: Path) -> None:
    """They change the whole cluster, so they have one of their own."""
    cluster = start_kafka(sasl="plain", acl=True)
    listener, address = next((name, at) for name, at in cluster.st["bootstrap"].items() if "SASL" in name)
    properties = {
        "security.protocol": listener,
        "sasl.allow.plaintext": "true",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": cluster.st["sasl"]["users"]["admin"],
    }
    shell = Shell(address, *(word for key, value in properties.items() for word in ("--config", f"{key}={value}")))
    shell.ok("topics create guarded")
    shell.ok("acls create --topic guarded --operation read --principal alice")
    shell.ok("acls create --topic guarded* --operation write --principal alice --deny")
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="{properties["sasl.password"]}";'
    client = tmp_path / "client.properties"
    client.write_text(f"security.protocol={listener}\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    listing = [("acls", tools.ACLS, ["--list", "--principal", "User:alice", "--command-config", str(client)])]
    text = tools.run(address, listing)["acls"][1]
    rows = shell.rows("acls")
    assert len(rows) == 2
    for row in rows:
        assert f"principal={row['principal']}" in text
        assert f"operation={row['operation']}" in text
        assert f"permissionType={row['permission']}" in text
    shell.ok("acls delete --principal alice")
    wait_until(lambda: shell.rows("acls") == [], "the rules are gone")


@pytest.mark.nightly
def test_reassignments(start_kafka: Callable[..., Cluster]) -> None:
    shell = Shell(start_kafka(nodes=3).st["bootstrap"]["PLAINTEXT"])
    shell.ok("topics create moved --replication 1")
    shell.ok("produce moved", b"x\n" * 1000)
    [described] = shell.rows("topics describe moved")
    [old] = described["partitions"][0]["replicas"]
    new = next(broker for broker in (1, 2, 3) if broker != old)
    shell.ok(f"partitions reassign moved:0 --to {new} --throttle 1MiB")
    rate = {row["name"]: row["value"] for row in shell.rows(f"configs get broker/{new}")}
    assert rate["follower.replication.throttled.rate"] == "1048576"

    def is_done() -> bool:
        [row] = shell.rows(f"partitions verify moved:0 --to {new}")
        return bool(row["state"] == "done")

    wait_until(is_done, "the replica has moved")
    for resource in (f"broker/{old}", f"broker/{new}", "topic/moved"):
        wait_until(
            lambda resource=resource: all(
                "throttled" not in row["name"] for row in shell.rows(f"configs get {resource}")
            ),
            f"{resource} has no throttle",
        )
    [described] = shell.rows("topics describe moved")
    assert described["partitions"][0]["replicas"] == [new]
