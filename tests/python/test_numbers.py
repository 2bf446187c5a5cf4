"""Numbers that calls do not take: the error names the argument, what was given and what is allowed; both facades."""

from __future__ import annotations

import math
import re

import pytest

import ottla
from ottla.errors import ArgumentError
from ottla.testing import Broker
from tests.python.conftest import PATIENCE

TOPIC = "flights"
PARTITION = ottla.TopicPartition(TOPIC, 0)
SECONDS = "timeout must be a number of seconds from 0 up, and was "


@pytest.fixture(scope="module")
def address():
    with Broker(topics=[TOPIC]) as broker:
        yield broker.bootstrap_servers


def is_refused(api, call, error, text):
    """Whether the call raises this error at once or when it is awaited."""
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        api(call())


RECORDS = [
    (-1, ArgumentError, "max_records must be an int from 0 up, and was -1"),
    (2**70, ArgumentError, f"max_records must be an int from 0 up, and was {2**70}"),
    (1.5, TypeError, "max_records must be an int from 0 up, and was 1.5 of type float"),
    ("x", TypeError, "max_records must be an int from 0 up, and was 'x' of type str"),
]
TIMEOUTS = [
    (-1, ArgumentError, f"{SECONDS}-1"),
    (math.nan, ArgumentError, f"{SECONDS}NaN"),
    ("x", TypeError, f"{SECONDS}'x' of type str"),
    ([1], TypeError, f"{SECONDS}[1] of type list"),
]


@pytest.mark.parametrize(("given", "error", "text"), RECORDS)
def test_max_records_of_a_poll(api, address, given, error, text):
    with api.consumer(address) as consumer:
        consumer.assign([PARTITION])
        is_refused(api, lambda: consumer.poll(0, max_records=given), error, text)
    with api.open("ShareConsumer", address, group_id="g") as consumer:
        consumer.subscribe([TOPIC])
        is_refused(api, lambda: consumer.poll(0, max_records=given), error, text)


@pytest.mark.parametrize(("given", "error", "text"), TIMEOUTS)
def test_the_timeout_of_each_client(api, address, given, error, text):
    with api.consumer(address, group_id="g") as consumer:
        consumer.assign([PARTITION])
        for call in (
            lambda: consumer.poll(given),
            lambda: consumer.position(PARTITION, timeout=given),
            lambda: consumer.end_offsets([PARTITION], timeout=given),
            lambda: consumer.committed([PARTITION], timeout=given),
            lambda: consumer.commit({PARTITION: 0}, timeout=given),
        ):
            is_refused(api, call, error, text)
    with api.open("ShareConsumer", address, group_id="s") as consumer:
        consumer.subscribe([TOPIC])
        is_refused(api, lambda: consumer.poll(given), error, text)
        is_refused(api, lambda: consumer.commit(timeout=given), error, text)
    with api.producer(address) as producer:
        is_refused(api, lambda: producer.flush(given), error, text)
        is_refused(api, lambda: producer.partitions_for(TOPIC, timeout=given), error, text)
        delivery = api(producer.send(TOPIC, b"v"))
        wait = delivery.result if api.name == "sync" else delivery.wait
        is_refused(api, lambda: wait(given), error, text)
        api.result(delivery)
        # It is also checked where there is nothing to wait for.
        is_refused(api, lambda: wait(given), error, text)
    with api.admin(address) as admin:
        is_refused(api, lambda: admin.list_topics(timeout=given), error, text)


@pytest.mark.parametrize("kind", ["Consumer", "Producer", "Admin", "ShareConsumer"])
def test_the_timeout_of_a_close_is_a_number(api, address, kind):
    with api.open(kind, address, **({"group_id": "g"} if kind == "ShareConsumer" else {})) as client:
        is_refused(api, lambda: client.close("x"), TypeError, f"{SECONDS}'x' of type str")


BITS = "partition must be an int from 0 up that fits 32 bits, and was "
TIME = "timestamp must be an int of milliseconds since 1970 UTC that fits 64 bits, or a datetime with a time zone, and was "


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"partition": "0"}, TypeError, f"{BITS}'0' of type str"),
        ({"partition": 1.5}, TypeError, f"{BITS}1.5 of type float"),
        ({"partition": 2**31}, ArgumentError, f"{BITS}{2**31}"),
        # As Java: no partition has this number, so that there is nothing to wait for.
        ({"partition": -1}, ArgumentError, f"{BITS}-1"),
        ({"timestamp": 1.5}, TypeError, f"{TIME}1.5 of type float"),
        ({"timestamp": "x" * 100}, TypeError, f"{TIME}'{'x' * 59}... of type str"),
        ({"timestamp": 2**70}, ArgumentError, f"{TIME}{2**70}"),
    ],
)
def test_numbers_of_a_record(api, address, given, error, text):
    with api.producer(address) as producer:
        is_refused(api, lambda: producer.send(TOPIC, b"v", **given), error, text)
        ((name, number),) = given.items()
        is_refused(api, lambda: producer.send_many(TOPIC, [b"v"], **{f"{name}s": [number]}), error, text)


def test_a_number_that_raises_keeps_its_own_error(address):
    class Broken:
        def __index__(self):
            raise LookupError("own")

    with ottla.Consumer(address) as consumer, pytest.raises(LookupError, match="own"):
        consumer.poll(0, max_records=Broken())


def test_offsets_and_partitions_that_are_too_large(api, address):
    with api.consumer(address) as consumer:
        consumer.assign([PARTITION])
        for partition, offset, text in (
            (0, 2**70, f'offset of topic "flights" must be an int from 0 up that fits 64 bits, and was {2**70}'),
            (2**40, 0, f'partition of topic "flights" must be an int from 0 up that fits 32 bits, and was {2**40}'),
        ):
            with pytest.raises(ArgumentError, match=text):
                consumer.seek((TOPIC, partition), offset)
        is_refused(api, lambda: consumer.offsets_for_times({PARTITION: 1.5}), TypeError, f"{TIME}1.5 of type float")


def test_numbers_of_an_admin_client(api, address):
    name = "partitions of a NewTopic must be an int that fits 32 bits, and was "
    with api.admin(address) as admin:
        for given, error in (("x", TypeError), (1.5, TypeError), (2**40, ArgumentError)):
            topic = ottla.NewTopic("new", partitions=given)
            is_refused(
                api, lambda topic=topic: admin.create_topics([topic], timeout=PATIENCE), error, f"{name}{given!r}"
            )
        for given, error in (
            ("x", TypeError),
            (-1, ArgumentError),
            (math.inf, ArgumentError),
            (math.nan, ArgumentError),
        ):
            text = f"max_lifetime must be a number of seconds from 0 up, and was {given!r}"
            is_refused(api, lambda given=given: admin.create_delegation_token(max_lifetime=given), error, text)
            text = f"period must be a number of seconds from 0 up, and was {given!r}"
            is_refused(api, lambda given=given: admin.renew_delegation_token(b"t", given), error, text)
