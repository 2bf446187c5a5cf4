"""Fixtures for pytest: brokers, schema registries and certificates.

`ottla_broker`, `start_ottla_broker` and `ottla_registry` are there for each of the usual scopes.

Installing ottla is enough: pytest finds them by its entry point. Without an ending they are those of a test; with
`_class`, `_module` or `_session`, the tests of that scope share them. A fixture of pytest's scope `package` belongs to
the package whose `conftest.py` defines it, so a plugin has none.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.testing import Broker, Certificates, Registry


def _broker(scope: Literal["function", "class", "module", "session"], name: str) -> Callable[[], Iterator[Broker]]:
    @pytest.fixture(scope=scope, name=name)
    def ottla_broker() -> Iterator[Broker]:
        """An embedded broker without security that keeps records of any age; `.bootstrap_servers` is its address."""
        from ottla.testing import Broker

        # By default it deletes what is older than seven days, as Kafka does, and tests may give any time.
        with Broker(config={"log.retention.ms": -1}) as broker:
            yield broker

    return ottla_broker


def _start(
    scope: Literal["function", "class", "module", "session"], name: str
) -> Callable[[], Iterator[Callable[..., Broker]]]:
    @pytest.fixture(scope=scope, name=name)
    def start_ottla_broker() -> Iterator[Callable[..., Broker]]:
        """Start embedded brokers, with the arguments of `ottla.testing.Broker`; they are stopped at the scope's end."""
        from ottla.testing import Broker

        with ExitStack() as running:

            def start(*args: Any, **options: Any) -> Broker:
                return running.enter_context(Broker(*args, **options))

            yield start

    return start_ottla_broker


def _registry(scope: Literal["function", "class", "module", "session"], name: str) -> Callable[[], Iterator[Registry]]:
    @pytest.fixture(scope=scope, name=name)
    def ottla_registry() -> Iterator[Registry]:
        """An embedded schema registry without schemas; `.url` is its address."""
        from ottla.testing import Registry

        with Registry() as registry:
            yield registry

    return ottla_registry


ottla_broker = _broker("function", "ottla_broker")
ottla_broker_class = _broker("class", "ottla_broker_class")
ottla_broker_module = _broker("module", "ottla_broker_module")
ottla_broker_session = _broker("session", "ottla_broker_session")

start_ottla_broker = _start("function", "start_ottla_broker")
start_ottla_broker_class = _start("class", "start_ottla_broker_class")
start_ottla_broker_module = _start("module", "start_ottla_broker_module")
start_ottla_broker_session = _start("session", "start_ottla_broker_session")

ottla_registry = _registry("function", "ottla_registry")
ottla_registry_class = _registry("class", "ottla_registry_class")
ottla_registry_module = _registry("module", "ottla_registry_module")
ottla_registry_session = _registry("session", "ottla_registry_session")


@pytest.fixture(scope="session")
def ottla_certificates() -> Iterator[Certificates]:
    """A throw-away certificate authority for all tests; its files go when the session ends."""
    from ottla.testing import Certificates

    with Certificates() as certificates:
        yield certificates
