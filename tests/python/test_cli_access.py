"""`ottla configs`, `acls`, `users`, `quotas` and `tokens` on the embedded broker."""

from __future__ import annotations

import pytest

import ottla
from ottla.testing import Broker
from tests.python.shell import Shell


@pytest.fixture(scope="module")
def broker():
    with Broker(
        topics={"flights": 1},
        users={"admin": "admin-secret", "alice": "alice-secret"},
        acls=["alice read topic:flights"],
        super_users=["admin"],
    ) as broker:
        yield broker


@pytest.fixture
def shell(broker, capsys):
    return Shell(capsys, broker.client_config("admin"))


@pytest.fixture
def alice(broker, capsys):
    return Shell(capsys, broker.client_config("alice"))


def test_configs(shell):
    assert shell.ok("configs set topic/flights retention.ms=1 --dry-run") == [
        "configuration topic/flights retention.ms: can be set"
    ]
    assert shell.rows("configs get topic/flights") == []
    shell.ok("configs set topic/flights retention.ms=5000 cleanup.policy=compact")
    shell.ok("configs set topic/flights --append cleanup.policy=delete")
    found = {row["name"]: row["value"] for row in shell.rows("configs get topic/flights")}
    assert found == {"retention.ms": "5000", "cleanup.policy": "compact,delete"}
    shell.ok("configs set topic/flights --subtract cleanup.policy=delete")
    [row] = shell.rows("configs get topic/flights cleanup.policy --doc")
    assert (row["value"], row["source"], row["resource"]) == ("compact", "DYNAMIC_TOPIC_CONFIG", "topic/flights")
    assert row["documentation"]
    assert row["synonyms"][0]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert len(shell.rows("configs get topic/flights --all")) > 10
    assert len(shell.rows("configs get broker/1 --all")) > 10
    shell.ok("configs unset topic/flights retention.ms cleanup.policy")
    assert shell.rows("configs get topic/flights") == []
    assert "no configuration rtention.ms" in shell.fails("configs get topic/flights rtention.ms")
    rows = shell.rows("configs get topic/flights broker/1 compression.type")
    assert [(row["resource"], row["name"]) for row in rows] == [
        ("topic/flights", "compression.type"),
        ("broker/1", "compression.type"),
    ]
    assert shell("configs get topic/flights topc/audit")[0] == 2
    assert "retention.ms" in shell.fails("configs set topic/flights retention.ms=long")
    resources = [(row["type"], row["name"]) for row in shell.rows("configs list")]
    assert ("topic", "flights") in resources
    assert {row["type"] for row in shell.rows("configs list --type broker")} == {"broker"}
    for wrong, hint in (("configs get topc/flights", "did you mean topic?"), ("configs get flights", "TYPE/NAME")):
        code, _, err = shell(wrong)
        assert code == 2
        assert hint in err
    assert shell("configs set topic/flights")[0] == 2


def test_configs_of_client_metrics(shell):
    done = shell.ok(
        "configs set client-metrics/sent metrics=org.apache.kafka.producer. interval.ms=10s match=client_id=shop.*"
    )
    assert done == [f"configuration client-metrics/sent {name}: set" for name in ("metrics", "interval.ms", "match")]
    rows = shell.rows("configs get client-metrics/sent")
    assert {(row["name"], row["value"], row["source"]) for row in rows} == {
        ("interval.ms", "10000", "DYNAMIC_CLIENT_METRICS_CONFIG"),
        ("match", "client_id=shop.*", "DYNAMIC_CLIENT_METRICS_CONFIG"),
        ("metrics", "org.apache.kafka.producer.", "DYNAMIC_CLIENT_METRICS_CONFIG"),
    }
    assert shell.rows("configs list --type client-metrics") == [{"type": "client-metrics", "name": "sent"}]
    assert "interval.ms" in shell.fails("configs set client-metrics/sent interval.ms=10")
    assert "client_id" in shell.fails("configs set client-metrics/sent match=client-id=a")
    shell.ok("configs unset client-metrics/sent metrics interval.ms match")
    assert shell.rows("configs get client-metrics/sent") == []
    assert len(shell.rows("configs get client-metrics/sent --all")) == 3
    assert shell.rows("configs list --type client-metrics") == []


def test_acls(shell):
    first = shell.rows("acls")
    assert [(row["principal"], row["operation"]) for row in first] == [("User:alice", "READ")]
    shell.ok(
        "acls create --principal bob --operation read,describe --topic 'flights-*' --group billing --host 127.0.0.1"
    )
    shell.ok("acls create --principal '*' --operation write --topic flights --deny")
    shell.ok("acls create --principal bob --operation alter --cluster")
    rules = {
        (row["permission"], row["operation"], row["resource_type"], row["name"], row["pattern_type"], row["host"])
        for row in shell.rows("acls list --principal bob")
    }
    assert rules == {
        ("ALLOW", "READ", "TOPIC", "flights-", "PREFIXED", "127.0.0.1"),
        ("ALLOW", "DESCRIBE", "TOPIC", "flights-", "PREFIXED", "127.0.0.1"),
        ("ALLOW", "READ", "GROUP", "billing", "LITERAL", "127.0.0.1"),
        ("ALLOW", "DESCRIBE", "GROUP", "billing", "LITERAL", "127.0.0.1"),
        ("ALLOW", "ALTER", "CLUSTER", "kafka-cluster", "LITERAL", "*"),
    }
    assert len(shell.rows("acls list --topic flights-1 --match")) == 2
    assert shell.rows("acls list --topic flights-1") == []
    assert [row["principal"] for row in shell.rows("acls list --deny")] == ["User:*"]
    planned = shell.rows("acls delete --principal bob --operation read --dry-run")
    assert len(planned) == 2
    assert shell.rows("acls delete --principal bob --operation read") == planned
    assert len(shell.rows("acls delete --principal bob")) == 3
    assert len(shell.rows("acls delete --topic flights --deny")) == 1
    assert shell.rows("acls") == first
    for wrong, hint in (
        ("acls create --principal a --operation raed --topic t", "did you mean read?"),
        ("acls create --principal a --operation read", "--topic"),
        ("acls delete", "which rules"),
    ):
        code, _, err = shell(wrong)
        assert code == 2
        assert hint in err


def test_what_is_denied_fails(alice):
    err = alice.fails("acls list")
    assert "AUTHORIZATION_FAILED" in err
    assert alice.rows("acls list", code=1) == []


def test_users(shell, monkeypatch, tmp_path, broker):
    monkeypatch.setenv("CARL", "carl-secret")
    assert shell.ok("users set carl --password-from '${CARL}' --iterations 4096") == ["user carl: SCRAM-SHA-512 set"]
    path = tmp_path / "secret"
    path.write_text("carl-secret\n")
    shell.ok(f"users set carl --mechanism SCRAM-SHA-256 --password-from '${{file:{path}}}'")
    assert shell.rows("users list carl") == [
        {"user": "carl", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"user": "carl", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        config = {**broker.client_config("admin", mechanism=mechanism), "sasl.username": "carl"}
        with ottla.Admin(config={**config, "sasl.password": "carl-secret"}) as admin:
            admin.describe_cluster()
    assert "not the password itself" in shell.fails("users set carl --password-from secret")
    assert "NOT_SET is not set" in shell.fails("users set carl --password-from '${NOT_SET}'")
    assert "nobody" in shell.fails("users list carl nobody")
    shell.ok("users delete carl --mechanism SCRAM-SHA-256")
    assert [row["mechanism"] for row in shell.rows("users list carl")] == ["SCRAM-SHA-512"]
    assert shell.ok("users delete carl") == ["user carl: deleted"]
    assert "carl" not in {row["user"] for row in shell.rows("users")}


def test_a_password_is_read_from_standard_input(shell, monkeypatch, tmp_path):
    path = tmp_path / "password"
    path.write_text("dora-secret\n")
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert shell.ok("users set dora") == ["user dora: SCRAM-SHA-512 set"]
        assert "empty" in shell.fails("users set dora")
    shell.ok("users delete dora")


def test_quotas(shell):
    assert shell.rows("quotas") == []
    shell.ok("quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2e6 --dry-run")
    assert shell.rows("quotas") == []
    shell.ok("quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2e6")
    shell.ok("quotas set --user '<default>' --client-id loader request_percentage=50")
    assert shell.rows("quotas list --user alice") == [
        {"user": "alice", "client_id": None, "ip": None, "quota": "consumer_byte_rate", "value": 2e6},
        {"user": "alice", "client_id": None, "ip": None, "quota": "producer_byte_rate", "value": 1048576},
    ]
    assert shell.rows("quotas list --user '<default>' --strict") == []
    [row] = shell.rows("quotas list --user '<default>'")
    assert (row["user"], row["client_id"], row["value"]) == ("<default>", "loader", 50)
    assert "1048576" in shell.ok("quotas list --user alice")[-1].split()
    shell.ok("quotas unset --user alice producer_byte_rate consumer_byte_rate")
    shell.ok("quotas unset --user '<default>' --client-id loader request_percentage")
    assert shell.rows("quotas") == []
    for wrong, hint in (
        ("quotas set --user a producer_bite_rate=1", "did you mean producer_byte_rate?"),
        ("quotas set --user a producer_byte_rate=fast", "not a number"),
        ("quotas set producer_byte_rate=1", "whose quota"),
    ):
        code, _, err = shell(wrong)
        assert code == 2
        assert hint in err


def test_tokens(shell):
    [made] = shell.rows("tokens create --renewer alice --lifetime 1d")
    assert made["owner"] == "User:admin"
    assert made["ends"] - made["issued"] == 86_400_000
    [listed] = shell.rows("tokens list --owner admin")
    assert (listed["token"], listed["renewers"]) == (made["token"], ["User:alice"])
    assert "hmac" not in listed
    assert shell.rows(f"tokens renew '{made['hmac']}' --period 1h")[0]["expires"] < made["ends"]
    shell.ok(f"tokens expire '{made['hmac']}'")
    assert shell.rows("tokens list") == []
    assert shell("tokens renew '?'")[0] == 2
