"""The pytest fixture `ottla_broker`. Installing ottla is enough: pytest finds it by its entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.testing import Broker


@pytest.fixture
def ottla_broker() -> Iterator[Broker]:
    """Give the test an embedded broker of its own; `.bootstrap_servers` is its address."""
    from ottla.testing import Broker

    with Broker() as broker:
        yield broker
