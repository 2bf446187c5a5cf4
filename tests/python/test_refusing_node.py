"""One node of three and the client do not accept each other: what it leads fails and says why, and the rest goes on."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker, Certificates
from tests.pace import patience
from tests.python.conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

# Seconds after which records would be given up anyway. Three attempts to connect take less than one.
DEADLINE = 120
# Nodes speak as a release that cannot tell whom a connection is meant for (KIP-1242): another broker plays one of them.
RELEASE = "4.0"


class Cluster(NamedTuple):
    options: dict[str, Any]
    # The address that the node that refuses advertises, and one of its partitions; and those of the others.
    refusing: str
    refused: int
    others: list[int]
    cause: str


def broker(stack: contextlib.ExitStack, **options: Any) -> Broker:
    config = {"connection.failed.authentication.delay.ms": 0}
    return stack.enter_context(Broker(as_version=RELEASE, config=config, **options))


@pytest.fixture(params=["password", "certificate"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Behind the address of node 2 is a broker with another password of the user, or of another authority."""
    with contextlib.ExitStack() as stack:
        options: dict[str, Any]
        if request.param == "password":
            mechanism = ["SASL_PLAINTEXT mechanisms=PLAIN"]
            nodes = broker(stack, nodes=3, topics={"t": 3}, listeners=mechanism, users={"alice": "a-secret"})
            other = broker(stack, listeners=mechanism, users={"alice": "another"})
            options = {"sasl_allow_plaintext": True, **nodes.client_config("alice")}
            cause = "alice is not authenticated by PLAIN"
        else:
            ours, theirs = (stack.enter_context(Certificates()) for _ in range(2))
            nodes = broker(stack, nodes=3, topics={"t": 3}, listeners=["SSL"], tls=ours)
            other = broker(stack, listeners=["SSL"], tls=theirs)
            options = nodes.client_config()
            cause = "not signed by the authority|authority that is not trusted"
        addresses = nodes.bootstrap_servers.split(",")
        options["bootstrap.servers"] = addresses[0]
        options["address.map"] = f"{addresses[1]}={other.bootstrap_servers}"
        leads = [nodes.leader("t", number) for number in range(3)]
        refused = leads.index(2)
        given = {name.replace(".", "_"): value for name, value in options.items()}
        others = [number for number in range(3) if number != refused]
        yield Cluster(given, addresses[1], refused, others, cause)


def named(error: errors.KafkaError, cluster: Cluster) -> None:
    assert isinstance(error, errors.AuthenticationError)
    assert (error.partition, error.retriable) == (cluster.refused, False)
    assert error.broker == cluster.refusing
    assert re.search(cluster.cause, str(error))
    assert "secret" not in str(error)


def test_records_for_the_node_fail_and_the_others_are_delivered(api, cluster, caplog):
    begin = time.monotonic()
    client_id = "writer"
    options = cluster.options | {"client_id": client_id}
    with api.producer(**options, linger_ms=0, delivery_timeout_ms=DEADLINE * 1000) as producer:
        for _ in range(2):
            sent = {number: api(producer.send("t", b"v", partition=number)) for number in range(3)}
            assert [api.result(sent[number]).partition for number in cluster.others] == cluster.others
            with pytest.raises(errors.AuthenticationError) as caught:
                api.result(sent[cluster.refused])
            named(caught.value, cluster)
            assert caught.value.written is False
    assert time.monotonic() - begin < DEADLINE / 4
    told = [record for record in caplog.records if record.kind == "Refused"]
    assert [record.levelno for record in told] == [logging.WARNING]
    assert told[0].getMessage().startswith(f"{client_id}: broker 2 ({cluster.refusing}")


def test_a_consumer_reads_the_others_and_says_what_it_cannot_read(api, cluster, caplog):
    with api.producer(**cluster.options, linger_ms=0) as producer:
        for number in cluster.others:
            api.result(api(producer.send("t", b"v%d" % number, partition=number)))
    everything = [ottla.TopicPartition("t", number) for number in range(3)]
    begin = time.monotonic()
    with api.consumer(**cluster.options, auto_offset_reset="earliest") as consumer:
        api(consumer.assign(everything))
        read = api.poll(consumer, len(cluster.others))
        assert sorted(record.partition for record in read) == cluster.others
        with pytest.raises(errors.AuthenticationError) as caught:
            api(consumer.position(everything[cluster.refused]))
        named(caught.value, cluster)
        with pytest.raises(errors.AuthenticationError) as caught:
            api(consumer.poll(1))
        named(caught.value, cluster)
        with pytest.raises(errors.AuthenticationError):
            api(consumer.lag())
    assert time.monotonic() - begin < 3 * PATIENCE
    assert [record.kind for record in caplog.records].count("Refused") >= 1


def test_an_iteration_goes_on_while_the_others_have_records_and_then_raises(api, cluster):
    with api.producer(**cluster.options, linger_ms=0) as producer:
        for number in cluster.others:
            api.result(api(producer.send("t", b"v", partition=number)))
    options = {**cluster.options, "auto_offset_reset": "earliest", "default_api_timeout_ms": int(patience(2000))}
    with api.consumer(**options) as consumer:
        api(consumer.assign([("t", number) for number in range(3)]))
        records = consumer.__aiter__() if api.name == "aio" else iter(consumer)
        assert len(api.take(records, len(cluster.others))) == len(cluster.others)
        with pytest.raises(errors.AuthenticationError) as caught:
            api.take(records, 1)
        named(caught.value, cluster)
