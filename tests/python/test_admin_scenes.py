"""Admin calls on the embedded broker do what they do on real Kafka 4.4.0, whose outcomes `tests/integration/test_admin.py` holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.testing import Broker
from tests.admin.outcomes import kept, outcome
from tests.admin.scenes import SCENES
from tests.brokers.running import EMBEDDED_KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator

# Where the embedded broker differs, and why.
DIFFERENT = {
    "share_groups": "it reports the start offset after the acknowledged records at once",
}


@pytest.fixture(scope="module")
def scene_broker() -> Iterator[str]:
    config = {
        "auto.create.topics.enable": False,
        "group.initial.rebalance.delay.ms": 0,
        **EMBEDDED_KEPT,
    }
    with Broker(config=config) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("name", [name for name in SCENES if name not in DIFFERENT])
def test_the_embedded_broker_does_what_kafka_does(name: str, scene_broker: str) -> None:
    assert outcome(name, scene_broker) == kept("4.4.0")[name]


def test_no_difference_is_listed_in_vain() -> None:
    assert DIFFERENT.keys() <= SCENES.keys() == kept("4.4.0").keys()
