"""What a failed delivery says of its record, against what a foreign client finds in the log.

`written=False` promises that the record is not there; a delivery that succeeded, that it is there once. Of None anything may be
true.
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from tests.integration.conftest import REAL
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.confluent import Confluent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]


def fates(sent: dict[bytes, ottla.Delivery]) -> dict[bytes, bool | None]:
    """Of each value: True if it was delivered, else what the error says."""
    fates: dict[bytes, bool | None] = {}
    for value, delivery in sent.items():
        error = delivery.exception(DEADLINE)
        assert error is None or isinstance(error, ottla.KafkaError)
        fates[value] = True if error is None else error.written
    return fates


def compare(kafka: str, topic: str, sent: dict[bytes, ottla.Delivery]) -> Counter[bool | None]:
    """Hold the log against what the deliveries say; how often each thing was said."""
    told = fates(sent)
    held = Counter(m.value for m in Confluent().consume_all(kafka, topic, 1))
    assert set(held) <= set(told)
    assert max(held.values(), default=0) <= 1, "a record is there twice"
    for value, written in told.items():
        if written is not None:
            assert held[value] == written, f"{value[:20]!r}: said {written}, and the log has {held[value]}"
    return Counter(told.values())


def send(producer: ottla.Producer, topic: str, values: list[bytes]) -> dict[bytes, ottla.Delivery]:
    return {value: producer.send(topic, value) for value in values}


def test_records_larger_than_the_topic_takes(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 1, {"max.message.bytes": "1000"})
    values = [b"%03d" % n + b"x" * (5000 if n % 3 else 10) for n in range(30)]
    with ottla.Producer(kafka, linger_ms=20) as producer:
        told = compare(kafka, topic, send(producer, topic, values))
    assert told == {True: 10, False: 20}


class Settled:
    """A delivery that succeeded."""

    def exception(self, _timeout: float) -> None:
        return None


@pytest.fixture(scope="module")
def alone(start_kafka: Callable[..., Cluster]) -> Cluster:
    """A broker that may be frozen, as nobody else uses it."""
    return start_kafka()


def test_a_producer_that_is_closed_in_the_middle(alone: Cluster, new_topic: Callable[..., str]) -> None:
    """The broker stands still, so that records wait however slow the program that sends them is."""
    kafka = alone.st["bootstrap"]["PLAINTEXT"]
    topic = new_topic(kafka)
    producer = ottla.Producer(kafka, linger_ms=5, batch_size=10_000, max_in_flight_requests_per_connection=1)
    producer.send(topic, b"first")
    producer.flush(DEADLINE)
    sent = send(producer, topic, [b"%05d" % n + b"x" * 1000 for n in range(1000)])
    alone.kill("node1", signal.SIGSTOP)
    try:
        sent |= send(producer, topic, [b"%05d" % n + b"x" * 1000 for n in range(1000, 2500)])
        with contextlib.suppress(ottla.KafkaError):
            producer.close(timeout=0)
    finally:
        alone.kill("node1", signal.SIGCONT)
    late = ottla.Producer(kafka)
    late.send(topic, b"behind").result(DEADLINE)
    late.close()
    others = {value: Settled() for value in (b"first", b"behind")}
    told = compare(kafka, topic, {**sent, **others})
    assert told[False] > 0, "what never left is known to be absent"


@pytest.mark.parametrize("acks", ["all", "1"])
def test_a_broker_that_is_frozen_until_deliveries_expire(
    alone: Cluster, new_topic: Callable[..., str], acks: str
) -> None:
    """Those in flight may have been written, those that still wait for them are not."""
    kafka = alone.st["bootstrap"]["PLAINTEXT"]
    topic = new_topic(kafka)
    properties: dict[str, Any] = {"max_in_flight_requests_per_connection": 2, "batch_size": 2000, "linger_ms": 0}
    if acks == "1":
        properties["enable_idempotence"] = False
    producer = ottla.Producer(kafka, acks=acks, delivery_timeout_ms=2000, request_timeout_ms=1000, **properties)
    try:
        sent = send(producer, topic, [b"before"])
        sent[b"before"].result(DEADLINE)
        alone.kill("node1", signal.SIGSTOP)
        sent |= send(producer, topic, [b"%05d" % n + b"x" * 500 for n in range(200)])
        told = Counter(fates(sent).values())
    finally:
        alone.kill("node1", signal.SIGCONT)
    with ottla.Admin(kafka) as admin:
        # Once it answers, it can take a record within `delivery.timeout.ms`.
        admin.list_topics()
    sent |= send(producer, topic, [b"after"])
    producer.close(DEADLINE)
    assert compare(kafka, topic, sent) == told + Counter([True])
    assert told[False] > 0
