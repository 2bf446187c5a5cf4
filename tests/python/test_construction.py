"""How clients are made, subclassed, and forgotten."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import aio, errors
from ottla.testing import Broker
from tests.waiting import wait_for_ours

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY = "127.0.0.1:1"
SYNC = [ottla.Producer, ottla.Consumer, ottla.ShareConsumer, ottla.Admin]
ALL = [*SYNC, aio.Producer, aio.Consumer, aio.ShareConsumer, aio.Admin]


def name(cls: type) -> str:
    return f"{'aio.' if 'aio' in cls.__module__ else ''}{cls.__name__}"


def needs(cls: type) -> dict[str, Any]:
    return {"group_id": "g"} if cls.__name__ == "ShareConsumer" else {}


@pytest.fixture(autouse=True)
def unclosed() -> Any:
    """Nothing here connects, so that nothing needs a close."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.mark.parametrize("cls", ALL, ids=name)
def test_a_subclass_may_have_an_init_of_its_own(cls: Any) -> None:
    class Named(cls):
        def __init__(self, label: str, *, more: int) -> None:
            self.label = label, more
            super().__init__(NOBODY, client_id=label, **needs(cls))

    client = Named("mine", more=3)
    assert client.label == ("mine", 3)
    assert isinstance(client, cls)


@pytest.mark.parametrize("cls", [ottla.Producer, ottla.Consumer], ids=name)
def test_a_subclass_that_does_not_call_init_is_told(cls: Any) -> None:
    class Silent(cls):
        def __init__(self) -> None:
            pass

    client = Silent()
    for call in (client.close, client.__enter__, lambda: client.send("t") if cls is ottla.Producer else client.poll(0)):
        with pytest.raises(RuntimeError, match=r"calls super\(\).__init__\(\.\.\.\)"):
            call()
    with pytest.raises(RuntimeError, match="for the second time"):
        cls(NOBODY).__init__(NOBODY)


@pytest.mark.parametrize("cls", [ottla.Producer, ottla.Consumer], ids=name)
def test_arguments_of_other_clients_are_answered_with_what_to_write(cls: Any) -> None:
    for positional, named in [(("topic",), {"bootstrap_servers": NOBODY}), ((NOBODY, "topic"), {})]:
        with pytest.raises(
            TypeError, match=rf'^{cls.__name__} takes only bootstrap_servers .* write {cls.__name__}\("host'
        ):
            cls(*positional, **named)
    with pytest.raises(TypeError, match="config is a dict of properties .* and was a int"):
        cls(NOBODY, config=3)
    # None is as if nothing was given.
    cls(bootstrap_servers=NOBODY, config=None, on_metrics=None)
    with pytest.raises(errors.ConfigError, match="lingerms"):
        cls(NOBODY, lingerms=5)


def refers_back(cls: Any, **more: Any) -> Callable[[], object]:
    def make() -> object:
        kept: list[object] = []
        client = cls(NOBODY, on_metrics=lambda _: kept, **needs(cls), **more)
        kept.append(client)
        return client

    return make


def listens() -> object:
    consumer = ottla.Consumer(NOBODY, group_id="g")
    consumer.subscribe(["t"], on_assign=lambda _: consumer, on_revoke=lambda _: consumer)
    return consumer


def partitions() -> object:
    kept: list[object] = []
    producer = ottla.Producer(NOBODY, partitioner=lambda *_: kept)
    kept.append(producer)
    return producer


@pytest.mark.parametrize("make", [*map(refers_back, ALL), listens, partitions], ids=lambda _: "")
def test_a_client_whose_callback_refers_to_it_is_collected(make: Callable[[], object]) -> None:
    found = weakref.ref(make())
    gc.collect()
    assert found() is None


def test_a_forgotten_consumer_whose_listener_refers_to_it_leaves_its_group() -> None:
    with Broker(topics=["t"]) as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        consumer = ottla.Consumer(broker.bootstrap_servers, group_id="g")

        def join(consumer: ottla.Consumer) -> None:
            consumer.subscribe(["t"], on_assign=lambda _: consumer)
            wait_for_ours(lambda: bool(consumer.poll(0.1) or consumer.assignment()), "an assignment")

        join(consumer)
        assert len(admin.describe_groups(["g"])["g"].members) == 1
        del consumer
        gc.collect()
        wait_for_ours(lambda: not admin.describe_groups(["g"])["g"].members, "it has left")


def test_metrics_are_reported_as_long_as_the_client_is_there() -> None:
    told: list[object] = []
    with ottla.Admin(NOBODY, on_metrics=told.append, metrics_interval_ms=10):
        wait_for_ours(lambda: len(told) >= 3, "three reports")
