"""`ottla cluster`, `partitions`, `log-dirs` and `transactions` on an embedded cluster."""

from __future__ import annotations

import json

import pytest

import ottla
from ottla.cli import cluster, partitions
from ottla.errors import FencedError
from ottla.testing import Broker
from tests.pace import patience
from tests.python.shell import Shell

PATIENCE = patience(20)


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"flights": 3}, nodes=3) as broker:
        yield broker


@pytest.fixture
def shell(broker, capsys):
    return Shell(capsys, broker.client_config())


def test_cluster(shell):
    [described] = shell.rows("cluster")
    assert [each["broker"] for each in described["brokers"]] == [1, 2, 3]
    assert shell.ok("cluster describe")[0] == f"cluster {described['cluster_id']}  3 brokers"
    assert shell.rows("cluster brokers") == described["brokers"] == shell.rows("cluster brokers --fenced")
    assert sum(row["controller"] for row in described["brokers"]) == 1
    features = {row["feature"]: row["level"] for row in shell.rows("cluster features --broker 1")}
    assert features["share.version"] >= 1
    assert "INVALID_UPDATE_VERSION" in shell.fails("cluster set-features share.version=99 --dry-run")
    assert shell.fails("cluster set-features share.version=0 --downgrade unsafe")
    assert [row["role"] for row in shell.rows("cluster quorum")].count("leader") == 1
    code, out, err = shell("cluster unregister 7 8")
    assert (code, out, err.count("BROKER_ID_NOT_REGISTERED")) == (1, "", 2)
    assert "7" in shell.fails("cluster unregister 7 --controller")


def test_voters(shell):
    """The embedded cluster's quorum is static, as Kafka's is by default: both requests reach it, and it says so."""
    uuid = "2b6e1f9c-0b1d-4b43-9c55-0f6a64a0e5c1"
    add = f"cluster add-voter 4 --endpoint kafka-4:9093 --directory {uuid}"
    assert "UNSUPPORTED_VERSION" in shell.fails(add)
    assert "UNSUPPORTED_VERSION" in shell.fails(f"cluster remove-voter 1 --directory {uuid}")
    assert "say --directory" in shell.fails("cluster add-voter 4 --endpoint kafka-4:9093")
    for wrong in ("kafka-4", "kafka-4:0", ":9093", "://a:1"):
        assert shell(f"cluster add-voter 4 --endpoint {wrong}")[0] == 2
    assert shell(f"{add[:-1]}")[0] == 2


def test_addresses_and_ids_of_voters():
    assert cluster._endpoint("kafka-4:9093") == ottla.RaftEndpoint("CONTROLLER", "kafka-4", 9093)
    assert cluster._endpoint("C1://[::1]:9093") == ottla.RaftEndpoint("C1", "::1", 9093)
    hexadecimal, base64 = cluster._uuid("2b6e1f9c-0b1d-4b43-9c55-0f6a64a0e5c1"), cluster._uuid("K24fnAsdS0OcVQ9qZKDlwQ")
    assert hexadecimal == base64


def test_any_request(shell):
    assert len(json.loads("\n".join(shell.ok("cluster request DescribeCluster")))["brokers"]) == 3
    [response] = shell.rows("""cluster request ListGroups '{"statesFilter": ["Dead"]}' --version 4 --broker 2""")
    assert response["groups"] == []
    assert "NoSuchApi" in shell.fails("cluster request NoSuchApi")
    assert shell("cluster request Metadata '[]'")[0] == 2


def test_log_dirs(shell):
    rows = shell.rows("log-dirs")
    assert [row["broker"] for row in rows] == [1, 2, 3]
    assert {row["error"] for row in rows} == {None}
    assert [row["broker"] for row in shell.rows("log-dirs list --broker 2")] == [2]
    assert len(shell.rows("log-dirs replicas flights")) == 9
    assert {row["broker"] for row in shell.rows("log-dirs replicas flights --broker 3")} == {3}
    path = rows[0]["path"]
    assert shell.ok(f"log-dirs move flights:0 --broker 1 --to {path}") == ["replica flights 0 1: moves"]
    assert "LOG_DIR_NOT_FOUND" in shell.fails("log-dirs move flights:0 --broker 1 --to /no/such")


def test_partitions(shell, tmp_path):
    assert shell.rows("partitions") == []
    assert len(shell.ok("partitions elect flights:0,2")) == 2
    assert shell("partitions elect")[0] == 2
    shell.ok("partitions elect --all")
    assert "did you mean flights?" in shell.fails("partitions elect flight")
    rows = shell.rows("partitions plan flights --replication 2")
    assert sorted(broker for row in rows for broker in row["replicas"]) == [1, 1, 2, 2, 3, 3]
    assert sorted(row["replicas"][0] for row in rows) == [1, 2, 3]
    assert "there are no brokers [9]" in shell.fails("partitions plan flights --brokers 1,9")
    assert "as many brokers" in shell.fails("partitions plan flights --replication 4")
    plan = tmp_path / "plan.json"
    plan.write_text(shell("partitions plan flights --replication 2 --format json")[1])
    wanted = [{key: row[key] for key in ("topic", "partition", "replicas")} for row in rows]
    assert shell.rows(f"partitions reassign --file {plan} --dry-run") == wanted
    plan.write_text(json.dumps({"version": 1, "partitions": wanted[:1]}))
    assert shell.rows(f"partitions reassign --file {plan} --dry-run") == wanted[:1]
    # The embedded broker moves no replicas: where they are already, nothing has to move.
    [described] = shell.rows("topics describe flights")
    here = ",".join(map(str, described["partitions"][0]["replicas"]))
    assert shell.ok(f"partitions reassign flights:0 --to {here}") == ["partition flights:0: moves"]
    [row] = shell.rows(f"partitions verify flights:0 --to {here}")
    assert (row["state"], [str(each) for each in row["replicas"]]) == ("done", here.split(","))
    plan.write_text(json.dumps({"partitions": wanted}))
    assert {row["state"] for row in shell.rows(f"partitions verify --file {plan}")} == {"different"}
    assert shell(f"partitions reassign --file {plan} --throttle fast")[0] == 2
    assert shell("partitions reassign flights --cancel --throttle 1MiB")[0] == 2
    assert partitions._rate("50MiB") == 52_428_800
    assert "INVALID_REPLICA_ASSIGNMENT" in shell.fails("partitions reassign flights:0 --to 1")
    assert "NO_REASSIGNMENT_IN_PROGRESS" in shell.fails("partitions reassign flights --cancel")
    plan.write_text("[]")
    assert "is not a plan" in shell.fails(f"partitions reassign --file {plan}")
    assert shell("partitions reassign --to 1")[0] == 2


def test_transactions(shell, broker):
    with ottla.Producer(broker.bootstrap_servers, transactional_id="tx-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        record = producer.send("flights", b"x").result(PATIENCE)
        [row] = [row for row in shell.rows("transactions") if row["transactional_id"] == "tx-1"]
        assert row["state"] == "Ongoing"
        assert shell.rows("transactions list --state Ongoing --pattern 'tx-.*'") == [row]
        assert shell.rows("transactions list --longer-than 1h") == []
        [described] = shell.rows("transactions describe tx-1 tx-2", code=1)
        assert described["partitions"] == [{"topic": "flights", "partition": record.partition}]
        assert described["open_for"] >= 0
        [writer] = shell.rows(f"transactions producers flights:{record.partition}")
        assert writer["current_transaction_start_offset"] == record.offset
        assert shell.rows("transactions hanging flights --open-for 0s") == [], "its coordinator will end it"
        assert shell.ok("transactions abort tx-1") == ["transactional id tx-1: fenced"]
        with pytest.raises(FencedError):
            producer.commit_transaction()
    assert "tx-2" in shell.fails("transactions abort tx-2")
    assert "tx-2" not in shell.ok("transactions list --format names")
    end = f"transactions abort-hanging flights:{record.partition} --producer-id {writer['producer_id']} --producer-epoch 0"
    assert shell.fails(end), "the producer has another epoch by now"
    assert shell("transactions abort-hanging flights --producer-id 1 --producer-epoch 0")[0] == 2
