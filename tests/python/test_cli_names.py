"""How commands name topics, groups and partitions: by patterns, ids and files."""

from __future__ import annotations

import base64
import json
import uuid

import pytest

import ottla
from ottla.cli import times
from ottla.testing import Broker
from tests.python.shell import Shell


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def shell(broker, capsys):
    """Topics a-1 and a-2 with ten records in each of two partitions, and b; a group of each of a-1 and b."""
    shell = Shell(capsys, broker.client_config())
    with ottla.Admin(config=broker.client_config()) as admin:
        admin.create_topics([ottla.NewTopic("a-1", 2), ottla.NewTopic("a-2", 2), "b"])
        admin.alter_group_offsets("g-1", {("a-1", 0): 3, ("a-1", 1): 4})
        admin.alter_group_offsets("g-2", {("b", 0): 0})
        with ottla.Producer(config=broker.client_config()) as producer:
            for topic in ("a-1", "a-2"):
                for partition in (0, 1):
                    producer.send_many(topic, [b"x"] * 10, partitions=partition).result(30)
        yield shell
        admin.delete_topics(admin.list_topics())
        admin.delete_groups([group.group_id for group in admin.list_groups()])


def id_of(shell, topic):
    return uuid.UUID(shell.rows(f"topics describe {topic}")[0]["id"])


# --- patterns ---


@pytest.mark.parametrize(
    ("line", "key", "found"),
    [
        ("topics list -r a-.*", "topic", ["a-1", "a-2"]),
        ("topics list -r a-1 b", "topic", ["a-1", "b"]),
        ("topics list b", "topic", ["b"]),
        ("topics list --long -r a-.*", "topic", ["a-1", "a-2"]),
        ("topics describe --regex a-.*", "topic", ["a-1", "a-2"]),
        ("topics delete -r --dry-run a-.*", "topic", ["a-1", "a-2"]),
        ("groups describe -r g-.*", "group_id", ["g-1", "g-2"]),
        ("groups delete -r --dry-run .-1", "group", ["g-1"]),
    ],
)
def test_a_pattern_chooses_names_as_a_whole(shell, line, key, found):
    assert [row[key] for row in shell.rows(line)] == found
    assert "b" in shell.ok("topics"), "a dry run deletes nothing"


def test_a_pattern_chooses_the_groups_of_a_lag(shell):
    assert {row["group"] for row in shell.rows("groups lag -r g-.*")} == {"g-1", "g-2"}
    assert {row["group"] for row in shell.rows("groups lag --all --topic b")} == {"g-2"}
    assert {row["topic"] for row in shell.rows("groups lag g-1 --topic a-1")} == {"a-1"}
    assert shell.rows("groups lag g-1 --topic b") == []


def test_a_pattern_deletes(shell):
    assert shell.ok("groups delete -r .*") == ["group g-1: deleted", "group g-2: deleted"]
    assert shell.rows("groups") == []
    assert shell.ok("topics delete -r a-.*") == ["topic a-1: deleted", "topic a-2: deleted"]
    assert shell.ok("topics") == ["b"]


@pytest.mark.parametrize("line", ["topics delete -r c", "topics list -r c", "groups delete -r c", "groups lag -r c"])
def test_a_pattern_that_matches_nothing_is_an_error(shell, line):
    assert "matches c as a whole" in shell.fails(line)


def test_a_pattern_that_is_none_is_an_error(shell):
    assert "a-( is not a regular expression" in shell.fails("topics delete -r 'a-('")


def test_names_that_do_not_exist_are_errors(shell):
    for line in ("topics list nowhere", "topics delete --dry-run nowhere", "groups delete --dry-run nobody"):
        assert "no" in shell.fails(line), line


def test_share_groups(broker, shell):
    with ottla.ShareConsumer(broker.bootstrap_servers, topics="b", group_id="s-1") as consumer:
        consumer.poll(0.5)
    for verb, key in (("describe", "group_id"), ("delete --dry-run", "group")):
        assert [row[key] for row in shell.rows(f"share-groups {verb} -r s-.*")] == ["s-1"]
    assert "matches g-1" in shell.fails("share-groups delete -r g-1"), "it is no share group"
    assert [row["group"] for row in shell.rows("share-groups list --state Empty")] == ["s-1"]
    assert shell.rows("share-groups list --state Stable") == []


# --- ids ---


def test_topics_by_id(shell):
    given = id_of(shell, "a-1")
    short = base64.urlsafe_b64encode(given.bytes).decode().rstrip("=")
    for text in (given, given.hex, f"'{short}'" if short[0] != "-" else given):
        assert [row["topic"] for row in shell.rows(f"topics describe --id {text}")] == ["a-1"]
    assert shell.ok(f"topics delete --id {given}") == [f"topic {given}: deleted"]
    assert "a-1" not in shell.ok("topics")
    assert str(given) in shell.fails(f"topics delete --id {given}")
    assert "is not the id of a topic" in shell.fails("topics delete --id a-2")


# --- replicas in sync ---


def test_partitions_by_their_replicas_in_sync(shell):
    shell.ok("topics alter a-1 --set min.insync.replicas=2")
    assert [row["topic"] for row in shell.rows("topics describe --under-min-isr")] == ["a-1"]
    for option, found in (("--at-min-isr", ["a-2", "b"]), ("--with-overrides", ["a-1"])):
        topics = [row["topic"] for row in shell.rows(f"topics describe {option}")]
        assert [topic for topic in topics if not topic.startswith("__")] == found, option


def test_brokers_of_added_partitions(shell):
    node = shell.rows("topics describe b")[0]["partitions"][0]["leader"]
    shell.ok(f"topics add-partitions b --to {node} --to {node}")
    [described] = shell.rows("topics describe b")
    assert [row["replicas"] for row in described["partitions"]] == [[node]] * 3
    assert "b" in shell.fails("topics add-partitions b --to 77")


# --- files ---

FORMS = {
    "csv": "a-1,0,5\na-1,1,6\n",
    "head": "topic,partition,metadata,offset\na-1,0,,5\na-1,1,,6\n",
    "spaces": "a-1 0 5\n\na-1\t1\t6\n",
    "list": json.dumps([{"topic": "a-1", "partition": p, "offset": 5 + p} for p in (0, 1)]),
    "kafka": json.dumps(
        {"version": 1, "partitions": [{"topic": "a-1", "partition": p, "offset": 5 + p} for p in (0, 1)]}
    ),
}


@pytest.fixture(params=FORMS)
def file(request, tmp_path):
    path = tmp_path / "offsets"
    path.write_text(FORMS[request.param])
    return path


def test_offsets_of_a_file(shell, file):
    moved = shell.rows(f"groups reset g-1 --file {file}")
    assert [(row["partition"], row["new_offset"]) for row in moved] == [(0, 5), (1, 6)]
    dry = shell.rows(f"topics trim --file {file} --dry-run")
    assert dry == shell.rows(f"topics trim --file {file}")
    assert [row["start"] for row in shell.rows("topics offsets a-1")] == [5, 6]
    shares = shell.rows(f"share-groups reset s-2 --file {file} --dry-run")
    assert [row["start_offset"] for row in shares] == [5, 6]
    assert shell.rows(f"share-groups reset s-2 --file {file} --topic a-1:1 --dry-run") == shares[1:]


def test_partitions_of_a_file(shell, file, tmp_path):
    assert len(shell.ok(f"groups delete-offsets g-1 --file {file}")) == 2
    assert shell.rows("groups offsets g-1") == []
    path = tmp_path / "partitions"
    path.write_text("b,0\n")
    assert shell.ok(f"groups delete-offsets g-2 --file {path}") == ["partition b:0: forgotten"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a-1,0\n", "line 1: 'a-1,0' is not TOPIC,PARTITION,OFFSET"),
        ("a-1 0 5\na-1 0 five\n", "line 2"),
        ('[{"topic": "a-1", "partition": 0}]', 'write [{"topic": "orders", "partition": 0, "offset": 5}]'),
        ("[", "does not name offsets"),
        ("[]", "has no offsets"),
        ("\n", "has no offsets"),
    ],
)
def test_a_file_that_is_none_is_an_error(shell, tmp_path, text, error):
    path = tmp_path / "offsets"
    path.write_text(text)
    assert error in shell.fails(f"topics trim --file {path}")


def test_offsets_of_another_group(shell):
    moved = shell.rows("groups reset g-3 --to-group g-1 --dry-run")
    assert [(row["old_offset"], row["new_offset"]) for row in moved] == [(None, 3), (None, 4)]
    shell.ok("groups reset g-3 --to-group g-1 --topic a-1:1")
    assert [(row["partition"], row["offset"]) for row in shell.rows("groups offsets g-3")] == [(1, 4)]
    assert "group g-4 has no offsets" in shell.fails("groups reset g-3 --to-group g-4")


@pytest.mark.parametrize("line", ["topics trim --all", "topics trim a-1 --file x", "groups delete-offsets g-1"])
def test_partitions_are_named_once(shell, line):
    code, _, err = shell(line)
    assert (code, "which partitions?" in err) == (2, True)


@pytest.mark.parametrize("given", ["1767225600", "1767225600000", "1767225600000000000", "2026-01-01T00:00Z"])
def test_a_number_is_seconds_milliseconds_or_nanoseconds(given):
    assert times.since(given).timestamp() == 1767225600
