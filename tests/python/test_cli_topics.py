"""`ottla topics`, `groups` and `share-groups` on the embedded broker."""

from __future__ import annotations

import csv
import io
import time
from datetime import UTC, datetime

import pytest

import ottla
from ottla.testing import Broker
from tests.pace import patience
from tests.python.shell import Shell

PATIENCE = patience(20)


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"flights": 2, "audit": 1}) as broker:
        yield broker


@pytest.fixture
def shell(broker, capsys):
    return Shell(capsys, broker.client_config())


@pytest.fixture
def topic(shell, request):
    """A topic of one partition and ten records, with the numbers from 0 as values."""
    name = f"t-{abs(hash(request.node.nodeid))}"
    shell.ok(f"topics create {name}")
    with ottla.Producer(shell._given[1]) as producer:
        producer.send_many(name, [b"%d" % number for number in range(10)]).result(PATIENCE)
    return name


@pytest.fixture
def group(shell, topic):
    """A group that has read it all."""
    name = f"g-{topic}"
    with ottla.Consumer(shell._given[1], topics=topic, group_id=name, auto_offset_reset="earliest") as consumer:
        count = 0
        while count < 10:
            count += len(consumer.poll(PATIENCE))
        consumer.commit()
    return name


# --- topics ---


def test_topics_list(shell, topic):
    assert topic in shell.ok("topics")
    assert {"topic": topic} in shell.rows("topics list")
    [row] = [row for row in shell.rows("topics list --long") if row["topic"] == topic]
    assert (row["partitions"], row["replicas"]) == (1, 1)
    assert row["bytes"] > 0
    head, *_ = shell.ok("topics list --long")
    assert head.split() == ["TOPIC", "PARTITIONS", "REPLICAS", "BYTES"]
    assert not any(name.startswith("__") for name in shell.ok("topics"))


def test_topics_create_alter_and_delete(shell):
    assert shell.ok("topics create made:3 --topic-config retention.ms=5000 --dry-run") == ["topic made: can be created"]
    assert "made" not in shell.ok("topics")
    assert shell.ok("topics create made -p 3 --topic-config retention.ms=5s") == ["topic made: created"]
    [row] = [row for row in shell.rows("topics list --long") if row["topic"] == "made"]
    assert row["partitions"] == 3
    assert "made" in shell.fails("topics create made other")
    assert shell.ok("topics create made other --if-not-exists") == []
    assert shell.ok(
        "topics alter made --set retention.ms=6000 --set cleanup.policy=compact --unset retention.bytes"
    ) == ["topic made: altered"]
    [described] = shell.rows("topics describe made")
    assert described["configs"] == {"retention.ms": "6000", "cleanup.policy": "compact"}
    assert len(described["partitions"]) == 3
    shell.ok("topics alter made --unset cleanup.policy --dry-run")
    shell.ok("topics alter made --unset cleanup.policy")
    assert shell.rows("topics describe made")[0]["configs"] == {"retention.ms": "6000"}
    assert "what is to change" in shell.fails("topics alter made")
    assert shell.ok("topics add-partitions made --add 2") == ["topic made: extended"]
    assert shell.ok("topics add-partitions made --total 7 --dry-run") == ["topic made: can be extended"]
    assert "made" in shell.fails("topics add-partitions made --total 2")
    assert len(shell.rows("topics describe made")[0]["partitions"]) == 5
    assert shell.ok("topics delete made other") == ["topic made: deleted", "topic other: deleted"]
    assert shell.ok("topics delete made --if-exists") == []
    assert "made" in shell.fails("topics delete made")


def test_topics_describe(shell):
    first, head, *rows = shell.ok("topics describe flights")
    assert "2 partitions" in first
    assert head.split() == ["PARTITION", "LEADER", "REPLICAS", "IN", "SYNC"]
    assert len(rows) == 2
    assert {"flights", "audit"} <= {row["topic"] for row in shell.rows("topics describe")}
    assert shell.rows("topics describe --under-replicated") == []
    assert shell.rows("topics describe --unavailable") == []


def test_some_topics_fail(shell):
    """What can be described is; the rest is named, with the nearest name that there is."""
    [row] = shell.rows("topics describe flihgts audit", code=1)
    assert row["topic"] == "audit"
    assert "did you mean flights?" in shell.fails("topics describe flihgts audit")
    assert shell("topics describe flihgts audit")[1].startswith("audit ")


def test_topics_offsets_and_trim(shell, topic):
    [row] = shell.rows(f"topics offsets {topic}")
    assert (row["start"], row["end"], row["records"]) == (0, 10, 10)
    [row] = shell.rows(f"topics offsets {topic}:0 --at 1h --committed")
    assert row["at"] == 0
    [row] = shell.rows(f"topics offsets {topic} --at max_timestamp")
    assert row["at"] in range(10)
    late = datetime.fromtimestamp(time.time() + 3600, UTC).isoformat()
    assert shell.rows(f"topics offsets {topic} --at {late}")[0]["at"] is None
    assert shell.rows(f"topics trim {topic} --before 4 --dry-run")[0]["new_start"] == 4
    assert shell.rows(f"topics offsets {topic}")[0]["start"] == 0
    assert shell.rows(f"topics trim {topic} --before 4")[0] == {
        "topic": topic,
        "partition": 0,
        "old_start": 0,
        "new_start": 4,
    }
    assert shell.rows(f"topics trim {topic}:0 --before 1h")[0]["new_start"] == 4
    assert "OFFSET_OUT_OF_RANGE" in shell.fails(f"topics trim {topic} --before 100")
    assert shell.rows(f"topics trim {topic} --before {late}")[0]["new_start"] == 10
    assert shell.rows(f"topics trim {topic} --all")[0]["old_start"] == 10
    assert shell.rows(f"topics offsets {topic}")[0]["records"] == 0


def test_topics_sizes(shell, topic):
    rows = shell.rows("topics sizes")
    assert [row["bytes"] for row in rows] == sorted((row["bytes"] for row in rows), reverse=True)
    [row] = shell.rows(f"topics sizes {topic}")
    assert row["bytes"] == row["unique_bytes"] > 0


# --- groups ---


def test_groups_list_and_describe(shell, group, topic):
    [row] = [row for row in shell.rows("groups") if row["group"] == group]
    assert (row["type"], row["state"]) == ("classic", "Empty")
    assert group in shell.ok("groups list --state Empty --type classic --format names")
    assert group not in shell.ok("groups list --state Stable --format names")
    [described] = shell.rows(f"groups describe {group}")
    assert described["members"] == []
    with ottla.Consumer(shell._given[1], topics=topic, group_id=group, client_id="me") as consumer:
        consumer.poll(0.1)
        while not consumer.assignment():
            consumer.poll(0.1)
        first, head, member = shell.ok(f"groups describe {group}")
        assert first == f"{group}  classic group, Stable, range, coordinator 1, 1 member"
        assert head.split()[0] == "MEMBER"
        assert member.endswith(f"me         127.0.0.1  {topic}:0")
        assert "UNKNOWN_MEMBER_ID" in shell.fails(f"groups reset {group} --to earliest")
        assert "did you mean" in shell.fails(f"groups describe {group}x")


def test_groups_lag_and_reset(shell, group, topic):
    [row] = shell.rows(f"groups lag {group}")
    assert (row["topic"], row["committed"], row["end_offset"], row["lag"]) == (topic, 10, 10, 0)
    [row] = shell.rows(f"groups reset {group} --to earliest --dry-run")
    assert (row["old_offset"], row["new_offset"]) == (10, 0)
    assert shell.rows(f"groups lag {group}")[0]["lag"] == 0
    for how, lag in (
        ("--to earliest", 10),
        ("--to latest", 0),
        ("--shift -3", 3),
        ("--shift=1", 2),
        ("--to 1h", 10),
        (f"--to {int(time.time() * 1000) + 3_600_000}", 0),
        (f"--to-offset 4 --topic {topic}:0", 6),
        ("--to-offset 5", 5),
    ):
        shell.ok(f"groups reset {group} {how}")
        assert shell.rows(f"groups lag {group}")[0]["lag"] == lag, how
    [row] = [row for row in shell.rows("groups lag --all --summary") if row["group"] == group]
    assert row == {"group": group, "topics": 1, "partitions": 1, "lag": 5}
    assert shell.rows("groups lag") == shell.rows("groups lag --all")
    assert "did you mean" in shell.fails(f"groups lag {group}x")
    assert "did you mean" in shell.fails(f"groups reset {group} --to earliest --topic {topic}x")


def test_groups_reset_by_a_file(shell, group, topic, tmp_path):
    """What `offsets` and `--dry-run` print can be read again; so can files of Kafka's own tool."""
    path = tmp_path / "offsets.csv"
    for line in (f"groups offsets {group}", f"groups reset {group} --to-offset 3 --dry-run"):
        code, out, _ = shell(f"{line} --format csv")
        assert code == 0
        assert next(csv.DictReader(io.StringIO(out)))["topic"] == topic
        path.write_text(out)
        shell.ok(f"groups reset {group} --file {path}")
    assert shell.rows(f"groups lag {group}")[0]["committed"] == 3
    path.write_text(f"{topic},0,7\n")
    shell.ok(f"groups reset {group} --file {path} --topic {topic}")
    assert shell.rows(f"groups offsets {group}")[0]["offset"] == 7
    path.write_text(f"{topic},0,7\n{topic},zero,8\n")
    assert "line 2" in shell.fails(f"groups reset {group} --file {path}")
    path.write_text("topic,partition\n")
    assert "no column offset" in shell.fails(f"groups reset {group} --file {path}")


def test_groups_peek(shell, group, topic):
    assert shell.rows(f"groups peek {group}") == []
    shell.ok(f"groups reset {group} --shift -3")
    assert [row["value"] for row in shell.rows(f"groups peek {group}")] == ["7"]
    assert [row["value"] for row in shell.rows(f"groups peek {group} --max 5")] == ["7", "8", "9"]
    assert shell.rows(f"groups lag {group}")[0]["lag"] == 3, "nothing is committed"


def test_groups_delete(shell, group, topic):
    code, out, err = shell(f"groups delete {group} no-such")
    assert (code, out) == (1, f"group {group}: deleted\n")
    assert "no-such" in err
    assert group not in shell.ok("groups list --format names")


def test_groups_delete_offsets(shell, group, topic):
    assert shell.ok(f"groups delete-offsets {group} {topic}:0") == [f"partition {topic}:0: forgotten"]
    assert shell.rows(f"groups offsets {group}") == []


@pytest.mark.parametrize("how", ["--all", "--instance one"])
def test_groups_remove_members(shell, topic, how):
    name = f"static-{topic}"
    with ottla.Consumer(shell._given[1], topics=topic, group_id=name, group_instance_id="one") as consumer:
        while not consumer.assignment():
            consumer.poll(0.1)
        assert shell.ok(f"groups remove-members {name} {how}") == ["member one: removed"]
        assert "UNKNOWN_MEMBER_ID" in shell.fails(f"groups remove-members {name} --instance two")
    assert shell("groups remove-members g")[0] == 2


def test_share_groups(shell, topic):
    name = f"share-{topic}"
    with ottla.ShareConsumer(shell._given[1], topics=topic, group_id=name) as consumer:
        consumer.poll(0.5)
        assert name in [row["group"] for row in shell.rows("share-groups")]
        assert name in shell.ok("share-groups list --format names")
        [described] = shell.rows(f"share-groups describe {name}")
        assert len(described["members"]) == 1
        assert shell.rows(f"groups describe {name}") == [described]
        assert "NON_EMPTY_GROUP" in shell.fails(f"share-groups reset {name} --topic {topic} --to earliest")
    for how, start in (("--to earliest", 0), ("--to-offset 4", 4), ("--to latest", 10), ("--to 1h", 0)):
        dry = shell.rows(f"share-groups reset {name} --topic {topic} {how} --dry-run")
        assert dry == shell.rows(f"share-groups reset {name} --topic {topic}:0 {how}")
        [row] = shell.rows(f"share-groups offsets {name}")
        assert (row["start_offset"], row["lag"]) == (start, 10 - start), how
    assert shell.ok(f"share-groups delete-offsets {name} {topic}") == [f"topic {topic}: forgotten"]
    assert shell.ok(f"share-groups delete {name}") == [f"group {name}: deleted"]
    assert "did you mean" not in shell.fails(f"share-groups describe {name}")
