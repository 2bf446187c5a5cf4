"""An embedded broker, and topics of a hundred records that each library reads."""

from __future__ import annotations

import pytest

import ottla
from ottla.testing import Broker
from tests.brokers.running import EMBEDDED_KEPT
from tests.libraries.topics import START, fill


@pytest.fixture(scope="session")
def address():
    with Broker(config={"auto.create.topics.enable": False, **EMBEDDED_KEPT}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(address, request):
    """A topic of two partitions, of this test alone."""
    name = "".join(letter if letter.isalnum() else "-" for letter in f"{request.path.stem}-{request.node.name}")[:200]
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=2)])
    return name


@pytest.fixture
def numbers(address, topic):
    """Ten records, a second apart, to the two partitions in turn."""
    with ottla.Producer(address) as producer:
        for number in range(10):
            at = START + number * 1000
            producer.send(topic, str(number).encode(), partition=number % 2, timestamp=at).result(20)
    return topic


@pytest.fixture(params=["plain", "transactional"])
def hundred(address, topic, request):
    """A topic of a hundred records that are to be read; with transactions, committed and aborted ones."""
    fill(address, topic, transactional=request.param == "transactional")
    return topic
