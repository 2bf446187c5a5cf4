"""One test for both facades: `api` is `ottla` or `ottla.aio` behind calls that look the same, and this one also on uvloop."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import aio
from ottla.testing import Broker
from tests.brokers.running import EMBEDDED_KEPT
from tests.pace import patience
from tests.python.decoding import FakeRegistry, Sender
from tests.python.loops import new_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

# Seconds after which a test says that something hangs; what is waited for takes milliseconds.
PATIENCE = patience(20)


class Api:
    """The sync facade: calls are made, and their values are there."""

    name = "sync"
    module: Any = ottla

    def __call__(self, value: Any) -> Any:
        """The value of a call."""
        return value

    def result(self, delivery: Any) -> Any:
        """What became of a delivery, or of many."""
        return delivery.result(PATIENCE)

    def take(self, records: Any, count: int) -> list[Any]:
        """The first items of an iteration."""
        found = []
        for item in records:
            found.append(item)
            if len(found) == count:
                break
        return found

    @contextmanager
    def open(self, kind: str, *args: Any, **options: Any) -> Iterator[Any]:
        """A client, closed at the end."""
        client = getattr(self.module, kind)(*args, **options)
        try:
            yield client
        finally:
            self(client.close(PATIENCE))

    def end(self) -> None:
        """The test has ended."""

    def producer(self, *args: Any, **options: Any) -> Any:
        return self.open("Producer", *args, **options)

    def consumer(self, *args: Any, **options: Any) -> Any:
        return self.open("Consumer", *args, **options)

    def admin(self, *args: Any, **options: Any) -> Any:
        return self.open("Admin", *args, **options)

    def poll(self, consumer: Any, count: int) -> list[ottla.Record]:
        """The next `count` records."""
        found: list[ottla.Record] = []
        while len(found) < count:
            batch = self(consumer.poll(PATIENCE, max_records=count - len(found)))
            assert len(batch), f"{len(found)} of {count} records came"
            found += batch
        return found


class AsyncApi(Api):
    """The asyncio facade, on a loop of its own."""

    name = "aio"
    module = aio
    kind_of_loop = "asyncio"

    def __init__(self) -> None:
        self.loop = new_loop(self.kind_of_loop)

    def __call__(self, value: Any) -> Any:
        if inspect.isawaitable(value) and not isinstance(value, (aio.Delivery, aio.Deliveries)):
            return self.loop.run_until_complete(asyncio.wait_for(value, PATIENCE))
        return value

    def result(self, delivery: Any) -> Any:
        async def wait() -> Any:
            return await delivery

        return self(wait())

    def take(self, records: Any, count: int) -> list[Any]:
        async def take() -> list[Any]:
            found = []
            async for item in records:
                found.append(item)
                if len(found) == count:
                    break
            return found

        return self(take())

    def end(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


class UvloopApi(AsyncApi):
    """The asyncio facade on uvloop."""

    name = "uvloop"
    kind_of_loop = "uvloop"


def each_api(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `api` over each way to call us; over uvloop only where the test, or its file, is marked."""
    if "api" not in metafunc.fixturenames:
        return
    ways: list[type[Api]] = [Api, AsyncApi]
    marked = metafunc.definition.get_closest_marker("uvloop") is not None
    uvloop = [pytest.param(UvloopApi, marks=pytest.mark.needs("uvloop"), id=UvloopApi.name)] if marked else []
    metafunc.parametrize("api", [*(pytest.param(way, id=way.name) for way in ways), *uvloop], indirect=True)


pytest_generate_tests = each_api


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """Our facades, with one way to call them."""
    made = request.param()
    yield made
    made.end()


@pytest.fixture(scope="session")
def _broker() -> Iterator[Broker]:
    with Broker(config={"auto.create.topics.enable": False, **EMBEDDED_KEPT}) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Iterator[Broker]:
    """A broker shared by the session, without faults left over."""
    yield _broker
    _broker.clear_faults()


@pytest.fixture
def address(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(address: str, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions, of this test alone."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:200]
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=2)])
    return name


@pytest.fixture(scope="session")
def batch_of() -> Iterator[Sender]:
    """Makes a batch of values."""
    with Broker() as broker:
        sender = Sender(broker.bootstrap_servers)
        yield sender
        sender.producer.close(PATIENCE)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """An empty schema registry."""
    registry = FakeRegistry()
    yield registry
    registry.close()
