"""The embedded cluster, from Python: nodes that stop and start, leaders and coordinators that move, and what clients keep."""

import time

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker


@pytest.fixture
def cluster():
    with Broker(nodes=3, topics={"flights": 3}) as broker:
        yield broker


def values(broker, count):
    with ottla.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("flights", index) for index in range(3)])
        seen = []
        while len(seen) < count:
            batch = consumer.poll(timeout=10)
            assert batch, f"{len(seen)} of {count} records came"
            seen += [record.value for record in batch]
    return sorted(seen)


def wait_until_in_sync(cluster):
    """A node that just came back, or that a busy machine held up, may not lead yet."""
    end = time.monotonic() + 30
    while any(len(cluster.partition("flights", index).in_sync) < 3 for index in range(3)):
        assert time.monotonic() < end, "the replicas are not in sync"
        time.sleep(0.02)


def test_three_nodes_share_the_leaders(cluster):
    assert cluster.nodes == [1, 2, 3]
    assert len(cluster.bootstrap_servers.split(",")) == 3
    assert sorted(cluster.leader("flights", index) for index in range(3)) == [1, 2, 3]
    state = cluster.partition("flights")
    assert (state.leader_epoch, sorted(state.replicas), state.in_sync) == (0, [1, 2, 3], state.replicas)


@pytest.mark.parametrize("how", ["clean", "kill", "power-loss"])
def test_nothing_acknowledged_is_lost_when_nodes_stop(cluster, how):
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
        for step, node in enumerate([1, 2, 3]):
            sends = [producer.send("flights", b"%d-%d" % (step, i)) for i in range(30)]
            wait_until_in_sync(cluster)
            cluster.stop_node(node, how=how)
            assert node not in cluster.nodes
            assert cluster.leader("flights") not in (node, -1)
            for send in sends:
                send.result(timeout=30)
            cluster.start_node(node)
    assert values(cluster, 90) == sorted(b"%d-%d" % (step, i) for step in range(3) for i in range(30))


def test_leaders_coordinators_and_the_controller_move(cluster):
    leader = cluster.leader("flights")
    to = leader % 3 + 1
    cluster.move_leader("flights", to=to)
    assert (cluster.leader("flights"), cluster.partition("flights").leader_epoch) == (to, 1)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send("flights", b"after", partition=0).result(timeout=30)
        cluster.move_leader("flights", to=leader)
        producer.send("flights", b"back", partition=0).result(timeout=30)
    coordinator = cluster.coordinator("readers")
    cluster.move_coordinator("readers", to=coordinator % 3 + 1)
    assert cluster.coordinator("readers") == coordinator % 3 + 1
    cluster.move_controller(to=2)
    assert cluster.controller == 2
    assert values(cluster, 2) == [b"after", b"back"]


def test_replication_can_stand_still(cluster):
    for node in cluster.nodes:
        cluster.pause_replication(node)
    with ottla.Producer(cluster.bootstrap_servers, acks="1", enable_idempotence=False) as producer:
        producer.send("flights", b"not everywhere", partition=0).result(timeout=30)
    with ottla.Consumer(cluster.bootstrap_servers) as consumer:
        assert consumer.end_offsets([("flights", 0)]) == {ottla.TopicPartition("flights", 0): 0}
        for node in cluster.nodes:
            cluster.resume_replication(node)
        assert values(cluster, 1) == [b"not everywhere"]


def test_an_unclean_leader_loses_what_it_never_had(cluster):
    leader = cluster.leader("flights")
    for node in cluster.nodes:
        cluster.pause_replication(node)
    with ottla.Producer(cluster.bootstrap_servers, acks="1", enable_idempotence=False) as producer:
        producer.send("flights", b"lost", partition=0).result(timeout=30)
    cluster.move_leader("flights", to=leader % 3 + 1, unclean=True)
    for node in cluster.nodes:
        cluster.resume_replication(node)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        assert producer.send("flights", b"instead", partition=0).result(timeout=30).offset == 0
    assert values(cluster, 1) == [b"instead"]


def test_a_leader_that_hears_nothing_takes_what_is_lost(cluster):
    old = cluster.leader("flights")
    with ottla.Producer(cluster.bootstrap_servers, acks="1", enable_idempotence=False) as producer:
        producer.send("flights", b"kept", partition=0).result(timeout=30)
        assert values(cluster, 1) == [b"kept"], "all replicas have it"
        cluster.pause_metadata(old)
        cluster.move_leader("flights", to=old % 3 + 1)
        # The producer still sends to the leader that it knows.
        assert producer.send("flights", b"lost", partition=0).result(timeout=30).offset == 1
    cluster.resume_metadata(old)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        assert producer.send("flights", b"instead", partition=0).result(timeout=30).offset == 1
    assert values(cluster, 2) == [b"instead", b"kept"]


def test_a_node_can_refuse_everybody():
    users = {"alice": "right"}
    listeners = ["SASL_PLAINTEXT mechanisms=PLAIN"]
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "right",
        "sasl.allow.plaintext": "true",
    }
    with Broker(nodes=3, topics={"flights": 3}, listeners=listeners, users=users) as cluster:
        leader = cluster.leader("flights")
        cluster.refuse_logins(leader)
        with ottla.Producer(cluster.bootstrap_servers, config=login) as producer:
            refused = producer.send("flights", b"refused", partition=0)
            assert refused.exception(timeout=30).broker
            assert isinstance(refused.exception(timeout=30), errors.AuthenticationError)
            cluster.accept_logins(leader)
            producer.send("flights", b"taken", partition=0).result(timeout=30)


def test_wrong_wishes_are_refused(cluster):
    for wish, what in [
        (lambda: cluster.stop_node(4), "there are 1 to 3"),
        (lambda: cluster.stop_node(1, how="softly"), "power-loss"),
        (lambda: cluster.pause_metadata(4), "there are 1 to 3"),
        (lambda: cluster.refuse_logins(4), "there are 1 to 3"),
        (lambda: cluster.leader("nobody"), "no partition 0"),
        (lambda: cluster.move_leader("flights", 7, to=1), "no partition 7"),
    ]:
        with pytest.raises(errors.ArgumentError, match=what):
            wish()
    cluster.stop_node(2)
    with pytest.raises(errors.ArgumentError, match="not up"):
        cluster.move_leader("flights", to=2)
    with Broker() as alone, pytest.raises(errors.ArgumentError, match="more than one node"):
        alone.stop_node(1)
