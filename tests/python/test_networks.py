"""Ways to a broker: proxies, forwarded ports, several addresses of a name, and what is said of a way that leads nowhere."""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.testing import Broker
from tests.ports import held_port
from tests.proxies import Forwarded, Http, Socks5

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMES = {"socks5h": Socks5, "http": Http}


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[str, int]]:
    """The address of an embedded broker."""
    with Broker(topics={"t": 1}) as running:
        host, _, port = running.bootstrap_servers.rpartition(":")
        yield host, int(port)


def round_trip(bootstrap: str, value: bytes, **properties: str) -> None:
    """Produce and read one record."""
    with ottla.Producer(bootstrap, **properties) as producer:
        sent = producer.send("t", value).result(20)
    with ottla.Consumer(bootstrap, **properties) as consumer:
        consumer.assign([ottla.TopicPartition("t", 0, sent.offset)])
        assert [record.value for record in consumer.poll(20)] == [value]


@pytest.mark.parametrize("user", [None, "me:p@ss:word"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_proxy_looks_names_up_and_carries_all(broker, scheme, user):
    host, port = broker
    given = "me:p%40ss%3Aword@" if user else ""
    with SCHEMES[scheme]({"kafka.inside.invalid": host}, user) as proxy:
        url = f"{scheme}://{given}127.0.0.1:{proxy.port}"
        round_trip(f"kafka.inside.invalid:{port}", scheme.encode(), proxy_url=url)
        assert proxy.asked[0] == ("kafka.inside.invalid", port)
        assert len(proxy.asked) >= 4, "every connection goes through it"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_proxy_that_refuses_is_named_without_the_password(broker, scheme, caplog):
    caplog.set_level(logging.DEBUG, "ottla")
    host, port = broker
    with SCHEMES[scheme]({}, "me:right") as proxy:
        url = f"{scheme}://me:hunter2@127.0.0.1:{proxy.port}"
        with ottla.Admin(f"{host}:{port}", proxy_url=url) as admin:
            with pytest.raises(ottla.errors.UnreachableError) as caught:
                admin.list_topics(timeout=4)
            said = f"{caught.value} {caught.value!r} {admin!r} {caplog.text}"
    assert f"through the proxy {scheme}://127.0.0.1:{proxy.port}" in str(caught.value)
    assert "does not accept the user and the password of proxy.url" in str(caught.value)
    assert "hunter2" not in said


def test_an_advertised_address_is_led_to_a_forwarded_port(broker):
    host, port = broker
    # Everything goes through the forwarded port, or nothing would be found at the name.
    with Forwarded((host, port)) as forwarded:
        mapped = f"{host}:{port}=127.0.0.1:{forwarded.port},kafka.inside.invalid:9092=127.0.0.1:{forwarded.port}"
        round_trip("kafka.inside.invalid:9092", b"mapped", address_map=mapped)
        assert len(forwarded.threads) >= 5, "every connection goes through it"


def test_all_addresses_of_a_name_are_tried(broker, monkeypatch):
    _, port = broker
    addresses = {found[4][0] for found in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM)}
    if len(addresses) < 2:
        pytest.skip("localhost has one address here")
    round_trip(f"localhost:{port}", b"localhost")


def test_a_broker_is_reached_by_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with Broker(topics={"t": 1}, listeners=["PLAINTEXT://[::1]:0"]) as running:
        assert running.bootstrap_servers.startswith("[::1]:")
        round_trip(running.bootstrap_servers, b"six")
        # The first of two ways is closed.
        with held_port() as gone:
            round_trip(f"127.0.0.1:{gone},{running.bootstrap_servers}", b"six after four")


def test_a_name_that_nobody_knows_is_told_when_its_time_is_up():
    """KIP-909: the time begins with the first call; with none, each call waits for its own deadline."""

    def failing(admin: ottla.Admin, timeout: float) -> float:
        begin = time.monotonic()
        with pytest.raises(ottla.errors.KafkaError, match=r"kafka\.nowhere\.invalid"):
            admin.list_topics(timeout=timeout)
        return time.monotonic() - begin

    name = "kafka.nowhere.invalid:9092"
    with ottla.Admin(name, bootstrap_resolve_timeout_ms=500) as hasty, ottla.Admin(name) as patient:
        for _ in range(2):
            assert failing(hasty, 60) < 60
        assert failing(patient, 2) >= 2


def test_a_way_that_is_none_is_refused_at_once():
    for option, value, said in [
        ("proxy_url", "ftp://me:hunter2@host:21", "must be socks5h://"),
        ("proxy_url", "https://me:hunter2@host:443", "must be http://"),
        ("address_map", "kafka-1=localhost:19092", "must be host:port=host:port"),
    ]:
        with pytest.raises(ottla.errors.ConfigError, match=said) as caught:
            ottla.Admin("localhost:9092", **{option: value})
        assert "hunter2" not in f"{caught.value} {caught.value!r}"
