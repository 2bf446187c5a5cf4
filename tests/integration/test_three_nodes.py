"""Real Kafka of three nodes: leaders learned from those before them, a node that refuses a client, all nodes moved."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import ottla
from ottla import errors
from tests.brokers.brokers import HOST
from tests.integration.conftest import REAL, SHORT_SESSIONS, kafka_for_a_while
from tests.integration.controls import Controls, leaders
from tests.integration.peers.base import DEADLINE
from tests.integration.stamps import Sent, read_stamp
from tests.proxies import Forwarded
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]
NODES = 3
# Of the ten ports that the harness keeps for a listener, the nodes take the first three, and these once they have moved.
MOVED = 5


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One after another, the tests change it; each leaves three nodes that are in sync."""
    config = {"auto.leader.rebalance.enable": "false", **SHORT_SESSIONS}
    options = {"version": "4.4.0", "nodes": NODES, "config": config, "heap": "320m", "sasl": "plain"}
    with kafka_for_a_while(tmp_path_factory.mktemp("three"), **options) as cluster:
        yield cluster


class Load:
    """A producer and a consumer at work on partition 0 of a topic, beside what happens to the cluster."""

    def __init__(self, topic: str, producer: ottla.Producer, consumer: ottla.Consumer) -> None:
        self.sent, self.producer, self.consumer = Sent("load", topic), producer, consumer
        self.read: list[int] = []
        consumer.assign([ottla.TopicPartition(topic, 0, 0)])

    def step(self) -> None:
        self.sent.send(self.producer, 0, len(self.sent.deliveries))
        self.take(0.005)

    def take(self, timeout: float) -> None:
        try:
            self.read += [read_stamp(record.value)[3] for record in self.consumer.poll(timeout)]
        except errors.KafkaError as error:
            if not error.retriable:
                raise

    def during(self, story: Callable[[], None]) -> None:
        """Go on while something happens, and a little after it."""
        failure: list[BaseException] = []

        def run() -> None:
            try:
                story()
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        while thread.is_alive():
            self.step()
        assert not failure, failure
        for _ in range(50):
            self.step()

    def check(self, controls: Controls) -> None:
        """Everything was written once and read once, in its order."""
        self.producer.flush(DEADLINE)
        end = time.monotonic() + DEADLINE
        while len(self.read) < len(self.sent.deliveries):
            assert time.monotonic() < end, f"{len(self.read)} of {len(self.sent.deliveries)} records were read"
            self.take(0.2)
        assert self.read == list(range(len(self.sent.deliveries)))
        self.sent.check(controls.log(self.sent.topic, 1))


def said_by(client: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in (r.getMessage() for r in caplog.records) if text.startswith(f"{client}: ")]


def test_the_old_leader_tells_who_is_the_new_one(three: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """KIP-951: nobody waits for metadata to learn that a leader moved."""
    controls, topic = Controls(three), "hinted"
    controls.create(topic, 1)
    caplog.set_level(logging.DEBUG, "ottla")
    with (
        ottla.Producer(controls.bootstrap, client_id="writes", linger_ms=0) as producer,
        ottla.Consumer(controls.bootstrap, client_id="reads") as consumer,
    ):
        load = Load(topic, producer, consumer)
        for _ in range(20):
            load.step()
        producer.flush(DEADLINE)
        caplog.clear()
        load.during(lambda: controls.rotate_leaders(topic))
        load.check(controls)
    for client, api in (("writes", "Produce"), ("reads", "Fetch")):
        said = said_by(client, caplog)
        moved = [at for at, text in enumerate(said) if f"leader of {topic}-0 moved from broker" in text]
        assert moved, f"{client} heard of no new leader"
        before = said[: moved[0]]
        # Metadata may be asked for meanwhile, for its age or another reason: it is not what told.
        assert f"responded to {api} " in before[-1], before


def refuse_alice(cluster: Cluster, node: int) -> None:
    """The node no longer knows her password."""
    file: Path = cluster.dir / f"node{node}.properties"
    text = file.read_text()
    assert 'user_alice="alice-secret"' in text
    file.write_text(text.replace('user_alice="alice-secret"', 'user_alice="another"'))
    cluster.restart(node)


def test_a_node_that_does_not_accept_the_client_is_named(three: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """What the other nodes lead goes on; what needs this one ends with what it said, long before any deadline."""
    controls, topic, node = Controls(three), "split", 3
    admin = AdminClient({"bootstrap.servers": controls.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 2, replica_assignment=[[1], [node]])]).values():
        future.result(DEADLINE)
    refuse_alice(three, node)
    addresses = three.st["bootstrap"]["SASL_PLAINTEXT"].split(",")
    patience = 3.0
    options: dict[str, Any] = {
        "bootstrap_servers": addresses,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_allow_plaintext": True,
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": "alice-secret",
        "default_api_timeout_ms": int(patience * 1000),
    }
    there = ottla.TopicPartition(topic, 1)

    def refused(call: Callable[[], object]) -> None:
        begin = time.monotonic()
        with pytest.raises(errors.AuthenticationError) as caught:
            call()
        assert time.monotonic() - begin < 3 * patience
        said = str(caught.value)
        for word in (addresses[node - 1], "alice", "PLAIN", "sasl.password"):
            assert word in said
        assert "alice-secret" not in said

    with ottla.Producer(**options, delivery_timeout_ms=120_000, linger_ms=0, client_id="writes") as producer:
        assert producer.send(topic, b"v", partition=0).result(DEADLINE).offset == 0
        refused(lambda: producer.send(topic, b"v", partition=1).result(DEADLINE))
        assert producer.send(topic, b"v", partition=0).result(DEADLINE).offset == 1
    with ottla.Consumer(**options) as consumer:
        refused(lambda: consumer.end_offsets([there]))
        assert consumer.end_offsets([(topic, 0)]) == {ottla.TopicPartition(topic, 0): 2}
        consumer.assign([ottla.TopicPartition(topic, 1, 0)])
        refused(lambda: consumer.poll(patience))
        consumer.assign([ottla.TopicPartition(topic, 0, 0)])
        assert len(consumer.poll(DEADLINE, max_records=2)) == 2
    with ottla.Consumer(**options, client_id="reads", auto_offset_reset="earliest") as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0), there])
        records = iter(consumer)
        assert [next(records).partition for _ in range(2)] == [0, 0]
        refused(lambda: consumer.position(there))
        refused(lambda: next(records))
    for client in ("writes", "reads"):
        said = [text for text in said_by(client, caplog) if f"broker {node} ({addresses[node - 1]})" in text]
        assert len(said) == 1
        assert "do not accept each other" in said[0]
    with ottla.Admin(**options) as client:
        assert topic in client.list_topics()
        refused(lambda: client.describe_producers([there]))


def move(cluster: Cluster) -> None:
    """Every node ends, and comes back at another address."""
    names, ports = [f"node{i}" for i in cluster.nodes], cluster.ports
    cluster.end(names, 0)
    before = ports["PLAINTEXT"]
    ports["PLAINTEXT"] = before + MOVED
    for i in cluster.nodes:
        file = cluster.dir / f"node{i}.properties"
        old, new = (f"=PLAINTEXT://{HOST}:{base + i - 1}" for base in (before, ports["PLAINTEXT"]))
        text = file.read_text()
        assert text.count(old) == 2, "what it listens on, and what it advertises"
        file.write_text(text.replace(old, new))
    addresses = [f"{HOST}:{ports['PLAINTEXT'] + i - 1}" for i in cluster.nodes]
    cluster.st["bootstrap"]["PLAINTEXT"] = ",".join(addresses)
    for name in names:
        cluster.spawn(name)
    for i in cluster.nodes:
        cluster.wait_node(i)


def test_a_connection_that_leads_to_another_node_is_noticed(three: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """KIP-1242: a way that leads to another node than it should, and is mended later."""
    controls, topic = Controls(three), "misled"
    controls.create(topic, 1)
    nodes = controls.bootstrap.split(",")
    with controls.admin() as admin:
        leader = nodes[leaders(admin, topic)[0] - 1]
    right, wrong = [(HOST, int(node.rpartition(":")[2])) for node in (leader, next(n for n in nodes if n != leader))]
    others = [node for node in nodes if node != leader]
    again = "beginning again at the bootstrap servers"
    caplog.set_level(logging.INFO, "ottla")
    with Forwarded(wrong) as front:
        options: dict[str, Any] = {"linger_ms": 0, "address_map": f"{leader}={HOST}:{front.port}"}
        with ottla.Producer(others, client_id="checks", **options) as producer:
            sent = producer.send(topic, b"value")
            wait_until(lambda: again in "\n".join(said_by("checks", caplog)), again)
            assert not sent.done()
            front.to = right
            assert sent.result(DEADLINE).offset == 0
        front.to = wrong
        options |= {"metadata_cluster_check_enable": False, "delivery_timeout_ms": 4_000, "request_timeout_ms": 2_000}
        with (
            ottla.Producer(others, client_id="does not", **options) as producer,
            pytest.raises(errors.KafkaError, match="NOT_LEADER_OR_FOLLOWER"),
        ):
            producer.send(topic, b"value").result(DEADLINE)
    assert any("REBOOTSTRAP_REQUIRED" in text for text in said_by("checks", caplog))
    assert not any(again in text for text in said_by("does not", caplog))


def test_a_client_finds_its_cluster_at_new_addresses(three: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """KIP-899 and KIP-1102: every node that it knows is gone, and behind the addresses that it was given there are others."""
    controls, topic = Controls(three), "moved"
    controls.create(topic, 1)
    caplog.set_level(logging.INFO, "ottla")
    with contextlib.ExitStack() as stack:
        known = [(HOST, int(address.rpartition(":")[2])) for address in controls.bootstrap.split(",")]
        fixed = [stack.enter_context(Forwarded(place)) for place in known]
        bootstrap = [f"{HOST}:{front.port}" for front in fixed]
        recovery: dict[str, Any] = {"metadata_recovery_rebootstrap_trigger_ms": 2000}
        produces = {"linger_ms": 0, "delivery_timeout_ms": 60_000, "request_timeout_ms": 5_000}
        producer = stack.enter_context(ottla.Producer(bootstrap, client_id="writes", **recovery, **produces))
        consumer = stack.enter_context(ottla.Consumer(bootstrap, client_id="reads", **recovery))
        load = Load(topic, producer, consumer)
        for _ in range(50):
            load.step()
        producer.flush(DEADLINE)

        def story() -> None:
            move(three)
            for front, (host, port) in zip(fixed, known, strict=True):
                front.to = (host, port + MOVED)

        load.during(story)
        load.check(Controls(three))
    for client in ("writes", "reads"):
        said = "\n".join(said_by(client, caplog))
        assert "beginning again at the bootstrap servers" in said
        assert any(f"connected to {HOST}:{port + MOVED}" in said for _, port in known)
