"""Real Kafka 4.4.0 behind addresses that mean nothing here: wrong ones are named, bastions and proxies lead to it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.proxies import Http, Socks5

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [REAL]
INSIDE = "kafka.inside.invalid"


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that advertises another, which does not exist."""
    folder = tmp_path_factory.mktemp("hidden")
    config = {"advertised.listeners": f"PLAINTEXT://{INSIDE}:9092"}
    with kafka_for_a_while(folder, version="4.4.0", config=config) as cluster:
        yield str(cluster.st["bootstrap"]["PLAINTEXT"])


def test_a_wrong_advertised_address_is_named_with_who_told_it(hidden, caplog):
    caplog.set_level(logging.INFO, "ottla")
    with (
        ottla.Producer(hidden, max_block_ms=4000, delivery_timeout_ms=4000, request_timeout_ms=2000) as producer,
        pytest.raises(ottla.KafkaError) as caught,
    ):
        producer.send("t", b"value").result(20)
    with ottla.Admin(hidden) as admin, pytest.raises(ottla.KafkaError) as asked:
        admin.create_topics([ottla.NewTopic("t")], timeout=4)
    said = f"broker 1 advertises, according to {hidden}"
    option = f"address.map={INSIDE}:9092=HOST:PORT"
    for text in (str(asked.value), caplog.text):
        assert f"{INSIDE} cannot be looked up" in text
        assert said in text
        assert option in text
    assert caught.value.retriable


@pytest.mark.parametrize("way", ["map", "socks5h", "http"])
def test_a_broker_behind_a_bastion_is_reached(hidden, way):
    port = int(hidden.rpartition(":")[2])

    def works(**properties: Any) -> None:
        topic = f"through-{way}"
        with ottla.Admin(hidden, **properties) as admin:
            admin.create_topics([ottla.NewTopic(topic)], timeout=20)
        with ottla.Producer(hidden, **properties) as producer:
            producer.send(topic, b"value").result(20)
        with ottla.Consumer(hidden, auto_offset_reset="earliest", topics=[topic], **properties) as consumer:
            assert [record.value for record in consumer.poll(20)] == [b"value"]

    if way == "map":
        works(address_map=f"{INSIDE}:9092={hidden}")
        return
    with (Socks5 if way == "socks5h" else Http)({INSIDE: "127.0.0.1"}) as proxy:
        url = f"{way}://127.0.0.1:{proxy.port}"
        # The proxy knows the host, and the map the port: they work together.
        works(proxy_url=url, address_map=f"{INSIDE}:9092={INSIDE}:{port}")
        assert (INSIDE, port) in proxy.asked
