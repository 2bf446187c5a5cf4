"""Share consumers without a share group: settings, arguments, and how they end."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import aio, errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.python.conftest import Api

pytestmark = pytest.mark.uvloop

SETTINGS = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g"}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, r"group\.id: is required"),
        ({"group_id": "g", "share_acquire_mode": "strict"}, r"share_acquire_mode.*record_limit"),
        ({"group_id": "g", "share_acknowledgement_mode": "auto"}, "implicit, explicit"),
        ({"group_id": "g", "auto_offset_reset": "earliest"}, "not of the share-consumer"),
        ({"group_id": "g", "enable_auto_commit": False}, "not of the share-consumer"),
    ],
)
def test_settings_are_checked(api: Api, properties: dict[str, object], said: str) -> None:
    with pytest.raises(errors.ConfigError, match=said):
        api.module.ShareConsumer("127.0.0.1:1", **properties)
    with pytest.raises(errors.ConfigError, match="of the share-consumer"):
        api.module.Consumer("127.0.0.1:1", share_acquire_mode="record_limit")


def test_arguments_are_checked(api: Api) -> None:
    with api.open("ShareConsumer", share_acknowledgement_mode="explicit", **SETTINGS) as consumer:
        with pytest.raises(errors.ArgumentError, match="subscribe to topics first"):
            api(consumer.poll(5))
        with pytest.raises(errors.ArgumentError, match="needs a topic"):
            consumer.subscribe([])
        with pytest.raises(TypeError, match="a Batch or a Record"):
            consumer.acknowledge([1, 2])
        with pytest.raises(errors.ArgumentError, match="accept, release, reject or renew"):
            consumer.acknowledge([1, 2], "retry")
        with pytest.raises(AttributeError, match=r"consumer\.commit\(\)"):
            consumer.commit_sync  # noqa: B018 it is the access that is tested
        assert api(consumer.commit()) == {}
        assert (consumer.subscription(), consumer.assignment(), consumer.lock_timeout()) == ([], [], None)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(consumer)


def test_records_of_another_consumer_are_refused(api: Api, address: str, topic: str) -> None:
    with api.producer(address) as producer:
        api(producer.send(topic, b"v"))
        api(producer.flush())
    with (
        api.consumer(address, topics=topic, auto_offset_reset="earliest") as ordinary,
        api.open("ShareConsumer", share_acknowledgement_mode="explicit", **SETTINGS) as consumer,
    ):
        batch = api(ordinary.poll(10))
        assert (batch.delivery_count, batch[0].delivery_count) == (None, None)
        for records in (batch, batch[0]):
            with pytest.raises(errors.ArgumentError, match="did not come from this share consumer"):
                consumer.acknowledge(records)
        with pytest.raises(errors.ArgumentError, match="the mask has 2 values"):
            consumer.acknowledge(batch, rows=[True, False])
        with pytest.raises(IndexError):
            consumer.acknowledge(batch, rows=[1])


def test_brokers_without_share_groups_are_named(api: Api) -> None:
    with (
        Broker(topics=["t"], as_version="3.9") as broker,
        api.open("ShareConsumer", broker.bootstrap_servers, topics="t", group_id="g") as consumer,
    ):
        with pytest.raises(errors.UnsupportedError, match=r"Kafka 4\.1") as raised:
            api(consumer.poll(15))
        assert raised.value.api == "ShareGroupHeartbeat"


def test_without_a_broker_a_poll_ends_by_its_own_timeout_and_says_why(api: Api) -> None:
    with api.open("ShareConsumer", topics="t", default_api_timeout_ms=600_000, **SETTINGS) as consumer:
        with pytest.raises(errors.UnreachableError, match="127.0.0.1:1"):
            api(consumer.poll(3))
        api(consumer.unsubscribe(0.2))


def test_after_a_close_calls_say_so(api: Api) -> None:
    consumer = api.module.ShareConsumer(topics="t", **SETTINGS)
    api(consumer.close(0))
    api(consumer.close())
    for call in (lambda: api(consumer.poll(1)), lambda: api(consumer.commit()), lambda: consumer.subscribe("t")):
        with pytest.raises(errors.ClosedError):
            call()


def begin(timer: threading.Timer, wait: Callable[[], object]) -> None:
    timer.start()
    wait()


def test_ctrl_c_ends_a_poll_and_a_loop() -> None:
    with ottla.ShareConsumer(topics="t", **SETTINGS) as consumer:
        for wait in (lambda: consumer.poll(60), lambda: next(consumer.batches()), lambda: next(iter(consumer))):
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                begin(timer, wait)
            timer.join()


def test_a_cancelled_poll_leaves_the_next_one_to_another_task() -> None:
    async def run() -> None:
        async with aio.ShareConsumer(topics="t", **SETTINGS) as consumer:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.poll(60), 0.2)
            with pytest.raises(errors.UnreachableError):
                await consumer.poll(3)

    asyncio.run(run())
