"""Wall clocks of brokers that jump: what goes by them follows, forward and back, and what measures durations does not."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import TopicPartition, errors
from ottla.testing import Broker, bearer_token
from tests.python.conftest import PATIENCE
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR, DAY = 3600, 24 * 3600
FIRST = TopicPartition("flights", 0)


def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it is not so, and will not be"
        time.sleep(0.02)


def test_a_broker_stamps_records_with_what_its_clock_shows():
    config = {"log.message.timestamp.type": "LogAppendTime"}
    with (
        Broker(nodes=3, topics=["flights"], config=config) as cluster,
        ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
    ):
        leader = cluster.leader("flights")

        def ahead() -> int:
            """How many hours the time stamp of a record is ahead."""
            stamp = producer.send("flights", b"N123", partition=0).result(PATIENCE).timestamp
            return round((stamp / 1000 - time.time()) / HOUR)

        assert ahead() == 0
        cluster.move_clock(5 * HOUR, node=leader)
        assert ahead() == 5
        cluster.move_clock(-8 * HOUR, node=leader)
        assert ahead() == -3, "moves add up"
        cluster.move_leader("flights", to=leader % 3 + 1)
        assert ahead() == 0, "the clocks of other nodes go right"
        cluster.move_clock(2 * HOUR)
        assert ahead() == 2


def test_records_are_too_old_when_the_clock_says_so():
    with Broker(topics=["flights"], config={"log.retention.check.interval.ms": 20}) as broker:
        servers = broker.bootstrap_servers
        with (
            ottla.Producer(servers, linger_ms=0) as producer,
            ottla.Consumer(servers, auto_offset_reset="earliest") as consumer,
        ):
            for number in range(3):
                producer.send("flights", b"%d" % number).result(PATIENCE)
            broker.move_clock(-30 * DAY)
            time.sleep(0.1)
            assert consumer.beginning_offsets([FIRST]) == {FIRST: 0}
            broker.move_clock(38 * DAY)
            wait_until(lambda: consumer.beginning_offsets([FIRST]) == {FIRST: 3})
            broker.move_clock(-8 * DAY)
            producer.send("flights", b"new").result(PATIENCE)
            consumer.assign([TopicPartition("flights", 0, 1)])
            assert [record.value for record in consumer.poll(PATIENCE)] == [b"new"]


def test_records_of_the_future_are_refused():
    with Broker(topics=["flights"]) as broker, ottla.Producer(broker.bootstrap_servers, linger_ms=0) as producer:
        broker.move_clock(-2 * HOUR)
        with pytest.raises(errors.KafkaError, match="INVALID_TIMESTAMP") as caught:
            producer.send("flights", b"of two hours later").result(PATIENCE)
        assert caught.value.written is False
        broker.move_clock(2 * HOUR)
        assert producer.send("flights", b"of now").result(PATIENCE).offset == 0


def test_a_group_keeps_its_members_and_loses_old_offsets():
    with Broker(topics=["flights"], config={"offsets.retention.check.interval.ms": 20}) as broker:
        servers = broker.bootstrap_servers
        told: list[str] = []
        with (
            ottla.Producer(servers, linger_ms=0) as producer,
            ottla.Consumer(servers, group_id="g", auto_offset_reset="earliest", heartbeat_interval_ms=50) as consumer,
        ):
            consumer.subscribe(
                "flights",
                on_assign=lambda _: told.append("assigned"),
                on_revoke=lambda _: told.append("revoked"),
                on_lost=lambda _: told.append("lost"),
            )
            for days in (0, 30, -90, 60):
                broker.move_clock(days * DAY)
                # Old enough for any clock.
                producer.send("flights", b"%d" % days, timestamp=1).result(PATIENCE)
                assert [record.value for record in consumer.poll(PATIENCE)] == [b"%d" % days]
                time.sleep(0.2)
                consumer.commit()
            assert told == ["assigned"], "sessions are durations"
        with ottla.Consumer(servers, group_id="g") as consumer:
            found = consumer.committed([FIRST])[FIRST]
            assert found is not None
            assert found.offset == 4
            broker.move_clock(8 * DAY)
            wait_until(lambda: consumer.committed([FIRST]) == {FIRST: None})


def test_a_transaction_that_the_clock_says_is_too_old_is_aborted():
    with Broker(topics=["flights"]) as broker:
        servers = broker.bootstrap_servers
        settings = {"transactional_id": "t", "transaction_timeout_ms": 600_000}
        with (
            ottla.Producer(servers, linger_ms=0, **settings) as producer,
            ottla.Consumer(servers, isolation_level="read_committed") as consumer,
        ):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("flights", b"open", partition=0).result(PATIENCE)
            broker.move_clock(-HOUR)
            time.sleep(0.1)
            assert consumer.end_offsets([FIRST]) == {FIRST: 0}, "it is still open"
            broker.move_clock(2 * HOUR)
            # Its record and the marker that aborts it.
            wait_until(lambda: consumer.end_offsets([FIRST]) == {FIRST: 2})
            with pytest.raises(errors.KafkaError):
                producer.commit_transaction()
            consumer.assign([TopicPartition("flights", 0, 0)])
            assert not list(consumer.poll(0.2))


def test_tokens_end_when_the_clock_says_so():
    listeners = ["SASL_PLAINTEXT mechanisms=OAUTHBEARER,SCRAM-SHA-256"]
    with Broker(listeners=listeners, users={"alice": "secret"}) as broker:
        token = bearer_token("alice", lifetime=10 * HOUR)

        def is_let_in() -> bool:
            with Connection(broker.bootstrap_servers) as connection:
                answer = connection.authenticate("OAUTHBEARER", b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01")
                return answer["auth_bytes"] == b""

        assert is_let_in()
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
        with ottla.Admin(broker.bootstrap_servers, config=login) as admin:
            admin.create_delegation_token(max_lifetime=10 * HOUR)
            for hours, valid in ((9, True), (2, False), (-2, True)):
                broker.move_clock(hours * HOUR)
                assert is_let_in() == valid
                # Whoever is connected stays. A delegation token that has ended is gone.
                known = admin.describe_delegation_tokens()
                assert len(known) == (hours == 9)


def test_wrong_moves_are_refused():
    with Broker(nodes=2) as cluster:
        with pytest.raises(errors.ArgumentError, match="there is no node 3; there are 1 to 2"):
            cluster.move_clock(1, node=3)
        for seconds in (math.nan, math.inf):
            with pytest.raises(errors.ArgumentError, match="number of seconds"):
                cluster.move_clock(seconds)
        # No clock shows what no clock can show.
        for seconds in (1e300, -1e300):
            cluster.move_clock(seconds)
            with Connection(cluster.bootstrap_servers.split(",")[0]) as connection:
                assert connection.ask("ApiVersions", 2, {})["error_code"] == 0
