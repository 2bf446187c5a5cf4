"""Clients that wait for a next task of Spark's, which may never come."""

import contextlib
import logging
import socket
import threading

import pytest
from tests.waiting import wait_for_ours

import ottla
from ottla.errors import ClosedError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read import client_pool
from ottla.spark.shared.idle_clients import IdleClients
from ottla.spark.write import producers
from ottla.spark.write.options import WriteOptions
from ottla.testing import Broker


class Client:
    """What is kept, without a broker."""

    def __init__(self):
        self.closed = threading.Event()

    def close(self, timeout):
        assert timeout == 0
        self.closed.set()


def test_the_one_that_was_kept_last_is_taken_first():
    kept = IdleClients(300.0)
    first, second, other = Client(), Client(), Client()
    for key, client in (("a", first), ("a", second), ("b", other)):
        kept.keep(key, client)
    assert kept.waiting() == ["a", "a", "b"]
    assert [kept.take(key) for key in ("a", "a", "a", "b")] == [second, first, None, other]
    assert not any(client.closed.is_set() for client in (first, second, other))


def test_only_what_is_chosen_is_closed():
    kept = IdleClients(300.0)
    clients_ = {key: Client() for key in ("a", "b")}
    for key, client in clients_.items():
        kept.keep(key, client)
    kept.close(lambda key: key == "a")
    assert (clients_["a"].closed.is_set(), clients_["b"].closed.is_set(), kept.waiting()) == (True, False, ["b"])
    kept.close()
    assert clients_["b"].closed.is_set()


def test_a_client_that_nobody_takes_is_closed_and_a_later_one_too():
    kept = IdleClients(0.05)
    for _ in range(2):
        client = Client()
        kept.keep("a", client)
        assert client.closed.wait(30)
        assert kept.take("a") is None


def test_a_broker_that_is_gone_is_not_tried_for_ever(monkeypatch, caplog):
    """Clients that were kept tried it as long as the process lived, and warned each minute."""
    caplog.set_level(logging.CRITICAL, "ottla")
    with Broker(topics=["t"]) as broker:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        reading = ReadOptions.parse({**given, "subscribe": "t"})
        with client_pool.consumer(reading) as consumer:
            consumer.assign([ottla.TopicPartition("t", 0, 0)])
            consumer.poll(0)
        with client_pool.admin(reading) as admin, client_pool.producer(reading) as letters:
            admin.list_topics()
            letters.send("t", b"").result(30)
        with producers.producer(WriteOptions.parse({**given, "topic": "t"})) as producer:
            producer.send("t", b"").result(30)
        address = broker.bootstrap_servers.split(":")
    for kept in (client_pool._idle, producers._idle):
        monkeypatch.setattr(kept, "limit", 0.2)
        kept.close(lambda _: False)  # it looks at the limit again
    wait_for_ours(lambda: client_pool._idle.waiting() == producers._idle.waiting() == [], "idle clients are closed")
    for client in (consumer, letters, producer):
        with pytest.raises(ClosedError):
            client.metrics() if client is consumer else client.send("t", b"")
    with pytest.raises(ClosedError):
        admin.list_topics()
    # Whoever listens there now gets no connection: the clients that would have tried are closed.
    with socket.create_server((address[0], int(address[1]))) as server, contextlib.suppress(TimeoutError):
        server.settimeout(1.5)
        pytest.fail(f"a connection came from {server.accept()[1]}")
