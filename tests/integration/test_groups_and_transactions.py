"""Groups and transactions of foreign clients on real Kafka, as our admin clients and others' describe them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

import ottla
from ottla import errors
from tests.brokers import tokens
from tests.brokers.brokers import java_tool
from tests.brokers.shared import shared
from tests.integration.conftest import REAL
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.java import VERSION
from tests.waiting import check_time, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.brokers.brokers import Cluster
    from tests.python.conftest import Api

pytestmark = [REAL]
TRANSACTION = 60_000


@pytest.fixture(params=["4.4.0", pytest.param("2.8.2", marks=pytest.mark.nightly)])
def of_release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with tokens.held(tokens.NODE), shared(tmp_path_factory.mktemp("kafka"), request.param) as cluster:
        yield cluster


def test_groups_are_what_another_client_says(api: Api, of_release: Cluster) -> None:
    address = of_release.st["bootstrap"]["PLAINTEXT"]
    is_told = of_release.st["options"]["version"] == "4.4.0"
    topic, group = f"read-{api.name}", f"readers-{api.name}"
    options = {"bootstrap.servers": address, "group.id": group, "client.id": "app", "group.instance.id": "i-1"}
    options |= {"partition.assignment.strategy": "range", "group.protocol": "classic"}
    with api.admin(address) as admin:
        api(admin.create_topics([ottla.NewTopic(topic, 2, 1)]))
        wait_until(lambda: topic in api(admin.list_topics()), f"the broker knows {topic}")
        foreign, consumer = AdminClient({"bootstrap.servers": address}), Consumer(options)
        try:
            consumer.subscribe([topic])
            end = time.monotonic() + DEADLINE
            while len(consumer.assignment()) < 2:
                check_time(end, "the group has not begun")
                consumer.poll(0.1)
            theirs = foreign.describe_consumer_groups([group])[group].result(DEADLINE)
            ours = api(admin.describe_groups(group))[group]
            assert ours.state.upper() == theirs.state.name == "STABLE"
            assert ours.protocol == theirs.partition_assignor == "range"
            (mine,), (other,) = ours.members, theirs.members
            assert (mine.member_id, mine.client_id, mine.client_host) == (other.member_id, "app", other.host)
            assert mine.group_instance_id == other.group_instance_id == "i-1"
            assert mine.assignment == sorted((p.topic, p.partition) for p in other.assignment.topic_partitions)
            assert mine.assignment == [(topic, 0), (topic, 1)]
            listed = {each.group_id: each for each in api(admin.list_groups())}
            assert listed[group] == ottla.GroupListing(group, "consumer", "Stable", "classic" if is_told else None)
        finally:
            consumer.close()
        with pytest.raises(errors.NotFoundError, match="group nobody"):
            api(admin.describe_groups([group, "nobody"]))


def test_transactions_are_what_kafkas_own_tool_says(api: Api, cluster: Cluster) -> None:
    address = cluster.st["bootstrap"]["PLAINTEXT"]
    topic, one = f"written-{api.name}", f"writer-{api.name}"
    with api.admin(address) as admin:
        api(admin.create_topics([ottla.NewTopic(topic, 2, 1)]))
        wait_until(lambda: topic in api(admin.list_topics()), f"the broker knows {topic}")
        producer = Producer(
            {"bootstrap.servers": address, "transactional.id": one, "transaction.timeout.ms": TRANSACTION}
        )
        producer.init_transactions(DEADLINE)
        idle = api(admin.describe_transactions(one))[one]
        assert (idle.state, idle.started, idle.partitions) == ("Empty", None, [])
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"v", partition=partition)
        assert not producer.flush(DEADLINE)
        found = api(admin.describe_transactions([one]))[one]
        assert (found.transactional_id, found.state, found.timeout) == (one, "Ongoing", TRANSACTION)
        assert found.partitions == [(topic, 0), (topic, 1)]
        assert found.started
        assert abs(time.time() * 1000 - found.started) < 1000 * DEADLINE
        told = said_by_kafka(address, "describe", "--transactional-id", one)
        assert [told[name] for name in ("TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState")] == [
            one,
            str(found.producer_id),
            str(found.producer_epoch),
            found.state,
        ]
        assert int(told["TransactionTimeoutMs"]) == found.timeout
        listed = {each.transactional_id: each for each in api(admin.list_transactions())}
        assert listed[one] == ottla.TransactionListing(one, found.producer_id, "Ongoing")
        producer.commit_transaction(DEADLINE)
        wait_until(
            lambda: api(admin.describe_transactions(one))[one].state == "CompleteCommit", "the transaction has ended"
        )
        with pytest.raises(errors.NotFoundError, match="transactional id nobody"):
            api(admin.describe_transactions("nobody"))


def said_by_kafka(bootstrap: str, *command: str) -> dict[str, str]:
    """The one row that kafka-transactions prints, by the names of its columns."""
    program = "org.apache.kafka.tools.TransactionsCommand"
    said = java_tool(VERSION, program, "--bootstrap-server", bootstrap, *command).decode()
    head, row = (line.split() for line in said.splitlines() if line.strip())
    return dict(zip(head, row, strict=False))
