"""Each command of ottla on the page of other tools' commands runs, on a broker that has what the page names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ottla
from ottla import cli
from ottla.testing import Broker
from tests.pace import patience
from tests.python.shell import Shell

PAGE = Path(__file__).parents[2] / "docs" / "command-line-equivalents.md"
PATIENCE = patience(20)
LINES = re.findall(r"\| `(ottla [^`]*)` \|$", PAGE.read_text(), re.MULTILINE)
TOOLS = {"kcat", "kaf", "kafkactl", "rpk", "kcl", "kafka"}


@pytest.fixture(scope="module")
def broker():
    with Broker(
        users={"admin": "admin-secret", "alice": "alice-secret"},
        acls=["alice read,write topic:orders"],
        super_users=["admin"],
    ) as broker:
        yield broker


@pytest.fixture
def shell(broker, capsys):
    """The topic has ten records in each of two partitions; two groups have committed; a user is to be deleted."""
    shell = Shell(capsys, broker.client_config("admin"))
    with ottla.Admin(config=broker.client_config("admin")) as admin:
        admin.create_topics(ottla.NewTopic("orders", 2))
        for group in ("billing", "spare"):
            admin.alter_group_offsets(group, {("orders", 0): 3, ("orders", 1): 3})
        admin.alter_user_scram_credentials([ottla.ScramUpsertion("carl", "SCRAM-SHA-256", "carl-secret", 4096)])
        with ottla.Producer(config=broker.client_config("admin")) as producer:
            for partition in (0, 1):
                producer.send_many("orders", [b"x"] * 10, partitions=partition).result(PATIENCE)
        yield shell
        admin.delete_topics(admin.list_topics())
        admin.delete_groups([group.group_id for group in admin.list_groups()])


def test_the_page_is_about_each_tool():
    left = re.findall(r"^\| `(\w+)[^`]*` \| `ottla ", PAGE.read_text(), re.MULTILINE)
    assert set(left) == TOOLS
    assert len(left) == len(LINES)


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_a_command_runs(shell, line, monkeypatch, tmp_path):
    _, verb, *rest = line.split()
    if (verb, rest[0] if rest else "") == ("topics", "delete"):
        shell.ok("topics create made")
    path = tmp_path / "lines"
    path.write_text("key:value\n")
    with path.open() as lines:
        if verb == "produce":
            monkeypatch.setattr("sys.stdin", lines)
        if verb == "completion" or (verb == "config" and rest[0] == "consumer"):
            assert cli.main([verb, *rest]) == 0
            return
        code, _, err = shell(line.removeprefix("ottla "))
    assert (code, [each for each in err.splitlines() if each.startswith("ottla: ")]) == (0, [])
