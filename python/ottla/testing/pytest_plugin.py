"""Fixtures for pytest: `ottla_broker`, `start_ottla_broker` and `ottla_certificates`.

Installing ottla is enough: pytest finds them by its entry point.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.testing import Broker, Certificates


@pytest.fixture
def ottla_broker() -> Iterator[Broker]:
    """Give the test an embedded broker of its own; `.bootstrap_servers` is its address."""
    from ottla.testing import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def start_ottla_broker() -> Iterator[Callable[..., Broker]]:
    """Start embedded brokers, with the arguments of `ottla.testing.Broker`; they are stopped after the test."""
    from ottla.testing import Broker

    with ExitStack() as running:

        def start(*args: Any, **options: Any) -> Broker:
            return running.enter_context(Broker(*args, **options))

        yield start


@pytest.fixture(scope="session")
def ottla_certificates() -> Iterator[Certificates]:
    """A throw-away certificate authority for all tests; its files go when the session ends."""
    from ottla.testing import Certificates

    with Certificates() as certificates:
        yield certificates
