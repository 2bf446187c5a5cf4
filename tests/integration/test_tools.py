"""Kafka's command line tools print the same on the embedded broker as on real Kafka 4.4.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.testing import Broker
from tests.brokers.running import EMBEDDED_KEPT
from tests.integration import tools
from tests.integration.conftest import REAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]

# Commands whose output differs on the embedded broker, and why.
OWN_TEXT = "the message of the error is the embedded broker's own"
DIFFERENT = {
    "topics-describe": "KRaft with eligible leader replicas sets min.insync.replicas, which the tool prints",
    "topics-describe-configs": "as topics-describe",
    "acls-list": OWN_TEXT,
    "acls-add": OWN_TEXT,
    "shares-describe-missing": OWN_TEXT,
    "features-describe": "the embedded broker has the features that it acts on: no metadata.version, no streams.version",
    "features-unknown": OWN_TEXT,
}


def printed(bootstrap: str, folder: Path) -> dict[str, tuple[int, str]]:
    folder.mkdir()
    tools.fill(bootstrap)
    with ottla.Admin(bootstrap) as admin:
        node = admin.describe_cluster().nodes[0].id
    return tools.run(bootstrap, tools.commands(folder, node))


@pytest.mark.timeout(600)
def test_tools_print_the_same(start_kafka: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = start_kafka(config={"auto.create.topics.enable": "false"})
    real = printed(cluster.st["bootstrap"]["PLAINTEXT"], tmp_path / "real")
    with Broker(config={"auto.create.topics.enable": False, **EMBEDDED_KEPT}) as broker:
        embedded = printed(broker.bootstrap_servers, tmp_path / "embedded")
    assert len(real) == len(tools.commands(tmp_path / "real", 1))
    assert {name: found[0] for name, found in embedded.items()} == {name: found[0] for name, found in real.items()}
    compared = [name for name in real if name not in DIFFERENT]
    assert [embedded[name][1] for name in compared] == [real[name][1] for name in compared]
    equal = {name for name in DIFFERENT if embedded[name] == real[name]}
    assert not equal, "listed as different, and the same"
