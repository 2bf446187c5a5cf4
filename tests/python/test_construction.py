"""How clients are made, subclassed, and forgotten."""

from __future__ import annotations

import gc
import re
import warnings
import weakref
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, create_autospec

import pytest

import ottla
from ottla import _habits, aio, errors
from ottla.testing import Broker
from tests.waiting import wait_for_ours

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


class Index:
    """As the integers of numpy."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize("cls", [ottla.Producer, aio.Producer], ids=name)
def test_values_of_properties_are_what_they_clearly_mean(cls: Any, tmp_path: Path) -> None:
    for linger in (7, 7.0, "7", Index()):
        cls(NOBODY, linger_ms=linger)
    with pytest.raises(errors.ConfigError, match='linger_ms: must be a whole number .* and was "7.5"'):
        cls(NOBODY, linger_ms=7.5)
    with pytest.raises(
        errors.ConfigError, match="linger_ms: must be str, int, float, bool, a path or a list of str, and was bytes"
    ):
        cls(NOBODY, linger_ms=b"7")
    with pytest.raises(errors.ConfigError, match=re.escape(str(tmp_path / "missing"))):
        cls(NOBODY, security_protocol="SSL", ssl_ca_location=tmp_path / "missing")


def test_addresses_may_have_the_scheme_of_their_listener() -> None:
    with Broker(topics=["t"]) as broker, ottla.Admin(f"PLAINTEXT://{broker.bootstrap_servers}") as admin:
        assert admin.list_topics() == ["t"]
    with pytest.raises(errors.ConfigError, match="set security.protocol to SASL_SSL, or leave the scheme out"):
        ottla.Admin(f"SASL_SSL://{NOBODY}")
    with pytest.raises(errors.ConfigError, match="a scheme that is no security.protocol"):
        ottla.Admin(f"http://{NOBODY}")


def test_what_others_commit_is_answered_with_what_to_write() -> None:
    with Broker(topics=["t"]) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(20)
        with ottla.Consumer(broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            batch = consumer.poll(20)
            with pytest.raises(TypeError, match=r"Of a batch they are batch\.next_offsets"):
                consumer.commit(batch)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"Behind a record it is \{\(record\.topic, record\.partition\)"):
                consumer.commit(batch[0], wait=False)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="offsets are a mapping .* not a int"):
                consumer.commit(3)  # type: ignore[arg-type]
            consumer.commit(batch.next_offsets)


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


NAMED = [cls for cls in [*ALL, ottla.Batch] if cls.__name__ != "Producer"]


# A `__getattr__` would make each call of `send` an eighth slower, so producers have the names as attributes.
@pytest.mark.parametrize("cls", NAMED, ids=name)
def test_a_mock_has_our_names_and_those_of_no_other_client(cls: Any) -> None:
    kind = f"aio.{cls.__name__}" if cls.__module__.startswith("ottla.aio") else cls.__name__
    others = [other for other in _habits._INSTEAD[kind] if not hasattr(cls, other)]
    assert others
    assert set(dir(cls)) & set(others) == set()
    for mock in (create_autospec(cls), create_autospec(cls, instance=True), Mock(spec=cls)):
        for other in others:
            with pytest.raises(AttributeError):
                getattr(mock, other)
    assert callable(create_autospec(cls, instance=True).__len__ if cls is ottla.Batch else create_autospec(cls).close)


@pytest.mark.parametrize("cls", ALL, ids=name)
def test_a_client_says_what_to_write_for_a_name_of_another_one(cls: Any) -> None:
    kind = f"aio.{cls.__name__}" if cls.__module__.startswith("ottla.aio") else cls.__name__
    client = cls(NOBODY, **needs(cls))
    assert set(dir(client)) & set(_habits._INSTEAD[kind]) == set()
    for other, instead in _habits._INSTEAD[kind].items():
        with pytest.raises(AttributeError, match=re.escape(f"write {instead}")):
            getattr(client, other)
